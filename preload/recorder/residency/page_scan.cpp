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

/// Appends [begin, end) to `count` regions. Returns false when there is no room.
bool append(PageRegion* regions, std::size_t& count, std::uint64_t begin, std::uint64_t end,
            std::uint64_t categories) noexcept {
  if (count != 0 && regions[count - 1].end == begin && regions[count - 1].categories == categories) {
    regions[count - 1].end = end;
    return true;
  }
  if (count == PageScan::kMaxPages) return false;
  regions[count++] = {begin, end, categories};
  return true;
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
  if (method_ == SnapshotMethod::kPagemapScan) return scan_with_ioctl(begin, end, work);
  return anonymous ? scan_with_mincore(begin, end, work) : scan_with_pagemap(begin, end, work);
}

/// `walk_end`, which the kernel returns, is not used: it is that of an earlier part when the scan goes on after the
/// kernel's own buffer was full (fs/proc/task_mmu.c, do_pagemap_scan).
PageScan::Result PageScan::scan_with_ioctl(std::uint64_t begin, std::uint64_t end, Work& work) noexcept {
  end = smaller(end, begin + step_bytes_);
  ScanArguments arguments{};
  arguments.size = sizeof arguments;
  arguments.start = begin;
  arguments.end = end;
  arguments.regions = reinterpret_cast<std::uint64_t>(work.regions);
  arguments.max_regions = kMaxPages;
  arguments.max_pages = kMaxPages;
  arguments.any_of = kCategoryPresent | kCategorySwapped;
  arguments.returned = kCategoryPresent | kCategorySwapped | kCategoryZero | kCategoryHuge;
  const long found = sys::retry_call(SYS_ioctl, pagemap_, static_cast<long>(kPagemapScan), sys::word(&arguments));
  if (sys::failed(found)) return {begin, 0, static_cast<int>(found)};
  const auto count = static_cast<std::size_t>(found);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += work.regions[i].end - work.regions[i].begin;
  // Page tables without pages take little time, so long ranges without pages are scanned in few calls.
  step_bytes_ = count != 0 ? kFirstStepBytes : smaller(step_bytes_ * 2, kMaxStepBytes);
  const bool all = count < kMaxPages && bytes < kMaxPages * page_bytes_;
  return {all ? end : work.regions[count - 1].end, count, 0};
}

PageScan::Result PageScan::scan_with_mincore(std::uint64_t begin, std::uint64_t end, Work& work) const noexcept {
  end = smaller(end, begin + sizeof work.words * page_bytes_);
  auto* const resident = reinterpret_cast<unsigned char*>(work.words);
  const long result =
      sys::call(SYS_mincore, static_cast<long>(begin), static_cast<long>(end - begin), sys::word(resident));
  // Unmapped meanwhile, in part or completely: its pages are left out.
  if (result == -ENOMEM) return {end, 0, 0};
  if (sys::failed(result)) return {begin, 0, static_cast<int>(result)};
  std::size_t count = 0;
  for (std::uint64_t at = begin; at < end; at += page_bytes_)
    if ((resident[(at - begin) / page_bytes_] & 1) != 0 &&
        !append(work.regions, count, at, at + page_bytes_, kCategoryPresent))
      return {at, count, 0};
  return {end, count, 0};
}

PageScan::Result PageScan::scan_with_pagemap(std::uint64_t begin, std::uint64_t end, Work& work) const noexcept {
  constexpr std::uint64_t kPresentBit = std::uint64_t{1} << 63, kSwappedBit = std::uint64_t{1} << 62;
  end = smaller(end, begin + kMaxPages * page_bytes_);
  const std::uint64_t wanted = (end - begin) / page_bytes_ * sizeof work.words[0];
  const long result = sys::pread(pagemap_, work.words, wanted, begin / page_bytes_ * sizeof work.words[0]);
  if (sys::failed(result)) return {begin, 0, static_cast<int>(result)};
  const std::uint64_t read = static_cast<std::uint64_t>(result) / sizeof work.words[0];
  if (read == 0) return {end, 0, 0};  // beyond the end of the address space
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < read; ++i) {
    const std::uint64_t entry = work.words[i];
    const std::uint64_t categories = (entry & kPresentBit) != 0   ? kCategoryPresent
                                     : (entry & kSwappedBit) != 0 ? kCategorySwapped
                                                                  : 0;
    // There is room for a region for each page.
    if (categories != 0)
      append(work.regions, count, begin + i * page_bytes_, begin + (i + 1) * page_bytes_, categories);
  }
  return {begin + read * page_bytes_, count, 0};
}

}  // namespace heapprof::recorder
