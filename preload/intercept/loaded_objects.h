// Remembers which objects on one namespace's list of the loader have been visited.
//
// The loader only appends objects to a list and unlinks them. So as long as the last visited object is on the list,
// new objects come after it, and an update reads only that object, the link of its predecessor and the new
// objects. When the last visited object was unloaded, its predecessor takes its place. Entries of other unloaded
// objects stay until the number of entries has more than doubled since the whole list was last compared.
//
// Objects are read through a sys::GuardedReader, because another thread may be unlinking one: pthread_create and
// thread-local storage make the loader allocate without its lock, and an update happens then too.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "preload/sys/loader_list.h"

namespace heapprof::intercept {

/// Identifies an object, and distinguishes it from one that is loaded at the same address later.
struct LoadedObject {
  const link_map* map;
  std::uint64_t load_bias;
  const void* dynamic;
  bool operator==(const LoadedObject&) const = default;
};

/// Zeroed memory is a valid object.
class LoadedObjects {
 public:
  static constexpr std::size_t kMaxObjects = 4096;
  using Scratch = LoadedObject[kMaxObjects];

  /// Calls visit(link_map) for each object on the list that has not been visited. Returns false when the list could
  /// not be read to its end. `compare_all`: the list may have changed without an update, so it is compared
  /// completely. `Reader` is sys::GuardedReader, or a test's.
  template <typename Reader, typename Visit>
  bool update(const link_map* const* head, Reader& reader, Scratch& scratch, bool compare_all,
              Visit&& visit) noexcept {
    const bool many_unlinked = count_ > 2 * count_after_compare_ + kMinUnlinked ||
                               (count_ == kMaxObjects && count_after_compare_ != kMaxObjects);
    if (compare_all || many_unlinked || count_ == 0) return compare(head, reader, scratch, visit);
    link_map map;
    if (!drop_unlinked_at_end(head, reader, map)) return false;
    const link_map* before = count_ == 0 ? nullptr : visited_[count_ - 1].map;
    const link_map* at = count_ == 0 ? first(head) : map.l_next;
    for (; at != nullptr; before = at, at = map.l_next) {
      if (count_ == kMaxObjects) return overflowed_ = true;
      if (!sys::read_linked(head, before, at, reader, map)) return false;
      visited_[count_++] = {at, map.l_addr, map.l_ld};
      visit(map);
    }
    return true;
  }

  /// Whether the list has had more than kMaxObjects: then an update may visit an object a second time.
  bool overflowed() const noexcept { return overflowed_; }

 private:
  static constexpr std::size_t kMinUnlinked = 64;

  /// Attempts to read one object while the loader unlinks others.
  static constexpr unsigned kMaxTries = 8;

  static const link_map* first(const link_map* const* head) noexcept {
    return __atomic_load_n(head, __ATOMIC_ACQUIRE);
  }

  enum class OnList { kYes, kNo, kUnknown };

  /// Whether the visited object is on the list; copies it to `map`.
  template <typename Reader>
  OnList is_on_list(const LoadedObject& object, const link_map* const* head, Reader& reader, link_map& map) noexcept {
    const auto read = [&](link_map& copy) {
      return reader.read(object.map, copy) && LoadedObject{object.map, copy.l_addr, copy.l_ld} == object;
    };
    for (unsigned tries = 0; tries != kMaxTries; ++tries) {
      if (!read(map)) return reader.refused() ? OnList::kUnknown : OnList::kNo;
      const link_map* linked = nullptr;
      if (map.l_prev == nullptr) linked = first(head);
      else if (!reader.read(&map.l_prev->l_next, &linked, sizeof linked)) linked = nullptr;
      if (linked == object.map) return OnList::kYes;
      // Either this object has been unlinked, and keeps its l_prev, or its predecessor has, and l_prev changes.
      link_map now;
      if (!read(now)) return reader.refused() ? OnList::kUnknown : OnList::kNo;
      if (now.l_prev != map.l_prev) continue;
      // If the loader is unlinking the predecessor and has changed l_prev first, the predecessor still links to this
      // object.
      const link_map* after = nullptr;
      if (linked != nullptr && reader.read(&linked->l_next, &after, sizeof after) && after == object.map)
        return OnList::kUnknown;
      return OnList::kNo;
    }
    return OnList::kUnknown;
  }

  /// Removes entries from the end until the last one is on the list, and copies that object to `map`. Returns false
  /// when that cannot be determined.
  template <typename Reader>
  bool drop_unlinked_at_end(const link_map* const* head, Reader& reader, link_map& map) noexcept {
    for (; count_ != 0; --count_) {
      const OnList on_list = is_on_list(visited_[count_ - 1], head, reader, map);
      if (on_list != OnList::kNo) return on_list == OnList::kYes;
    }
    return true;
  }

  /// Updates by comparing the whole list, and removes the entries of unloaded objects.
  template <typename Reader, typename Visit>
  bool compare(const link_map* const* head, Reader& reader, Scratch& found, Visit& visit) noexcept {
    link_map map;
    std::size_t count = 0;  // of `found`
    std::size_t next = 0;   // first entry that can match: entries are in the list's order
    bool complete = true;
    const link_map* before = nullptr;
    for (const link_map* at = first(head); at != nullptr; before = at, at = map.l_next) {
      if (count == kMaxObjects) {
        overflowed_ = true;
        break;
      }
      complete = sys::read_linked(head, before, at, reader, map);
      if (!complete) break;
      const LoadedObject object{at, map.l_addr, map.l_ld};
      found[count++] = object;
      const std::size_t known = find(object, next);
      if (known != count_) {
        next = known + 1;
        continue;
      }
      if (insert(object, next)) ++next;
      visit(map);
    }
    // Objects after the unreadable one may still be on the list.
    if (!complete)
      while (next != count_ && count != kMaxObjects) found[count++] = visited_[next++];
    __builtin_memcpy(visited_, found, count * sizeof(LoadedObject));
    count_ = count_after_compare_ = count;
    return complete;
  }

  /// The index of the entry of `object`, from `next` on; count_: there is none. An equal entry before `next` belongs
  /// to an object that was unloaded: this one has been loaded again.
  std::size_t find(const LoadedObject& object, std::size_t next) const noexcept {
    for (std::size_t i = next; i != count_; ++i)
      if (visited_[i] == object) return i;
    return count_;
  }

  /// Adds an entry before the object is visited: a signal handler may fork during the visit, and the child must not
  /// visit it again. If insert() is interrupted, the entries of all other objects exist. Returns false when
  /// there is no room.
  bool insert(const LoadedObject& object, std::size_t at) noexcept {
    if (count_ == kMaxObjects) return false;
    for (std::size_t i = count_++; i != at; --i) visited_[i] = visited_[i - 1];
    visited_[at] = object;
    return true;
  }

  Scratch visited_;
  std::size_t count_;
  std::size_t count_after_compare_;
  bool overflowed_;
};

}  // namespace heapprof::intercept
