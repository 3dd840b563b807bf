// The traces that a process left, and the last word in them.
//
// A killed process can't say how it ended; its parent can. What is written here is all that anybody but the
// recorder ever writes into a trace's header, apart from the mailbox.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/trace_format.h"

namespace heapprof::launch {

struct TraceFound {
  std::string path;
  FileHeader header;
};

/// Of `candidates` those whose header says that this very process made them, oldest first: a process that
/// executes another program goes on in a new trace.
std::vector<TraceFound> traces_of(const std::vector<std::string>& candidates, int pid, std::uint64_t start_time);

/// Of `candidates` those of processes that `pid` started, or that these started, since `since_ns` (CLOCK_REALTIME):
/// as far as each of their ancestors is recorded too. In the order of `candidates`.
std::vector<TraceFound> traces_of_children(const std::vector<std::string>& candidates, int pid,
                                           std::uint64_t since_ns);

/// Writes how the process ended into the last of its `traces`, and into earlier ones, where nothing is written
/// yet, that another program was executed. The process must be dead. `code`: exit status or signal number.
void write_end(std::vector<TraceFound>& traces, bool signaled, int code);

/// Under sudo the traces become the invoking user's, now that nobody writes them any more. Only files of root's that
/// have one name.
void give_to_invoking_user(const std::vector<TraceFound>& traces);

}  // namespace heapprof::launch
