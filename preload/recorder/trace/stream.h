// A thread's stream of events: a staging block, into which events are written, and frames in the file, into which
// full blocks are compressed. Used by one thread at a time and its signal handlers; no other thread writes to it.
//
// An event is appended in two steps: fill the next slot, then store the commit word. From that store on the event
// survives the process. No lock is taken, and no system call is made until the block is full. Then the thread encodes
// the block by columns, compresses it into space of the file that was mapped earlier, and begins the next block. When
// that space is full, after 20,000 to 100,000 events, the thread maps more with a few system calls.
//
// A signal handler may interrupt any of this and leave by longjmp. So each step takes effect by one store, which
// comes after stores that may be repeated: the next event repeats an unfinished step with the same result. A handler
// may also fork: the child then returns into the unfinished event of its parent, and drops this event.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/trace_format.h"
#include "preload/recorder/clock/tick.h"
#include "preload/recorder/clock/time_types.h"
#include "preload/recorder/process/fork_watch.h"

namespace heapprof {
struct EncodedBlock;
}

namespace heapprof::recorder {

class TraceStorage;

class Stream {
 public:
  /// Allocates a staging block of `block_bytes` bytes and working memory. Returns null, or why it failed.
  const char* open(TraceStorage& trace, StreamId id, std::uint32_t block_bytes) noexcept;

  /// Commits one event. A time before last_time() becomes last_time(), since times in a stream never decrease.
  /// Returns false if the recording has to stop; failure() returns the reason. In a forked child it commits nothing.
  bool append(Op op, Ticks time, std::uint64_t address, std::uint64_t size, std::uint32_t node,
              std::uint32_t aux) noexcept {
    if (used() == limit_) [[unlikely]] {
      if (!flush()) return false;
    }
    advance_time(time);
    if (in_forked_child()) [[unlikely]]
      return true;
    slots_[used()] = {tick_count(last_time_), address, op_size(op, size), node, aux};
    commit(at_ + 1);
    return true;
  }

  /// Begins a run: the next `events` events, or as many as the block has room for, may be written with commit_next(),
  /// without a flush and without reading the clock. The run ends early at a flush, at end_run(), which a signal
  /// handler may call, and at a tick of the kernel's timer; so a run never lasts longer than one tick.
  void begin_run(std::uint32_t events) noexcept {
    const std::uint32_t room = limit_ - used();
    run_end_ = used() + (events < room ? events : room);
    run_tick_ = tick();
  }
  void end_run() noexcept { run_end_ = 0; }
  bool in_run() const noexcept { return used() < run_end_ && run_tick_ == tick(); }

  /// From here on no event has a time before `time`.
  void advance_time(Ticks time) noexcept {
    if (last_time_ < time) last_time_ = time;
  }

  /// Commits one event at last_time(): stores the slot and the commit word, without a branch. Cannot fail.
  ///
  /// Preconditions: in_run() and not in_forked_child(), both checked since the last commit; the caller has entered
  /// the thread's state (ThreadState::busy), so that a signal handler uses another stream. `op_size`: a result of
  /// heapprof::op_size().
  void commit_next(const void* address, std::uint64_t op_size, std::uint32_t node) noexcept {
    slots_[used()] = {tick_count(last_time_), reinterpret_cast<std::uint64_t>(address), op_size, node, 0};
    commit(at_ + 1);
  }

  /// Commits a text record: `text` and then `more`, truncated to kMaxTextBytes or to the size of a block. Returns
  /// false if the recording has to stop.
  bool append_text(TextKind kind, std::uint64_t number, std::uint64_t address, const void* text, std::size_t bytes,
                   const void* more = nullptr, std::size_t more_bytes = 0) noexcept;

  /// The largest text that append_text() does not truncate.
  std::size_t max_text_bytes() const noexcept {
    const std::size_t room = (capacity_ - 2) * sizeof(Slot);
    return room < kMaxTextBytes ? room : kMaxTextBytes;
  }

