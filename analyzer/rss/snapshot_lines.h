// The resident pages of a snapshot, as lines: first match wins, so that every page is in one line.
//
//   1. recorder: ranges that it listed
//   2. files, shared memory, the main thread's stack: by the name of the mapping
//   3. mappings of the program that the trace has, without those that an allocator made or has blocks in
//   4. allocator, as far as it is sure: what live blocks keep, [heap], mappings that an allocator made
//   5. data of modules behind their files (.bss), stacks of threads
//   6. allocator: what once held a block, and the rest of the mapping in which such memory is
//   7. unknown
#pragma once

#include <vector>

#include "analyzer/rss/process_memory.h"
#include "analyzer/rss/resident_lines.h"
#include "analyzer/trace/residency.h"

namespace heapprof::rss {

/// Every resident page of the snapshot is in one line: the sum is memory.total_bytes().
ResidentMemory classify(const trace::ResidencySnapshot& snapshot, const ProcessMemory& process);

/// The mappings in which an allocator has its blocks, or which it made.
std::vector<replay::LiveMapping> allocator_mappings(const ProcessMemory& process);

}  // namespace heapprof::rss
