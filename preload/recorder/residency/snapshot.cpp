#include "preload/recorder/residency/snapshot.h"

#include <sys/auxv.h>

#include <bit>
#include <cerrno>

#include "preload/base/text.h"
#include "preload/recorder/clock/clock.h"
#include "preload/sys/kernel.h"
#include "preload/sys/own_mappings.h"

extern "C" {
// The linker's names for the library's own first and last byte.
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];
[[gnu::visibility("hidden")]] extern const char _end[];
}

namespace heapprof::recorder {

namespace {

/// Mappings with a distance of at most this are scanned together, up to kMaxJoinedBytes: programs may have tens of
/// thousands of mappings of a few pages.
constexpr std::uint64_t kMaxGapBytes = std::uint64_t{2} << 20;
constexpr std::uint64_t kMaxJoinedBytes = std::uint64_t{64} << 20;

/// The kernel's addresses ([vsyscall]) are above this.
constexpr std::uint64_t kUserAddresses = std::uint64_t{1} << 63;

constexpr struct {
  std::uint64_t category;
  ResidencyPlane plane;
} kPlanes[] = {
    {kCategoryPresent, kPresent}, {kCategorySwapped, kSwapped}, {kCategoryZero, kZero}, {kCategoryHuge, kHuge}};

}  // namespace

bool Snapshot::begin(Stream& stream, SnapshotReason reason, const Source& source) noexcept {
  end_incomplete(stream);
  if (work_ == nullptr) work_ = static_cast<Work*>(sys::map_private(sizeof(Work)));
  if (work_ == nullptr) return fail(-ENOMEM);
  page_bytes_ = getauxval(AT_PAGESZ);
  ++number_;
  pieces_ = 0;
  piece_ = ResidencyEncoder(work_->piece);
  source_ = source;
  spent_ns_ = 0;
  error_ = 0;
  maps_ = sys::MapsReader(work_->maps, sizeof work_->maps, source.maps->descriptor());
  maps_read_ = false;
  read_up_to_ = 0;
  scan_ = PageScan(source.pagemap->descriptor(), scan_.method(), page_bytes_);
  scanned_ = next_ = {};
  gathered_ = true;
  group_used_ = false;
  own_slot_ = 0;
  thread_ = first_thread_state();
  scan_.choose_method(reinterpret_cast<std::uint64_t>(work_) & ~(page_bytes_ - 1), work_->scan);
  piece_.begin({reason, scan_.method(), sys::clock_ns(CLOCK_MONOTONIC), source.memory.resident_bytes,
                source.memory.shared_bytes, page_bytes_});
  stage_ = Stage::kPages;
  __atomic_store_n(&active_, true, __ATOMIC_RELAXED);
  return true;
}

Snapshot::Progress Snapshot::run(Stream& stream, Ticks until) noexcept {
  if (!active_) return Progress::kIdle;
  const std::uint64_t begin_ns = sys::clock_ns(CLOCK_THREAD_CPUTIME_ID);
  bool more = true;
  do more = step(stream);
  while (more && stage_ != Stage::kEnd && g_clock.now() < until);
  // 0 when system calls were forbidden meanwhile.
  const std::uint64_t end_ns = sys::clock_ns(CLOCK_THREAD_CPUTIME_ID);
  if (end_ns > begin_ns) spent_ns_ += end_ns - begin_ns;
  if (more && stage_ != Stage::kEnd) {
    if (commit_piece(stream)) return Progress::kRunning;
    more = false;
  }
  // A file that took the place of /proc/self/maps may have ended without an error.
  if (!source_.is_open()) more = fail(-EBADF);
  write_end(stream, more);
  return more ? Progress::kFinished : Progress::kFailed;
}

/// One system call, or one item. False: the snapshot has failed.
bool Snapshot::step(Stream& stream) noexcept {
  switch (stage_) {
    case Stage::kPages:
      if (!gathered_) return read_mapping(stream);
      if (scanned_.begin < scanned_.end) return scan_pages(stream);
      if (maps_read_ && next_.begin == next_.end) {
        stage_ = Stage::kRecorder;
        return end_group(stream) && make_room(stream) &&
               (piece_.recorder(reinterpret_cast<std::uint64_t>(__ehdr_start),
                                static_cast<std::uint64_t>(_end - __ehdr_start)),
                true);
      }
      scanned_ = next_;
      next_ = {};
      gathered_ = maps_read_;
      return true;
    case Stage::kRecorder: return write_recorder(stream);
    case Stage::kStacks: return write_stacks(stream);
    case Stage::kEnd: break;
  }
  return true;
}

/// Whether two ranges are scanned as one.
bool Snapshot::can_join(const Range& range, const Range& next) const noexcept {
  return scan_.method() == SnapshotMethod::kPagemapScan && range.begin < range.end &&
         next.begin - range.end <= kMaxGapBytes && next.end - range.begin <= kMaxJoinedBytes &&
         !range.is_large_and_anonymous() && !next.is_large_and_anonymous();
}

/// Writes the next mapping, and adds it to the range to be scanned, or makes it the next one.
bool Snapshot::read_mapping(Stream& stream) noexcept {
  // A child that was forked in a signal handler continues its parent's snapshot. It must not read from the open file
  // that both share: the kernel would then find the parent's next line by counting bytes from the first one, and
  // lines that come or go meanwhile would shift it.
  if (in_forked_child()) return fail(-ECHILD);
  sys::Mapping mapping;
  if (!maps_.next(mapping, work_->name, sizeof work_->name)) {
    if (maps_.read_failed()) return fail(-EIO);
    maps_read_ = gathered_ = true;
    return true;
  }
  // A mapping that the host has enlarged since its line was read appears a second time.
  if (mapping.begin < read_up_to_) {
    mapping.file_offset += read_up_to_ - mapping.begin;
    mapping.begin = read_up_to_;
  }
  if (mapping.begin >= mapping.end || mapping.begin >= kUserAddresses) return true;
  read_up_to_ = mapping.end;
  if (!make_room(stream)) return false;
  const std::uint32_t flags = (mapping.readable ? kMappingReadable : 0) | (mapping.writable ? kMappingWritable : 0) |
                              (mapping.executable ? kMappingExecutable : 0) | (mapping.shared ? kMappingShared : 0) |
                              (mapping.path_truncated ? kMappingNameTruncated : 0);
  piece_.mapping({mapping.begin / page_bytes_, (mapping.end - mapping.begin) / page_bytes_, flags, mapping.device,
                  mapping.inode, mapping.file_offset / page_bytes_, work_->name, text_length(work_->name)});
  const Range range{mapping.begin, mapping.end, mapping.inode == 0 && !mapping.shared};
  if (can_join(scanned_, range)) {
    scanned_.end = range.end;
    scanned_.anonymous = false;
    return true;
  }
  next_ = range;
  gathered_ = true;
  return true;
}

bool Snapshot::scan_pages(Stream& stream) noexcept {
  const PageScan::Result result = scan_.scan(scanned_.begin, scanned_.end, scanned_.anonymous, work_->scan);
  if (result.error != 0) return fail(result.error);
  const PageRegion* region = work_->scan.regions;
  const PageRegion* const end = region + result.regions;
  if (result.has_resident) {
    if (!add_resident(stream, scanned_.begin, result.next, region, end)) return false;
  } else {
    for (; region != end; ++region)
      if (!add_region(stream, *region)) return false;
  }
  scanned_.begin = result.next;
  return true;
}

bool Snapshot::add_region(Stream& stream, const PageRegion& region) noexcept {
  // With every second page resident, divisions instead of shifts would take 6 % of the time.
  const int shift = std::countr_zero(page_bytes_);
  const std::uint64_t end = region.end >> shift;
  for (std::uint64_t page = region.begin >> shift; page < end;) {
    if (!begin_group(stream, page / kGroupPages)) return false;
    const std::uint64_t group_end = (group_.number + 1) * kGroupPages;
    const std::uint64_t last = end < group_end ? end : group_end;
    set_categories(page, last, region.categories);
    page = last;
  }
  return true;
}

/// The bytes are read as eight at a time, from which a multiplication collects the lowest bits: that of byte i moves
/// to bit 56 + i.
bool Snapshot::add_resident(Stream& stream, std::uint64_t begin, std::uint64_t end, const PageRegion* region,
                            const PageRegion* regions_end) noexcept {
  const int shift = std::countr_zero(page_bytes_);
  const unsigned char* resident = work_->scan.resident;
  const std::uint64_t pages_end = end >> shift;
  for (std::uint64_t page = begin >> shift; page < pages_end;) {
    if (!begin_group(stream, page / kGroupPages)) return false;
    const std::uint64_t group_end = (group_.number + 1) * kGroupPages;
    const std::uint64_t last = pages_end < group_end ? pages_end : group_end;
    for (std::uint64_t at = page; at < last;) {
      std::uint64_t& word = group_.planes[kPresent][at % kGroupPages / 64];
      if (at % 8 == 0 && last - at >= 8) {
        std::uint64_t bytes;
        __builtin_memcpy(&bytes, resident, sizeof bytes);
        word |= ((bytes & 0x0101010101010101) * 0x0102040810204080) >> 56 << at % 64;
        at += 8;
        resident += 8;
      } else {
        word |= std::uint64_t{*resident++ & 1U} << at % 64;
        ++at;
      }
    }
    // A region may continue in the next group.
    for (; region != regions_end && region->begin >> shift < last; ++region) {
      const std::uint64_t first = region->begin >> shift, region_end = region->end >> shift;
      set_categories(first < page ? page : first, region_end < last ? region_end : last, region->categories);
      if (region_end > last) break;
    }
    page = last;
  }
  return true;
}

/// Precondition: the pages [first, last) are in the group.
void Snapshot::set_categories(std::uint64_t first, std::uint64_t last, std::uint64_t categories) noexcept {
  const auto begin = static_cast<std::uint32_t>(first % kGroupPages);
  const auto end = begin + static_cast<std::uint32_t>(last - first);
  if (categories == kCategoryPresent) return group_.set(kPresent, begin, end);
  // mincore takes a swapped page for present if it is still in memory.
  group_.clear(kPresent, begin, end);
  for (const auto& [category, plane] : kPlanes)
    if ((categories & category) != 0) group_.set(plane, begin, end);
}

/// Makes `number` the current group, and writes the one before.
bool Snapshot::begin_group(Stream& stream, std::uint64_t number) noexcept {
  if (group_used_ && group_.number == number) return true;
  if (!end_group(stream)) return false;
  group_ = {};
  group_.number = number;
  group_used_ = true;
  return true;
}

bool Snapshot::end_group(Stream& stream) noexcept {
  if (!group_used_) return true;
  group_used_ = false;
  if (group_.is_empty()) return true;
  if (!make_room(stream)) return false;
  piece_.group(group_);
  return true;
}

bool Snapshot::write_recorder(Stream& stream) noexcept {
  if (own_slot_ == sys::own_mapping_slots()) {
    stage_ = Stage::kStacks;
    return true;
  }
  const sys::OwnMapping own = sys::own_mapping(own_slot_++);
  if (own.begin == 0) return true;
  if (!make_room(stream)) return false;
  piece_.recorder(own.begin, own.bytes);
  return true;
}

bool Snapshot::write_stacks(Stream& stream) noexcept {
  if (thread_ == nullptr) {
    stage_ = Stage::kEnd;
    return true;
  }
  const ThreadState& thread = *thread_;
  thread_ = thread.next;
  const std::uint64_t stack_pointer = __atomic_load_n(&thread.last_stack_pointer, __ATOMIC_RELAXED);
  if (thread.depth != 0 || stack_pointer == 0 || !sys::thread_exists(thread.owner())) return true;
  if (!make_room(stream)) return false;
  piece_.stack({static_cast<std::uint64_t>(thread.owner()), stack_pointer,
                __atomic_load_n(&thread.stack_end, __ATOMIC_RELAXED)});
  return true;
}

void Snapshot::write_end(Stream& stream, bool complete) noexcept {
  if (end_group(stream) && make_room(stream)) {
    piece_.end({sys::clock_ns(CLOCK_MONOTONIC), spent_ns_, complete});
    commit_piece(stream);
  }
  drop();
}

/// Makes room for one item.
bool Snapshot::make_room(Stream& stream) noexcept {
  const std::size_t limit =
      stream.max_text_bytes() < sizeof work_->piece ? stream.max_text_bytes() : sizeof work_->piece;
  return limit - piece_.bytes() >= kMaxResidencyItemBytes || commit_piece(stream);
}

bool Snapshot::commit_piece(Stream& stream) noexcept {
  if (in_forked_child()) return fail(-ECHILD);
  if (piece_.bytes() == 0) return true;
  stream.advance_time(g_clock.now());
  const bool committed = stream.append_text(TextKind::kResidency, number_, pieces_++, work_->piece, piece_.bytes());
  piece_.restart();
  return committed || fail(-ENOSPC);
}

}  // namespace heapprof::recorder
