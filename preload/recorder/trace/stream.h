// A thread's stream: the staging block that its events are written into, and the frames that full
// blocks become. Written by one thread at a time; owns nothing that another thread writes.
//
// Appending is: fill the next slot, then store the commit word. From that store on the event survives
// the process. No lock, no system call, until the block is full; then it is encoded by columns, compressed
// into room of the file mapped earlier, and the next block begins. When that room is used up, every hundred
// thousand events or so, more is reserved and mapped: a handful of system calls.
//
// Slots are written in time order: append() raises a time that lies before the last one's.
//
// A signal handler may interrupt any of this and never return to it (longjmp). So each step is one store that makes
// it count, after stores that may be made twice: what was left half done is done again by the next event, with
// the same result. Or it may fork: the child comes back into an event of its parent's, and drops it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/trace_format.h"
#include "preload/recorder/clock/tick.h"
#include "preload/recorder/process/fork_watch.h"

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
    if (used() == limit_) [[unlikely]] {
      if (!flush()) return false;
    }
    not_before(time);
    if (in_forked_child()) [[unlikely]] return true;
    slots_[used()] = {last_time_, address, op_size(op, size), node, aux};
    commit(at_ + 1);
    return true;
  }

  /// From here on the next `events` events, or as many as the block still holds, need nothing but commit_next(): no
  /// flush, and nobody wants to be asked about the time. Any flush ends it, and so does end_run(), also from a signal
  /// handler, and a tick of the kernel's timer: whatever the program does between two events, a run is no longer than
  /// that.
  void begin_run(std::uint32_t events) noexcept {
    const std::uint32_t room = limit_ - used();
    run_end_ = used() + (events < room ? events : room);
    run_tick_ = tick();
  }
  void end_run() noexcept { run_end_ = 0; }
  bool in_run() const noexcept { return used() < run_end_ && run_tick_ == tick(); }

  /// No event from here on has a time before this.
  void not_before(std::uint64_t time) noexcept {
    if (last_time_ < time) last_time_ = time;
  }

  /// append() within a run, at last_time(). `op_size`: as op_size() makes it.
  void commit_next(const void* address, std::uint64_t op_size, std::uint32_t node) noexcept {
    slots_[used()] = {last_time_, reinterpret_cast<std::uint64_t>(address), op_size, node, 0};
    commit(at_ + 1);
  }

  /// Commits a text record, cut to kMaxTextBytes or to what a block holds. Two pieces are joined.
  bool append_text(TextKind kind, std::uint64_t number, std::uint64_t address, const void* text,
                   std::size_t bytes, const void* more = nullptr, std::size_t more_bytes = 0) noexcept;

  bool define_node(NodeId id, NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags) noexcept {
    return append(Op::kNode, last_time_, offset, raw(parent) | std::uint64_t{raw(module)} << 32, raw(id), flags);
  }

  /// Maps room for some hundred thousand events now, as there is no later.
  void provide_room() noexcept;

  /// In a child forked in the middle of an event: what it still writes to the staging block goes to a copy.
  void part_from_parent() noexcept;

  /// Time of the last event, ticks since the start.
  std::uint64_t last_time() const noexcept { return last_time_; }
  /// Blocks finished so far: changes when one was.
  std::uint32_t sequence() const noexcept { return commit_sequence(at_); }
  /// Why append or open failed.
  const char* failure() const noexcept { return failure_; }

 private:
  std::uint32_t used() const noexcept { return commit_slots(at_); }
  [[gnu::noinline]] bool flush() noexcept;
  bool append_frame(const EncodedBlock& block) noexcept;
  bool next_extent() noexcept;
  void begin_block(std::uint32_t sequence) noexcept;
  void commit(std::uint64_t word) noexcept {
    at_ = word;
    __atomic_store_n(&staging_->commit, word, __ATOMIC_RELEASE);
  }
  // What the block after `sequence` begins with stands beside what this one began with: written as often as need be.
  std::uint64_t& events_before(std::uint32_t sequence) noexcept { return events_before_[sequence & 1]; }
  std::uint32_t& extent_used(std::uint32_t sequence) noexcept { return extent_used_[sequence & 1]; }

  Slot* slots_ = nullptr;
  std::uint64_t at_ = 0;  ///< the commit word: block and slots in it
  std::uint32_t limit_ = 0;  ///< slots at which the block is full: the capacity, or those it has while it is flushed
  std::uint32_t run_end_ = 0;   ///< slots at which the run ends
  std::uint64_t run_tick_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t frames_ = 0;  ///< blocks that are frames: the current one is, for a moment
  std::uint64_t last_time_ = 0;
  StagingHeader* staging_ = nullptr;
  std::uint64_t events_before_[2] = {};
  TraceFile* file_ = nullptr;
  StreamId id_ = StreamId::kNone;
  std::uint32_t next_ordinal_ = 0;

  std::uint8_t* extent_ = nullptr;   ///< room for frames, mapped
  std::uint32_t extent_bytes_ = 0;   ///< 0 while it changes
  std::uint32_t extent_size_ = 0;    ///< of the last one, which decides the size of the next
  std::uint32_t extent_used_[2] = {};
  std::uint8_t* columns_ = nullptr;  ///< working memory of flush()
  char* packed_ = nullptr;           ///< the same, compressed
  void* lz4_state_ = nullptr;
  const char* failure_ = nullptr;
};

}  // namespace heapprof::recorder
