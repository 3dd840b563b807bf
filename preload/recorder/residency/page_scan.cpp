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
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);

constexpr std::uint64_t smaller(std::uint64_t a, std::uint64_t b) noexcept { return a < b ? a : b; }

/// Whether so many pages are resident that mincore takes less time than the ioctl: at least 45 %. mincore takes some
/// 1 ns for a page that is resident and 9 for one that is not; the ioctl 13 for one that it returns and 2 for others.
constexpr bool is_dense(std::uint64_t resident, std::uint64_t all) noexcept { return resident * 20 >= all * 9; }

/// Calls PAGEMAP_SCAN for [begin, end), for pages of the categories `wanted`. Returns the number of regions, or a
/// negated errno. `next`: where the scan ended.
///
/// `walk_end`, which the kernel returns, is not used: it is that of an earlier part when the scan goes on after the
/// kernel's own buffer was full (fs/proc/task_mmu.c, do_pagemap_scan).
long scan_pagemap(int pagemap, std::uint64_t begin, std::uint64_t end, std::uint64_t wanted, std::uint64_t max_pages,
                  std::uint64_t page_bytes, PageScan::Work& work, std::uint64_t& next,
                  std::uint64_t& found_bytes) noexcept {
  ScanArguments arguments{};
  arguments.size = sizeof arguments;
  arguments.start = begin;
  arguments.end = end;
  arguments.regions = reinterpret_cast<std::uint64_t>(work.regions);
  arguments.max_regions = PageScan::kMaxPages;
  arguments.max_pages = max_pages;
  arguments.any_of = wanted;
  arguments.returned = kCategoryPresent | kCategorySwapped | kCategoryZero | kCategoryHuge;
  const long count = sys::retry_call(SYS_ioctl, pagemap, static_cast<long>(kPagemapScan), sys::word(&arguments));
  if (sys::failed(count)) return count;
  found_bytes = 0;
  for (long i = 0; i < count; ++i) found_bytes += work.regions[i].end - work.regions[i].begin;
  const bool all = count < static_cast<long>(PageScan::kMaxPages) && found_bytes < max_pages * page_bytes;
  next = all ? end : work.regions[count - 1].end;
  return count;
}

}  // namespace

void PageScan::choose_method(std::uint64_t page, Work& work) noexcept {
  if (method_ != SnapshotMethod::kPagemapScan) return;
  const int error = scan_with_ioctl(page, page + page_bytes_, work).error;
  // Before Linux 6.7; emulators and sandboxes answer ENOSYS, as sys::call() does while system calls are forbidden.
  if ((error == -ENOTTY || error == -EINVAL || error == -ENOSYS) && !sys::forbidden())
    method_ = SnapshotMethod::kMincore;
}

PageScan::Result PageScan::scan(std::uint64_t begin, std::uint64_t end, bool anonymous, Work& work) noexcept {
  if (method_ == SnapshotMethod::kMincore) {
    end = smaller(end, begin + kMaxBytes * page_bytes_);
    if (!anonymous) return scan_with_pagemap(begin, end, work);
    const Result result = scan_with_mincore(begin, end, work);
    // Unmapped meanwhile, in part or completely: its pages are left out.
    return result.error == -ENOMEM ? Result{end, 0, false, 0} : result;
  }
  if (anonymous && dense_ && end - begin >= kMinAnonymousBytes) return scan_with_both(begin, end, work);
  return scan_with_ioctl(begin, end, work);
}

PageScan::Result PageScan::scan_with_ioctl(std::uint64_t begin, std::uint64_t end, Work& work) noexcept {
  std::uint64_t next = 0, found_bytes = 0;
  const long count =
      scan_pagemap(pagemap_, begin, smaller(end, begin + step_bytes_), kCategoryPresent | kCategorySwapped, kMaxPages,
                   page_bytes_, work, next, found_bytes);
  if (count < 0) return {begin, 0, false, static_cast<int>(count)};
  // Page tables without pages take little time, so long ranges without pages are scanned in few calls.
  step_bytes_ = count != 0 ? kFirstStepBytes : smaller(step_bytes_ * 2, kMaxStepBytes);
  dense_ = is_dense(found_bytes, next - begin);
  return {next, static_cast<std::size_t>(count), false, 0};
}

PageScan::Result PageScan::scan_with_both(std::uint64_t begin, std::uint64_t end, Work& work) noexcept {
  std::uint64_t next = 0, found_bytes = 0;
  const long count =
      scan_pagemap(pagemap_, begin, smaller(end, begin + kMaxBytes * page_bytes_),
                   kCategorySwapped | kCategoryZero | kCategoryHuge, kMaxBytes, page_bytes_, work, next, found_bytes);
  if (count < 0) return {begin, 0, false, static_cast<int>(count)};
  Result result = scan_with_mincore(begin, next, work);
  // Unmapped meanwhile, in part or completely; or a filter of the host refuses mincore.
  if (result.error != 0) return scan_with_ioctl(begin, end, work);
  result.regions = static_cast<std::size_t>(count);
  // Eight bytes at a time: the multiplication adds them up in the highest one. Up to seven pages are not counted.
  const std::uint64_t words = (next - begin) / page_bytes_ / sizeof work.words[0];
  std::uint64_t resident_pages = 0;
  for (std::uint64_t i = 0; i < words; ++i)
    resident_pages += (work.words[i] & 0x0101010101010101) * 0x0101010101010101 >> 56;
  dense_ = is_dense(resident_pages, words * sizeof work.words[0]);
  return result;
}

/// Precondition: at most kMaxBytes pages.
PageScan::Result PageScan::scan_with_mincore(std::uint64_t begin, std::uint64_t end, Work& work) const noexcept {
  const long result =
      sys::call(SYS_mincore, static_cast<long>(begin), static_cast<long>(end - begin), sys::word(work.resident));
  if (sys::failed(result)) return {begin, 0, false, static_cast<int>(result)};
  return {end, 0, true, 0};
}

PageScan::Result PageScan::scan_with_pagemap(std::uint64_t begin, std::uint64_t end, Work& work) const noexcept {
  constexpr std::uint64_t kPresentBit = std::uint64_t{1} << 63, kSwappedBit = std::uint64_t{1} << 62;
  end = smaller(end, begin + kMaxPages * page_bytes_);
  const std::uint64_t wanted = (end - begin) / page_bytes_ * sizeof work.words[0];
  const long result = sys::pread(pagemap_, work.words, wanted, begin / page_bytes_ * sizeof work.words[0]);
  if (sys::failed(result)) return {begin, 0, false, static_cast<int>(result)};
  const std::uint64_t read = static_cast<std::uint64_t>(result) / sizeof work.words[0];
  if (read == 0) return {end, 0, false, 0};  // beyond the end of the address space
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < read; ++i) {
    const std::uint64_t entry = work.words[i];
    const std::uint64_t categories = (entry & kPresentBit) != 0   ? kCategoryPresent
                                     : (entry & kSwappedBit) != 0 ? kCategorySwapped
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
