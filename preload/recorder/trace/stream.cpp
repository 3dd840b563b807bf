#include "preload/recorder/trace/stream.h"

#include <lz4.h>

#include "common/event_codec.h"
#include "common/trace_header.h"
#include "preload/recorder/trace/trace_storage.h"
#include "preload/sys/own_mappings.h"

namespace heapprof::recorder {

namespace {

// An extent of a stream has an eighth of the bytes of those before it, in steps of the smallest one and between these
// limits. So little space is left over at the end of a stream, and a thread with many events seldom needs a new
// extent.
constexpr std::uint32_t kMinStreamExtentBytes = 64u << 10;
constexpr std::uint32_t kMaxStreamExtentBytes = 256u << 10;
static_assert(kMaxStreamExtentBytes % kMinStreamExtentBytes == 0);
static_assert(LZ4_COMPRESSBOUND(column_bytes_bound(65536 / sizeof(Slot))) <
              kMaxStreamExtentBytes - sizeof(ExtentHeader) - sizeof(FrameHeader));
static_assert(65536 / sizeof(Slot) * kMinNodeBytes <= UINT16_MAX);  // FrameHeader::header_bytes

constexpr std::size_t align_up(std::size_t value, std::size_t alignment) noexcept {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace

const char* Stream::open(TraceStorage& trace, StreamId id, std::uint32_t block_bytes) noexcept {
  trace_ = &trace;
  id_ = id;
  block_bytes &= ~(kUnitBytes - 1);
  capacity_ = static_cast<std::uint32_t>((block_bytes - sizeof(StagingHeader)) / sizeof(Slot));
  void* block = trace.rewrites_in_place()
                    ? trace.allocate_extent(block_bytes, ExtentKind::kStaging, id, next_ordinal_++, failure_)
                    : sys::map_private(block_bytes);
  if (block == nullptr) return failure_ != nullptr ? failure_ : "no memory for a staging block";

  const std::size_t column_room = align_up(column_bytes_bound(capacity_), 64);
  const std::size_t compressed_room = align_up(LZ4_COMPRESSBOUND(column_room), 64);
  const std::size_t working_bytes = column_room + compressed_room + static_cast<std::size_t>(LZ4_sizeofState());
  auto* working = static_cast<std::uint8_t*>(sys::map_private(working_bytes));
  if (working == nullptr) return failure_ = "no memory for a stream";
  columns_ = working;
  compressed_ = reinterpret_cast<char*>(working + column_room);
  lz4_state_ = working + column_room + compressed_room;
  block_is_private_ = !trace.rewrites_in_place();
  staging_ = static_cast<StagingHeader*>(block);
  slots_ = reinterpret_cast<Slot*>(staging_ + 1);
  begin_block(0);
  return nullptr;
}

std::uint32_t Stream::staging_bytes() const noexcept {
  return static_cast<std::uint32_t>(align_up(sizeof(StagingHeader) + capacity_ * sizeof(Slot), kUnitBytes));
}

const char* Stream::save_private_block(bool moves) noexcept {
  if (!block_is_private_) return nullptr;
  if (failure_ != nullptr) return failure_;
  // Where no further space can be had (full disk, seccomp), a frame may still have room in that which is mapped.
  if (moves && move_block_into_file()) return nullptr;
  const bool is_empty = used() == 1;  // a block begins with Op::kBlockStart
  return is_empty || flush() ? nullptr : failure_;
}

bool Stream::move_block_into_file() noexcept {
  const char* failure = nullptr;
  void* const memory = trace_->allocate_extent(staging_bytes(), ExtentKind::kStaging, id_, next_ordinal_, failure);
  if (memory == nullptr) return false;
  ++next_ordinal_;
  StagingHeader* const before = staging_;
  auto* const block = static_cast<StagingHeader*>(memory);
  auto* const slots = reinterpret_cast<Slot*>(block + 1);
  __builtin_memcpy(slots, slots_, used() * sizeof(Slot));
  staging_ = block;
  slots_ = slots;
  block_is_private_ = false;
  commit(at_);
  sys::unmap_private(before, staging_bytes());
  return true;
}

void Stream::begin_block(std::uint32_t sequence) noexcept {
  slots_[0] = {tick_count(last_time_), events_before(sequence), op_size(Op::kBlockStart, 0), 0, 0};
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  commit(commit_word(sequence, 1));
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  limit_ = capacity_;
}

bool Stream::append_text(TextKind kind, std::uint64_t number, std::uint64_t address, const void* text,
                         std::size_t bytes, const void* more, std::size_t more_bytes) noexcept {
  const std::size_t limit = max_text_bytes();
  if (bytes > limit) bytes = limit;
  if (more_bytes > limit - bytes) more_bytes = limit - bytes;
  const auto total = static_cast<std::uint32_t>(bytes + more_bytes);
  const std::uint32_t count = 1 + text_slots(total);
  if (limit_ - used() < count && !flush()) return false;
  if (in_forked_child()) return true;
  Slot* slot = slots_ + used();
  *slot = {tick_count(last_time_), address, op_size(Op::kText, number), static_cast<std::uint32_t>(kind), total};
  auto* out = reinterpret_cast<char*>(slot + 1);
  if (bytes != 0) __builtin_memcpy(out, text, bytes);
  if (more_bytes != 0) __builtin_memcpy(out + bytes, more, more_bytes);
  commit(at_ + count);
  return true;
}

bool Stream::flush() noexcept {
  if (failure_ != nullptr) return false;
  const std::uint32_t sequence = this->sequence();
  run_end_ = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  limit_ = used();
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (frames_ == sequence) {
    const EncodedBlock block = encode_columns(slots_, used(), columns_);
    if (!append_frame(block)) return false;
    if (in_forked_child()) return true;
    events_before(sequence + 1) = events_before(sequence) + block.event_count;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    frames_ = sequence + 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
  if (!in_forked_child()) begin_block(sequence + 1);
  return true;
}

void Stream::detach_from_parent() noexcept {
  if (staging_ == nullptr) return;
  const std::size_t bytes = staging_bytes();
  void* const copy = sys::map_private(bytes);
  if (copy == nullptr) return;
  __builtin_memcpy(copy, staging_, bytes);
  sys::remove_own_mapping(copy);
  sys::remap_over(copy, bytes, staging_);
}

void Stream::map_ahead() noexcept {
  if (failure_ == nullptr && extent_bytes_ < extent_used(sequence()) + kMaxStreamExtentBytes / 2)
    next_extent(kMaxStreamExtentBytes);
}

/// Compresses into private memory before it copies the frame to the file: a child that is forked during the copy then
/// writes the same bytes as its parent.
bool Stream::append_frame(const EncodedBlock& block) noexcept {
  const std::uint32_t sequence = this->sequence();
  const auto raw_bytes = static_cast<int>(block.raw_bytes);
  const auto compressed_bytes = static_cast<std::uint32_t>(LZ4_compress_fast_extState(
      lz4_state_, reinterpret_cast<const char*>(columns_), compressed_, raw_bytes, LZ4_COMPRESSBOUND(raw_bytes), 1));
  std::uint32_t header_bytes = sizeof(FrameHeader);
  const std::uint32_t min_frame_bytes = block.node_count * kMinNodeBytes;
  if (header_bytes + compressed_bytes < min_frame_bytes) [[unlikely]]
    header_bytes = min_frame_bytes - compressed_bytes;
  const std::uint32_t frame_bytes = header_bytes + compressed_bytes;
  const bool has_room =
      extent_bytes_ >= extent_used(sequence) && extent_bytes_ - extent_used(sequence) >= frame_bytes;
  if (!has_room && !next_extent(next_extent_bytes(frame_bytes))) return false;
  if (in_forked_child()) return true;

  std::uint8_t* const at = extent_ + extent_used(sequence);
  auto* header = reinterpret_cast<FrameHeader*>(at);
  FrameHeader filled{};
  filled.magic = kFrameMagic;
  filled.header_bytes = static_cast<std::uint16_t>(header_bytes);
  filled.codec = FrameCodec::kColumnsLz4;
  filled.file_id = trace_->file_id();
  filled.stream = id_;
  filled.sequence = sequence;
  filled.record_count = block.record_count;
  filled.event_count = block.event_count;
  filled.events_before = events_before(sequence);
  filled.first_time = block.first_time;
  filled.last_time = block.last_time;
  filled.raw_bytes = static_cast<std::uint32_t>(block.raw_bytes);
  filled.payload_bytes = compressed_bytes;
  filled.payload_checksum = checksum(compressed_, compressed_bytes);
  filled.header_checksum = header_checksum(filled);
  __builtin_memset(at + sizeof filled, 0, header_bytes - sizeof filled);
  __builtin_memcpy(at + header_bytes, compressed_, compressed_bytes);
  __builtin_memcpy(reinterpret_cast<char*>(header) + sizeof header->magic,
                   reinterpret_cast<const char*>(&filled) + sizeof header->magic,
                   sizeof filled - sizeof header->magic);
  __atomic_store_n(&header->magic, kFrameMagic, __ATOMIC_RELEASE);
  const std::size_t end = align_up(extent_used(sequence) + frame_bytes, 8);
  extent_used(sequence + 1) = end < extent_bytes_ ? static_cast<std::uint32_t>(end) : extent_bytes_;
  return true;
}

/// The size of the next extent, which has space for a frame of `frame_bytes`: every frame is smaller than the largest
/// extent.
std::uint32_t Stream::next_extent_bytes(std::uint32_t frame_bytes) const noexcept {
  const auto needed = static_cast<std::uint32_t>(align_up(sizeof(ExtentHeader) + frame_bytes, kMinStreamExtentBytes));
  const std::uint64_t eighth = all_extent_bytes_ / 8 / kMinStreamExtentBytes * kMinStreamExtentBytes;
  if (eighth <= needed) return needed;
  return eighth < kMaxStreamExtentBytes ? static_cast<std::uint32_t>(eighth) : kMaxStreamExtentBytes;
}

bool Stream::next_extent(std::uint32_t bytes) noexcept {
  void* memory = trace_->allocate_extent(bytes, ExtentKind::kFrames, id_, next_ordinal_, failure_);
  if (memory == nullptr) return false;
  // extent_bytes_ is 0 while the pointer, the size and extent_used() belong to different extents. If a longjmp
  // abandons these steps, an extent stays mapped and empty; but no extent is written after it was unmapped.
  std::uint8_t* const old = extent_;
  const std::uint32_t old_bytes = extent_bytes_;
  extent_bytes_ = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  ++next_ordinal_;
  all_extent_bytes_ += bytes;
  extent_ = static_cast<std::uint8_t*>(memory);
  extent_used(sequence()) = sizeof(ExtentHeader);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  extent_bytes_ = bytes;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (old != nullptr && old_bytes != 0) {
    sys::remove_own_mapping(old);
    sys::unmap(old, old_bytes);
  }
  return true;
}

}  // namespace heapprof::recorder
