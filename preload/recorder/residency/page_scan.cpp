#include "preload/recorder/residency/page_scan.h"

#include <sys/ioctl.h>

#include <cerrno>

#include "preload/sys/kernel.h"

namespace heapprof::recorder {

namespace {

/// struct pm_scan_arg of linux/fs.h (Linux 6.7), which the headers of Debian 12 lack.
struct ScanArguments {
  std::uint64_t size;
  std::uint64_t flags;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t walk_end;
  std::uint64_t regions;
  std::uint64_t max_regions;
  std::uint64_t max_pages;
  std::uint64_t inverted;
  std::uint64_t all_of;
  std::uint64_t any_of;
  std::uint64_t returned;
};
constexpr std::uint64_t kCategoryGuard = 1 << 8;
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);

constexpr std::uint64_t smaller(std::uint64_t a, std::uint64_t b) noexcept { return a < b ? a : b; }

/// Whether so many pages are resident that mincore takes less time than the ioctl: at least 45 %. mincore takes some
/// 1 ns for a page that is resident and 9 for one that is not; the ioctl 13 for one that it returns and 2 for others.
constexpr bool is_dense(std::uint64_t resident, std::uint64_t all) noexcept { return resident * 20 >= all * 9; }

}  // namespace

void PageScan::choose_method(std::uint64_t page, Work& work) noexcept {
  if (method_ != SnapshotMethod::kPagemapScan) return;
  knows_guards_ = true;
  int error = scan_with_ioctl(page, page + page_bytes_, work).error;
  if (error == -EINVAL) {
    knows_guards_ = false;
    error = scan_with_ioctl(page, page + page_bytes_, work).error;
  }
  // Before Linux 6.7; emulators and sandboxes answer ENOSYS, as sys::call() does while system calls are forbidden.
  if ((error == -ENOTTY || error == -EINVAL || error == -ENOSYS) && !sys::forbidden())
    method_ = SnapshotMethod::kMincore;
}

PageScan::Result PageScan::scan(std::uint64_t begin, std::uint64_t end, bool anonymous, Work& work) noexcept {
  if (method_ == SnapshotMethod::kMincore) {
    end = smaller(end, begin + kMaxMincorePages * page_bytes_);
    if (!anonymous) return scan_with_pagemap(begin, end, work);
    const Result result = scan_with_mincore(begin, end, work);
    // Unmapped meanwhile, in part or completely: its pages are left out.
    return result.error == -ENOMEM ? Result{end, 0, false, 0} : result;
  }
  if (anonymous && dense_ && end - begin >= kMinAnonymousBytes) return scan_with_both(begin, end, work);
  return scan_with_ioctl(begin, end, work);
}

/// Calls PAGEMAP_SCAN for pages of the categories `wanted`, until it has found `max_pages` pages. Guard pages
/// (MADV_GUARD_INSTALL, which glibc uses for the stacks of threads) are swapped by their category, but have no
/// content; they are left out.
///
/// `walk_end`, which the kernel returns, is not used: it is that of an earlier part when the scan goes on after the
/// kernel's own buffer was full (fs/proc/task_mmu.c, do_pagemap_scan).
PageScan::Regions PageScan::read_regions(std::uint64_t begin, std::uint64_t end, std::uint64_t wanted,
                                         std::uint64_t max_pages, Work& work) const noexcept {
  ScanArguments arguments{};
  arguments.size = sizeof arguments;
  arguments.start = begin;
  arguments.end = end;
  arguments.regions = reinterpret_cast<std::uint64_t>(work.regions);
  arguments.max_regions = kMaxPages;
  arguments.max_pages = max_pages;
  if (knows_guards_) arguments.all_of = arguments.inverted = kCategoryGuard;
  arguments.any_of = wanted;
  arguments.returned = kCategoryPresent | kCategorySwapped | kCategoryZero | kCategoryHuge;
  const long count = sys::retry_call(SYS_ioctl, pagemap_, static_cast<long>(kPagemapScan), sys::word(&arguments));
  if (sys::failed(count)) return {begin, 0, count};
  std::uint64_t bytes = 0;
  for (long i = 0; i < count; ++i) bytes += work.regions[i].end - work.regions[i].begin;
  const bool all = count < static_cast<long>(kMaxPages) && bytes < max_pages * page_bytes_;
  return {all ? end : work.regions[count - 1].end, bytes, count};
}