  bool define_node(NodeId id, NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags) noexcept {
    return append(Op::kNode, last_time_, offset, raw(parent) | std::uint64_t{raw(module)} << 32, raw(id), flags);
  }

  /// Maps space for at least some 50,000 events. Called before system calls are forbidden.
  void map_ahead() noexcept;

  /// Writes the events of a staging block that is private memory (TraceStorage::rewrites_in_place) to the file as a
  /// frame. `moves`: rather moves the block into the file, where later events survive the process, too, if there is
  /// space for it. Call this when the process is about to end, while no thread and no signal handler can write to the
  /// stream. Returns null, also if the block is in the file already, or why it failed.
  const char* save_private_block(bool moves) noexcept;

  /// Replaces the mapping of the staging block by a private copy, in a child that was forked in the middle of an
  /// event. So the remaining stores of this event do not change the parent's trace.
  void detach_from_parent() noexcept;

  StreamId id() const noexcept { return id_; }
  /// Time of the last event.
  Ticks last_time() const noexcept { return last_time_; }
  /// The number of finished blocks.
  std::uint32_t sequence() const noexcept { return commit_sequence(at_); }
  /// Differs after each event. Another thread may call it.
  std::uint64_t position() const noexcept { return __atomic_load_n(&at_, __ATOMIC_RELAXED); }
  /// Why append() or open() failed; null if neither has failed.
  const char* failure() const noexcept { return failure_; }

 private:
  std::uint32_t used() const noexcept { return commit_slots(at_); }
  [[gnu::noinline]] bool flush() noexcept;
  bool append_frame(const EncodedBlock& block) noexcept;
  std::uint32_t next_extent_bytes(std::uint32_t frame_bytes) const noexcept;
  bool next_extent(std::uint32_t bytes) noexcept;
  void begin_block(std::uint32_t sequence) noexcept;
  void commit(std::uint64_t word) noexcept {
    at_ = word;
    __atomic_store_n(&staging_->commit, word, __ATOMIC_RELEASE);
  }
  // The values of the next block are stored separately from those of the current one, so that they can be written
  // repeatedly while those of the current block are still needed.
  std::uint64_t& events_before(std::uint32_t sequence) noexcept { return events_before_[sequence & 1]; }
  std::uint32_t& extent_used(std::uint32_t sequence) noexcept { return extent_used_[sequence & 1]; }

  std::uint32_t staging_bytes() const noexcept;
  bool move_block_into_file() noexcept;

  Slot* slots_ = nullptr;
  std::uint64_t at_ = 0;       ///< the commit word: the block's sequence, and the slots used in it
  std::uint32_t limit_ = 0;    ///< the block is full at this number of slots: capacity_, or used() during a flush
  std::uint32_t run_end_ = 0;  ///< the run ends at this number of slots
  std::uint64_t run_tick_ = 0;
  std::uint32_t capacity_ = 0;  ///< slots
  std::uint32_t frames_ = 0;    ///< blocks written as frames; during flush() it may already count the current one
  Ticks last_time_{};
  StagingHeader* staging_ = nullptr;
  std::uint64_t events_before_[2] = {};
  TraceStorage* trace_ = nullptr;
  StreamId id_ = StreamId::kNone;
  std::uint32_t next_ordinal_ = 0;

  std::uint8_t* extent_ = nullptr;      ///< mapped space for frames
  std::uint64_t all_extent_bytes_ = 0;  ///< of this extent and those before; determines the size of the next one
  std::uint32_t extent_bytes_ = 0;      ///< 0 while the extent is replaced
  std::uint32_t extent_used_[2] = {};
  std::uint8_t* columns_ = nullptr;  ///< working memory of flush()
  char* compressed_ = nullptr;       ///< the columns, compressed
  void* lz4_state_ = nullptr;
  const char* failure_ = nullptr;
  bool block_is_private_ = false;  ///< the staging block is not in the file
};

}  // namespace heapprof::recorder
