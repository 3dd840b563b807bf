// A thread's stream: the staging block that its events are written into, and the frames that full
// blocks become. Written by one thread at a time; owns nothing that another thread writes.
//
// Appending is: fill the next slot, then store the commit word. From that store on the event survives
// the process. No lock, no system call, until the block is full; then it is encoded by columns, compressed
// into room of the file mapped earlier, and the next block begins. When that room is used up, every hundred
// thousand events or so, more is reserved and mapped: a handful of system calls.
//
// Slots are written in time order: append() raises a time that lies before the last one's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/trace_format.h"

namespace heapprof {
struct EncodedBlock;
}

namespace heapprof::recorder {

class TraceFile;

class Stream {
 public:
  /// Gets a staging block of `block_bytes` and working memory. Null: ready.
  const char* open(TraceFile& file, StreamId id, std::uint32_t block_bytes) noexcept;

  /// Commits one event. False when the stream could not go on: failure() tells why.
  bool append(Op op, std::uint64_t time, std::uint64_t address, std::uint64_t size, std::uint32_t node,
              std::uint32_t aux) noexcept {
    if (used_ == capacity_) [[unlikely]] {
      if (!flush()) return false;
    }
    if (time < last_time_) time = last_time_;
    last_time_ = time;
    slots_[used_] = {time, address, op_size(op, size), node, aux};
    commit(used_ + 1);
    return true;
  }

  /// Commits a text record, cut to kMaxTextBytes or to what a block holds. Two pieces are joined.
  bool append_text(TextKind kind, std::uint64_t number, std::uint64_t address, const void* text,
                   std::size_t bytes, const void* more = nullptr, std::size_t more_bytes = 0) noexcept;

  bool define_node(NodeId id, NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags) noexcept {
    return append(Op::kNode, last_time_, offset, raw(parent) | std::uint64_t{raw(module)} << 32, raw(id), flags);
  }

  /// Time of the last event, ticks since the start.
  std::uint64_t last_time() const noexcept { return last_time_; }
  /// Blocks finished so far: changes when one was.
  std::uint32_t sequence() const noexcept { return sequence_; }
  /// Why append or open failed.
  const char* failure() const noexcept { return failure_; }

 private:
  [[gnu::noinline]] bool flush() noexcept;
  bool append_frame(const std::uint8_t* columns, const EncodedBlock& block) noexcept;
  bool next_extent() noexcept;
  void begin_block() noexcept;
  void commit(std::uint32_t slots) noexcept {
    used_ = slots;
    __atomic_store_n(&staging_->commit, commit_word(sequence_, slots), __ATOMIC_RELEASE);
  }

  Slot* slots_ = nullptr;
  std::uint32_t used_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint64_t last_time_ = 0;
  StagingHeader* staging_ = nullptr;
  std::uint32_t sequence_ = 0;
  std::uint32_t next_ordinal_ = 0;
  std::uint64_t events_before_ = 0;
  TraceFile* file_ = nullptr;
  StreamId id_ = StreamId::kNone;

  std::uint8_t* extent_ = nullptr;  ///< room for frames, mapped
  std::uint32_t extent_bytes_ = 0;
  std::uint32_t extent_used_ = 0;
  std::uint8_t* columns_ = nullptr;  ///< working memory of flush()
  void* lz4_state_ = nullptr;
  const char* failure_ = nullptr;
};

}  // namespace heapprof::recorder