PageScan::Result PageScan::scan_with_ioctl(std::uint64_t begin, std::uint64_t end, Work& work) noexcept {
  const Regions found =
      read_regions(begin, smaller(end, begin + step_bytes_), kCategoryPresent | kCategorySwapped, kMaxPages, work);
  if (found.count < 0) return {begin, 0, false, static_cast<int>(found.count)};
  // Page tables without pages take little time, so long ranges without pages are scanned in few calls.
  step_bytes_ = found.count != 0 ? kFirstStepBytes : smaller(step_bytes_ * 2, kMaxStepBytes);
  dense_ = is_dense(found.bytes, found.next - begin);
  return {found.next, static_cast<std::size_t>(found.count), false, 0};
}

PageScan::Result PageScan::scan_with_both(std::uint64_t begin, std::uint64_t end, Work& work) noexcept {
  const Regions found = read_regions(begin, smaller(end, begin + kMaxMincorePages * page_bytes_),
                                     kCategorySwapped | kCategoryZero | kCategoryHuge, kMaxMincorePages, work);
  if (found.count < 0) return {begin, 0, false, static_cast<int>(found.count)};
  Result result = scan_with_mincore(begin, found.next, work);
  // Unmapped meanwhile, in part or completely; or a filter of the host refuses mincore.
  if (result.error != 0) return scan_with_ioctl(begin, end, work);
  result.regions = static_cast<std::size_t>(found.count);
  // Eight bytes at a time: the multiplication adds them up in the highest one. Up to seven pages are not counted.
  const std::uint64_t words = (found.next - begin) / page_bytes_ / sizeof work.words[0];
  std::uint64_t resident_pages = 0;
  for (std::uint64_t i = 0; i < words; ++i)
    resident_pages += (work.words[i] & 0x0101010101010101) * 0x0101010101010101 >> 56;
  dense_ = is_dense(resident_pages, words * sizeof work.words[0]);
  return result;
}

/// Precondition: at most kMaxMincorePages pages.
PageScan::Result PageScan::scan_with_mincore(std::uint64_t begin, std::uint64_t end, Work& work) const noexcept {
  const long result =
      sys::call(SYS_mincore, static_cast<long>(begin), static_cast<long>(end - begin), sys::word(work.resident));
  if (sys::failed(result)) return {begin, 0, false, static_cast<int>(result)};
  return {end, 0, true, 0};
}

PageScan::Result PageScan::scan_with_pagemap(std::uint64_t begin, std::uint64_t end, Work& work) const noexcept {
  constexpr std::uint64_t kPresentBit = std::uint64_t{1} << 63, kSwappedBit = std::uint64_t{1} << 62,
                          kGuardBit = std::uint64_t{1} << 58;
  end = smaller(end, begin + kMaxPages * page_bytes_);
  const std::uint64_t wanted = (end - begin) / page_bytes_ * sizeof work.words[0];
  const long result = sys::pread(pagemap_, work.words, wanted, begin / page_bytes_ * sizeof work.words[0]);
  if (sys::failed(result)) return {begin, 0, false, static_cast<int>(result)};
  const std::uint64_t read = static_cast<std::uint64_t>(result) / sizeof work.words[0];
  if (read == 0) return {end, 0, false, 0};  // beyond the end of the address space
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < read; ++i) {
    const std::uint64_t entry = work.words[i];
    const std::uint64_t categories = (entry & kPresentBit) != 0                           ? kCategoryPresent
                                     : (entry & (kSwappedBit | kGuardBit)) == kSwappedBit ? kCategorySwapped
                                                                                          : 0;
    if (categories == 0) continue;
    // There is room for a region for each page.
    const std::uint64_t page = begin + i * page_bytes_;
    PageRegion* const last = count == 0 ? nullptr : &work.regions[count - 1];
    if (last != nullptr && last->end == page && last->categories == categories) last->end += page_bytes_;
    else work.regions[count++] = {page, page + page_bytes_, categories};
  }
  return {begin + read * page_bytes_, count, false, 0};
}

}  // namespace heapprof::recorder
