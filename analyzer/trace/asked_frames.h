// Reads the frames of a recording for a reader that is asked for some allocations (asked_allocations.h), with several
// threads.
//
// Such a frame does not depend on those before it, except for what the reader itself does: times never decrease, and
// missing events are counted. So threads read frames ahead, in the order in which the reader needs them: by the time
// of their first event. That order is not certain where frames overlap or are damaged, therefore the reader reads a
// frame itself that no thread has begun, and others while it waits for one. At most kAhead frames are held.
//
// What cannot be read so is left to the reader as a whole: a damaged frame, one with texts, with nodes that nobody
// has defined, or with events after the cut. So damage is found and reported in one place.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "analyzer/trace/asked_allocations.h"
#include "analyzer/trace/events/definitions.h"
#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/trace_file.h"
#include "common/trace_format.h"

namespace heapprof::trace {

struct AskedFrame {
  FrameHeader header{};
  std::vector<MergedEvent> events;  ///< the allocations that are asked for, without a stream
  bool is_known = false;            ///< false: the frame must be decoded as a whole
};

class AskedFrames {
 public:
  static constexpr unsigned kMaxThreads = 4;
  /// As many threads as there are cores, up to kMaxThreads.
  static unsigned threads_of_machine() noexcept;

  /// `first_frames`: by stream, how many of its frames were read before. `threads`: with that of the reader.
  /// `file` and the nodes of `asked` must outlive this.
  AskedFrames(const TraceFile& file, const NodeIndex& node_index, const AskedAllocations& asked,
              std::span<const std::size_t> first_frames, unsigned threads);
  ~AskedFrames();
  AskedFrames(const AskedFrames&) = delete;
  AskedFrames& operator=(const AskedFrames&) = delete;

  /// The frame with this number of a stream (index in TraceFile::streams()); null: it must be decoded as a whole.
  /// Valid until the next call. Each frame must be taken or dropped exactly once.
  const AskedFrame* take(std::uint32_t stream, std::size_t number);
  /// The frame is not needed.
  void drop(std::uint32_t stream, std::size_t number);

 private:
  static constexpr std::size_t kAhead = 64;

  struct FrameId {
    std::uint32_t stream;
    std::uint32_t number;
  };
  enum class State : std::uint8_t { kFree, kBusy, kDone };
  struct Held {
    State state = State::kFree;
    AskedFrame frame;  // of one thread while kBusy
  };
  class FrameSource;

  void put_in_order(std::span<const std::size_t> first_frames);
  std::size_t position_of(std::uint32_t stream, std::size_t number) const noexcept {
    return positions_[stream][number - first_frames_[stream]];
  }
  std::optional<std::size_t> claim();
  void run();

  const TraceFile& file_;
  const NodeIndex node_index_;
  const AskedAllocations asked_;
  std::vector<std::size_t> first_frames_;              // by stream
  std::vector<FrameId> order_;                         // in which threads read; empty: there are none
  std::vector<std::vector<std::uint32_t>> positions_;  // by stream and frame after the first one: in order_
  std::unique_ptr<FrameSource> own_source_;            // of the reader's thread
  AskedFrame current_;                                 // likewise

  std::mutex mutex_;  // of what follows, except the frames that are kBusy
  std::condition_variable has_room_;
  std::condition_variable has_frame_;
  std::array<Held, kAhead> held_;          // of position p: at p % kAhead
  std::vector<std::uint8_t> taken_early_;  // by position: the reader has taken it before a thread began it
  std::size_t next_ = 0;                   // position: those before were begun by somebody
  std::size_t room_ = kAhead;              // number of held_ that are kFree
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace heapprof::trace
