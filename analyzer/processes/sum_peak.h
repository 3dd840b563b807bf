// The peak of the sum: the moment at which several processes together had most live bytes.
//
// Each process's timeline gives the least and the most that it had live in each piece of its time. Where the sum of
// the highest values is below what the sum has somewhere for certain, the peak is not; only the events of what is
// left are read (windows_of_peak). Where that is still too much, the windows with the highest bounds are read, and
// Windows::at_most_elsewhere says how high the sum can be outside of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace heapprof::processes {

/// A piece of the time of a process, until the next one.
struct LivePiece {
  std::uint64_t from_ns = 0;  ///< on the one clock
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
  std::uint64_t changes = 0;  ///< about how often the live bytes changed
};

/// The live bytes of a process. They are 0 before the first piece and after `end_ns`.
struct LiveBounds {
  std::vector<LivePiece> pieces;  ///< ascending
  std::uint64_t end_ns = 0;
};

/// Both ends belong to it.
struct Window {
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = 0;
};

struct Windows {
  std::vector<Window> chosen;           ///< ascending, disjoint; empty: nothing was ever live
  std::uint64_t at_most_elsewhere = 0;  ///< bytes: the sum is nowhere else higher
};

/// Where the peak of the sum can be: windows with about `max_changes` changes, at least one window.
Windows windows_of_peak(std::span<const LiveBounds> processes, std::uint64_t max_changes);

/// The live bytes of a process after a change.
struct Step {
  std::uint64_t ns = 0;  ///< on the one clock
  std::uint64_t live_bytes = 0;
};

/// The changes of a process in the windows, in order, and its live bytes at their beginnings.
struct StepsInWindows {
  std::vector<std::uint64_t> at_begin;   ///< by window
  std::vector<std::vector<Step>> steps;  ///< by window
};

struct SumPeak {
  std::uint64_t ns = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> live_bytes;  ///< by process; they add up to `bytes`
  std::size_t window = 0;
  /// The last change before it: the process, and its position in the steps of that process and window.
  std::size_t process = kBegin;
  std::size_t step = 0;
  static constexpr std::size_t kBegin = static_cast<std::size_t>(-1);  ///< the peak is at the window's begin
};

/// The highest sum in the windows; the first one, if there are several. Changes of equal time are taken process by
/// process. Precondition: there is a window.
SumPeak peak_in_windows(std::span<const Window> windows, std::span<const StepsInWindows> processes);

}  // namespace heapprof::processes
