// Several recordings that one command reads: which files they are, and their one clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/options/trace_options.h"
#include "analyzer/processes/sum_peak.h"
#include "analyzer/replay/selection.h"
#include "common/trace_format.h"

namespace heapprof::cli {

class RecordingSet {
 public:
  struct Member {
    std::string path;
    FileHeader header;
    std::uint64_t start_ns = 0;  ///< on the one clock: since the first recording began
  };

  /// Reads the headers of the files `arguments`, and of the recordings in the directories among them. Names on
  /// standard error what cannot be read, and copies, of which only one counts. Throws OutputError when no recording
  /// is left.
  explicit RecordingSet(const std::vector<std::string>& arguments);

  /// "build/", or "3 recordings".
  const std::string& name() const noexcept { return name_; }
  const std::vector<Member>& members() const noexcept { return members_; }
  std::vector<FileHeader> headers() const;
  std::size_t unread() const noexcept { return unread_; }
  std::size_t copies() const noexcept { return copies_; }
  /// Sentences about clocks and versions, for the user.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

  /// When each recording ends, on the one clock. Where the header does not say, the recording is read for it.
  const std::vector<std::uint64_t>& end_ns(bool use_index);
  std::uint64_t last_end_ns(bool use_index);

 private:
  void leave_out_copies();
  void take_clock();

  std::string name_;
  std::vector<Member> members_;
  std::size_t unread_ = 0;
  std::size_t copies_ = 0;
  std::vector<std::string> notes_;
  std::vector<std::uint64_t> end_ns_;
};

/// The peak of the sum of the live heap bytes of all recordings.
struct SumPeakOfSet {
  std::uint64_t ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t at_most_bytes = 0;                ///< `bytes`, unless the search would have taken too much memory
  std::vector<std::uint64_t> live_bytes;          ///< by member
  std::size_t member = 0;                         ///< whose allocation reached it
  std::optional<replay::EventPosition> position;  ///< directly after that allocation; none: only the time is known
};

/// Reads the recordings again where the peak can be. `bounds`: by member, of its timeline on the selection of
/// `options`, whose moments are not used: the whole recordings count. None: nothing was live.
std::optional<SumPeakOfSet> find_sum_peak(const RecordingSet& set, const TraceOptions& options,
                                          const std::vector<processes::LiveBounds>& bounds);
/// The same for all heap blocks. Reads each recording for its timeline first.
std::optional<SumPeakOfSet> find_sum_peak(const RecordingSet& set, const TraceOptions& options);

/// The live bytes of a recording over time on the one clock. Precondition: the profile has a timeline.
processes::LiveBounds bounds_of(const model::Profile& profile, std::uint64_t start_ns);

/// The options with which one member is read, so that it has its part of the selection of all: times on the one clock
/// become those of the member.
class SelectionOnClock {
 public:
  /// Throws std::invalid_argument or replay::SelectionError when a time is wrong.
  SelectionOnClock(const TraceOptions& options, RecordingSet& set);

  /// None: the member has no part in the selected time.
  std::optional<TraceOptions> of(std::size_t member) const;
  /// Sets the times of the profile of all.
  void describe(model::Profile& profile) const;
  const std::optional<SumPeakOfSet>& peak() const noexcept { return peak_; }

 private:
  std::uint64_t ns_of(const char* option, const std::string& text);

  const TraceOptions& options_;
  RecordingSet& set_;
  std::optional<std::uint64_t> from_ns_, to_ns_, live_at_ns_;
  std::optional<SumPeakOfSet> peak_;  ///< if a time is "peak"
};

}  // namespace heapprof::cli
