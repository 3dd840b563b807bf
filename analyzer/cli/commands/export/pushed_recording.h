// A recording that `push --every` follows: what its program allocated since the last profile that was delivered, and
// what is live now.
//
// What could not be delivered stays in the next interval. So an endpoint that is down costs no memory, and no
// allocation is left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/cli/top/live_profile.h"
#include "analyzer/live/live_state.h"
#include "analyzer/model/profile.h"
#include "analyzer/symbols/symbolizer.h"
#include "analyzer/trace/follower.h"

namespace heapprof::cli {

class PushedRecording {
 public:
  /// Throws trace::TraceError when the file cannot be read.
  PushedRecording(const std::string& path, const symbols::Options& symbols);

  /// Reads what the program has done. Throws trace::TraceError.
  void read();
  /// The program writes no more, and everything was read.
  bool ended() const noexcept { return ended_; }
  /// Whether there is more to read, now or later: the program still writes.
  bool is_written() { return follower_.is_written(); }
  const trace::Follower& follower() const noexcept { return follower_; }

  /// The interval from the last delivered profile, or the start, to the last read(), as a profile with that slice:
  /// what was allocated in it, and what was live at its end (as leaked). It has no peaks and no temporary
  /// allocations.
  model::Profile interval();
  /// Whether the interval has not been delivered.
  bool has_undelivered() const noexcept { return has_undelivered_; }
  /// The interval was delivered; the next one begins at the last read().
  void begin_next_interval();

  KnownFrames& known_frames() noexcept { return known_; }

 private:
  trace::Follower follower_;
  live::LiveState state_;
  LiveProfileMaker live_profile_;
  KnownFrames known_;
  std::vector<live::LiveSums> before_;  ///< by dense index: at the begin of the interval
  std::uint64_t begin_ns_ = 0;
  std::uint64_t at_ns_ = 0;
  bool ended_ = false;
  bool has_undelivered_ = true;
};

}  // namespace heapprof::cli
