// Which pages of an address range are resident or swapped, read from the kernel a few MiB at a time.
//
// Every call holds the process's mmap_lock for reading, during which the host's mmap and munmap wait; so a call
// covers at most kMaxPages pages that are resident or swapped, or kMaxMincorePages pages where it returns little of
// each. The ioctl PAGEMAP_SCAN of /proc/self/pagemap does this (Linux 6.7; Documentation/admin-guide/mm/pagemap.rst).
// The kernel takes much longer for a page that it returns than for one that it passes. So in private anonymous memory
// with many resident pages, mincore says which pages are present, and the ioctl only which are swapped, zero or huge.
//
// On older kernels mincore is used for private anonymous memory, which takes a quarter of the time of reading
// pagemap, and pagemap for the rest, because mincore shows pages of files that other processes have read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/residency_codec.h"

namespace heapprof::recorder {

/// Consecutive pages in one state. The layout is that of the kernel's struct page_region.
struct PageRegion {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t categories;  ///< kCategory...
};
inline constexpr std::uint64_t kCategoryPresent = 1 << 3;
inline constexpr std::uint64_t kCategorySwapped = 1 << 4;
inline constexpr std::uint64_t kCategoryZero = 1 << 5;
inline constexpr std::uint64_t kCategoryHuge = 1 << 6;

class PageScan {
 public:
  static constexpr std::size_t kMaxPages = 1024;
  static constexpr std::size_t kMaxMincorePages = 8192;
  /// Smaller ranges of private anonymous memory are not scanned by mincore, except on older kernels. Among them are
  /// those of the kernel, such as [vdso]: mincore shows all their pages as resident.
  static constexpr std::uint64_t kMinAnonymousBytes = std::uint64_t{4} << 20;

  /// Working memory of a scan; the caller provides it, because it is too large for a stack.
  struct Work {
    PageRegion regions[kMaxPages];
    union {
      std::uint64_t words[kMaxPages];            ///< of pagemap
      unsigned char resident[kMaxMincorePages];  ///< of mincore: bit 0 of a page's byte
    };
  };

  struct Result {
    std::uint64_t next;  ///< address at which to continue; the end of the range when it was scanned completely
    /// The first elements of work.regions: pages that are resident or swapped. They follow each other.
    std::size_t regions;
    /// Present pages are those in work.resident, from the first page on, and of the regions; except swapped ones.
    bool has_resident;
    int error;  ///< a negated errno, or 0
  };

  /// `pagemap`: the descriptor of /proc/self/pagemap. `method`: that of the last scan of the process.
  constexpr PageScan(int pagemap, SnapshotMethod method, std::uint64_t page_bytes) noexcept
      : pagemap_(pagemap), method_(method), page_bytes_(page_bytes) {}

  /// Reads one page, to find out what the kernel supports. Call this before the first scan().
  void choose_method(std::uint64_t page, Work& work) noexcept;

  /// Scans a part of [begin, end), at page boundaries: from `begin` to the result's `next`. `anonymous`: the range is
  /// one mapping of private anonymous memory.
  Result scan(std::uint64_t begin, std::uint64_t end, bool anonymous, Work& work) noexcept;

  SnapshotMethod method() const noexcept { return method_; }

 private:
  struct Regions {
    std::uint64_t next;   ///< as in Result
    std::uint64_t bytes;  ///< of all regions
    long count;           ///< or a negated errno
  };
  Regions read_regions(std::uint64_t begin, std::uint64_t end, std::uint64_t wanted, std::uint64_t max_pages,
                       Work& work) const noexcept;
  Result scan_with_ioctl(std::uint64_t begin, std::uint64_t end, Work& work) noexcept;
  Result scan_with_both(std::uint64_t begin, std::uint64_t end, Work& work) noexcept;
  Result scan_with_mincore(std::uint64_t begin, std::uint64_t end, Work& work) const noexcept;
  Result scan_with_pagemap(std::uint64_t begin, std::uint64_t end, Work& work) const noexcept;

  int pagemap_;
  SnapshotMethod method_;
  std::uint64_t page_bytes_;
  std::uint64_t step_bytes_ = kFirstStepBytes;  ///< doubled while nothing is found
  bool knows_guards_ = true;                    ///< the kernel has a category of guard pages (commit a516403787e0)
  bool dense_ = false;                          ///< the last part had many resident pages

  static constexpr std::uint64_t kFirstStepBytes = std::uint64_t{4} << 20;
  static constexpr std::uint64_t kMaxStepBytes = std::uint64_t{1} << 30;
};

}  // namespace heapprof::recorder
