// Finds the traces that a process and its children wrote, and writes into them how the process ended, which only its
// parent process can find out. Otherwise only the recorder writes into the header of a trace, and `heapprof control`
// into its mailbox.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/trace_format.h"

namespace heapprof::launch {

struct RecordedTrace {
  std::string path;
  FileHeader header;
};

/// The traces among `candidates` that the process `pid` with `start_time` wrote, oldest first: a process that
/// executes another program begins a new trace.
std::vector<RecordedTrace> traces_of(const std::vector<std::string>& candidates, int pid, std::uint64_t start_time);

/// The traces among `candidates` of descendants of `pid` that started since `since_ns` (CLOCK_REALTIME), in the order
/// of `candidates`. A descendant is found when all processes between it and `pid` are recorded.
std::vector<RecordedTrace> traces_of_children(const std::vector<std::string>& candidates, int pid,
                                              std::uint64_t since_ns);

/// Writes how the process ended into the last of its `traces`, and into earlier ones without an end that another
/// program was executed. The process must have ended. `code`: exit status or signal number.
void write_end(std::vector<RecordedTrace>& traces, bool signaled, int code);

/// Writes that another program was executed into those of `traces`, of any processes, that have no end although a
/// later one is of the same process. The recorder of that program writes it only if HEAPPROF_SESSION names the
/// earlier trace, which it does not if a forked child passes on an environment from before the fork, as shells do.
void write_executions(std::vector<RecordedTrace>& traces);

/// Under sudo, changes the owner of the traces to the invoking user. The process must have ended. Changes only files
/// that root owns and that have one link.
void give_to_invoking_user(const std::vector<RecordedTrace>& traces);

}  // namespace heapprof::launch
