// What `heapprof record` prints when the program has ended: the figures of the process with the highest peak, and the
// other traces of the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/launch/recorded_traces.h"
#include "analyzer/launch/supervisor.h"

namespace heapprof::cli {

/// The figures of a trace that the summary prints.
struct TraceFigures {
  launch::RecordedTrace trace;
  std::string error;    ///< why the trace could not be read; empty: it was read
  std::string program;  ///< the last part of the executable's path
  std::string end;      ///< "exited with status 0"
  std::uint64_t duration_ns = 0;
  std::uint64_t events = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_blocks = 0;
  std::uint64_t live_bytes = 0;  ///< at the end
  std::uint64_t live_blocks = 0;
  bool complete = true;
};

/// What a run without --children left out.
struct LeftOut {
  launch::ChildWork work;
  std::vector<std::string> command;  ///< the program and its arguments
};

/// Lines of the summary: what the child processes of `program` took, and the command that records them. Empty: they
/// did too little.
std::string note_of_children(const LeftOut& left_out, const std::string& program);

/// Reads the traces of the program, oldest first, and of its children, and returns the summary. Reading takes some 4
/// s of processor time for 100 million events; after 10 s the remaining traces of children are not read. `pattern` is
/// the pattern of the file names; `children` is whether children were recorded. Changes the modification time of the
/// trace that the summary is about, so that it is the newest. `directory`: the one that -o names, for all traces;
/// else empty.
std::string record_summary(const std::string& pattern, const std::vector<launch::RecordedTrace>& of_program,
                           const std::vector<launch::RecordedTrace>& of_children, bool children,
                           const std::string& directory, const LeftOut& left_out);

/// A process that executes other programs has a trace for each. Returns, for each process, the position in `traces`
/// of the trace that represents it. That is the trace of the last program, since earlier ones are mostly wrapper
/// scripts; or an earlier trace whose peak is more than 1 MiB higher, which no wrapper reaches. The processes are in
/// the order of their first traces.
std::vector<std::size_t> traces_of_processes(const std::vector<TraceFigures>& traces);

/// Sorts positions in `traces` by peak, highest first; equal peaks by events.
void sort_by_peak(std::vector<std::size_t>& positions, const std::vector<TraceFigures>& traces);

}  // namespace heapprof::cli
