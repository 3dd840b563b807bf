// Which process started which, from the headers of their traces.
//
// A process that executes another program begins a new trace, so a process has one or more traces. A forked child
// that neither allocates nor executes a program has none; its own children have no recorded parent then.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "common/trace_format.h"

namespace heapprof::processes {

/// How a trace began.
enum class Begin {
  kRoot,      ///< the process that started it is not recorded
  kForked,    ///< the process was forked, and has executed no other program since
  kStarted,   ///< the process was forked and has executed this program
  kExecuted,  ///< the process was recorded before, and executed this program
};

struct TraceInTree {
  std::size_t trace = 0;  ///< index in the argument of process_tree()
  Begin begin = Begin::kRoot;
  std::optional<std::size_t> from;  ///< the trace that forked or executed it, as an index like `trace`
  std::size_t depth = 0;            ///< number of processes between it and its root, the root included
};

/// All traces, each after the one that it comes from; siblings in the order of their starts. Traces of one machine
/// are related by process id and time; those of different boots or PID namespaces are not.
std::vector<TraceInTree> process_tree(std::span<const FileHeader> headers);

}  // namespace heapprof::processes
