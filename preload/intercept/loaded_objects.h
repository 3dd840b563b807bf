// Which objects of one namespace's list of the loader have been looked at.
//
// The loader appends to a list and unlinks from it, and does nothing else to it. So as long as the last object that
// was looked at is still on the list, whatever is new comes after it, and an update reads that one object, its
// predecessor's link and the new ones, however long the list is. When the last one has gone, the one before it takes
// its place. Objects that were unlinked before the last one stay noted until there is as much of that as of the rest.
//
// Every object is read through a reader (sys/guarded_read.h), as another thread may be unlinking it. pthread_create
// and thread-local storage make the loader allocate without its lock, and so does an update then.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "preload/sys/loader_list.h"

namespace heapprof::intercept {

/// What tells an object from another one that was given the same place later.
struct LoadedObject {
  const link_map* map;
  std::uint64_t load_bias;
  const void* dynamic;
  bool operator==(const LoadedObject&) const = default;
};

/// Zeroed memory is a valid one.
class LoadedObjects {
 public:
  static constexpr std::size_t kMaxObjects = 4096;
  using Scratch = LoadedObject[kMaxObjects];

  /// Calls visit(link_map) for each object on the list for which it has not been called. False when the list could
  /// not be read to its end. `compare_all`: the list may have changed without an update, so all of it is compared.
  /// `reader` is a sys::GuardedReader.
  template <typename Reader, typename Visit>
  bool update(const link_map* const* head, Reader& reader, Scratch& scratch, bool compare_all,
              Visit&& visit) noexcept {
    const bool many_unlinked = count_ > 2 * count_after_compare_ + kMinUnlinked ||
                               (count_ == kMaxObjects && count_after_compare_ != kMaxObjects);
    if (compare_all || many_unlinked || count_ == 0) return compare(head, reader, scratch, visit);
    link_map map;
    if (!drop_unlinked_at_end(head, reader, map)) return false;
    const link_map* before = count_ == 0 ? nullptr : noted_[count_ - 1].map;
    const link_map* at = count_ == 0 ? first(head) : map.l_next;
    for (; at != nullptr; before = at, at = map.l_next) {
      if (count_ == kMaxObjects) return overflowed_ = true;
      if (!sys::read_linked(head, before, at, reader, map)) return false;
      noted_[count_++] = {at, map.l_addr, map.l_ld};
      visit(map);
    }
    return true;
  }

  /// There were more than kMaxObjects at some time: an object that an update finds new may be an old one.
  bool overflowed() const noexcept { return overflowed_; }

 private:
  static constexpr std::size_t kMinUnlinked = 64;

  /// Of one object, while the loader unlinks others.
  static constexpr unsigned kMaxTries = 8;

  static const link_map* first(const link_map* const* head) noexcept {
    return __atomic_load_n(head, __ATOMIC_ACQUIRE);
  }

  enum class OnList { kYes, kNo, kUnknown };

  /// Whether the noted object is on the list; its copy goes to `map`.
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
      // Either this object has been unlinked, and keeps its l_prev, or the one before it, and l_prev changes.
      link_map now;
      if (!read(now)) return reader.refused() ? OnList::kUnknown : OnList::kNo;
      if (now.l_prev != map.l_prev) continue;
      // In the middle of unlinking the one before, l_prev is changed already, and that one still stands between.
      const link_map* after = nullptr;
      if (linked != nullptr && reader.read(&linked->l_next, &after, sizeof after) && after == object.map)
        return OnList::kUnknown;
      return OnList::kNo;
    }
    return OnList::kUnknown;
  }

  /// Afterwards the last object noted, if any, is on the list, and a copy of it in `map`. False: that is not known.
  template <typename Reader>
  bool drop_unlinked_at_end(const link_map* const* head, Reader& reader, link_map& map) noexcept {
    for (; count_ != 0; --count_) {
      const OnList on_list = is_on_list(noted_[count_ - 1], head, reader, map);
      if (on_list != OnList::kNo) return on_list == OnList::kYes;
    }
    return true;
  }

  /// The same for the whole list. Those noted objects that are no longer on it are forgotten at the end.
  template <typename Reader, typename Visit>
  bool compare(const link_map* const* head, Reader& reader, Scratch& kept, Visit& visit) noexcept {
    link_map map;
    std::size_t count = 0;  ///< of `kept`
    std::size_t next = 0;  // of the noted ones, which are in the list's order
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
      kept[count++] = object;
      const std::size_t known = find(object, next);
      if (known != count_) {
        next = known + 1;
        continue;
      }
      if (insert(object, next)) ++next;
      visit(map);
    }
    // What the reader did not get to may still be there.
    if (!complete)
      while (next != count_ && count != kMaxObjects) kept[count++] = noted_[next++];
    __builtin_memcpy(noted_, kept, count * sizeof(LoadedObject));
    count_ = count_after_compare_ = count;
    return complete;
  }

  /// The index of `object` among the noted ones, from `next` on; count_: it is not there. What stands before that has
  /// been met, or is no longer on the list: an object that equals it has been loaded again.
  std::size_t find(const LoadedObject& object, std::size_t next) const noexcept {
    for (std::size_t i = next; i != count_; ++i)
      if (noted_[i] == object) return i;
    return count_;
  }

  /// Notes an object that is about to be visited: a signal handler may fork during the visit, and the child must not
  /// visit it again. Wherever this is interrupted, every other object is still noted. False: there is no room.
  bool insert(const LoadedObject& object, std::size_t at) noexcept {
    if (count_ == kMaxObjects) return false;
    for (std::size_t i = count_++; i != at; --i) noted_[i] = noted_[i - 1];
    noted_[at] = object;
    return true;
  }

  Scratch noted_;
  std::size_t count_;
  std::size_t count_after_compare_;
  bool overflowed_;
};

}  // namespace heapprof::intercept
