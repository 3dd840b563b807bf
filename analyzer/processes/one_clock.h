// One clock for several recordings: when each of them began, and which of them are copies of another one.
//
// Recordings of one boot share CLOCK_MONOTONIC. Those of different boots or machines have only the calendar
// (CLOCK_REALTIME) in common, which may be set, and which differs from machine to machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/trace_format.h"

namespace heapprof::processes {

struct OneClock {
  std::vector<std::uint64_t> start_ns;  ///< by recording: since the first one began
  bool is_calendar = false;             ///< the recordings are of several boots or machines
};

/// Precondition: there is a header.
OneClock one_clock(std::span<const FileHeader> headers);

/// The length of a recording, in nanoseconds; nullopt: its header does not say, because the program still runs or was
/// killed.
std::optional<std::uint64_t> length_of(const FileHeader& header) noexcept;

/// By recording: the one of which it is a copy, since both have the same random id; nullopt: it is none. Of several
/// files of one recording, that one is no copy which is not truncated, whose program has ended, which is the longest,
/// or which is the first. `file_bytes`: the sizes of the files.
std::vector<std::optional<std::size_t>> copies(std::span<const FileHeader> headers,
                                               std::span<const std::uint64_t> file_bytes);

}  // namespace heapprof::processes
