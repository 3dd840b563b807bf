// Which objects of one namespace's list of the loader have been looked at.
//
// The loader appends to a list and unlinks from it, and does nothing else to it. So as long as the last object that
// was looked at is still on the list, whatever is new comes after it, and an update reads that one object, its
// predecessor's link and the new ones, however long the list is. When the last one has gone, the one before it takes
// its place. Objects that were unlinked before the last one stay noted until there is as much of that as of the rest.
//
// Every object is read through a reader (sys/guarded_read.h), as another thread may be unlinking it.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "preload/sys/guarded_read.h"

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
  template <typename Visit>
  bool update(const link_map* first, sys::GuardedReader& reader, Scratch& scratch, bool compare_all,
              Visit&& visit) noexcept {
    const bool many_unlinked = count_ > 2 * count_after_compare_ + kMinUnlinked ||
                               (count_ == kMaxObjects && count_after_compare_ != kMaxObjects);
    if (compare_all || many_unlinked || count_ == 0) return compare(first, reader, scratch, visit);
    link_map map;
    if (!drop_unlinked_at_end(first, reader, map)) return false;
    for (const link_map* at = count_ == 0 ? first : map.l_next; at != nullptr; at = map.l_next) {
      if (count_ == kMaxObjects) return overflowed_ = true;
      if (!reader.read(at, map)) return false;
      visit(map);
      noted_[count_++] = {at, map.l_addr, map.l_ld};
    }
    return true;
  }

  /// There were more than kMaxObjects at some time: an object that an update finds new may be an old one.
  bool overflowed() const noexcept { return overflowed_; }

 private:
  static constexpr std::size_t kMinUnlinked = 64;

  /// Afterwards the last object noted, if any, is on the list, and a copy of it in `map`. False: nothing can be read.
  bool drop_unlinked_at_end(const link_map* first, sys::GuardedReader& reader, link_map& map) noexcept {
    for (; count_ != 0; --count_) {
      const LoadedObject& last = noted_[count_ - 1];
      const link_map* linked = first;
      if (reader.read(last.map, map) && LoadedObject{last.map, map.l_addr, map.l_ld} == last &&
          (map.l_prev == nullptr || reader.read(&map.l_prev->l_next, &linked, sizeof linked)) && linked == last.map)
        return true;
      if (reader.refused()) return false;
    }
    return true;
  }

  /// The same for the whole list. Those noted objects that are no longer on it are forgotten.
  template <typename Visit>
  bool compare(const link_map* first, sys::GuardedReader& reader, Scratch& kept, Visit& visit) noexcept {
    link_map map;
    std::size_t count = 0;  ///< of `kept`
    std::size_t next = 0;  // of the noted ones, which are in the list's order
    bool complete = true;
    for (const link_map* at = first; at != nullptr; at = map.l_next) {
      if (count == kMaxObjects) {
        overflowed_ = true;
        break;
      }
      complete = reader.read(at, map);
      if (!complete) break;
      const LoadedObject object{at, map.l_addr, map.l_ld};
      const std::size_t known = find(object, next);
      if (known != count_) next = known + 1;
      else visit(map);
      kept[count++] = object;
    }
    // What the reader did not get to may still be there.
    if (!complete)
      while (next != count_ && count != kMaxObjects) kept[count++] = noted_[next++];
    __builtin_memcpy(noted_, kept, count * sizeof(LoadedObject));
    count_ = count_after_compare_ = count;
    return complete;
  }

  /// The index of `object` among the noted ones, from `next` on and then before; count_: it is not there.
  std::size_t find(const LoadedObject& object, std::size_t next) const noexcept {
    for (std::size_t i = next; i != count_; ++i)
      if (noted_[i] == object) return i;
    for (std::size_t i = 0; i != next; ++i)
      if (noted_[i] == object) return i;
    return count_;
  }

  Scratch noted_;
  std::size_t count_;
  std::size_t count_after_compare_;
  bool overflowed_;
};

}  // namespace heapprof::intercept
