// Answers the same question about a running program again and again, in one process that has replayed what was
// recorded so far. `serve` starts it (analyzer/serve/standing_process.h) with HEAPPROF_ANSWERS=standing.
//
// Whenever the replay has reached the present, the process makes a copy of itself, which goes on as the command does
// and prints the answer. The process itself writes what the copy printed to its standard output:
//
//   STATUS OUTPUT_BYTES ERROR_BYTES\n   the exit status of the copy, 128 + n if signal n ended it
//   its standard output, then its standard error
//
// Then it waits for a byte on its standard input, and replays what was recorded since. It ends with its input, and
// when the program that is recorded has ended.
#pragma once

#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::cli {

/// For the first analysis of the process; empty for others, and without HEAPPROF_ANSWERS=standing.
replay::AtPresent standing_answers();

}  // namespace heapprof::cli
