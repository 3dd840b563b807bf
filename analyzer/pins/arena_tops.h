// The free memory that malloc_trim does not return, although no live block keeps it: the tops of glibc's arenas.
//
// An arena of a thread consists of heaps of 64 MiB. malloc_trim returns the free memory between blocks, but not the
// top, the free end of the arena's last heap. Once the arena has another heap, it is an ordinary free chunk.
//
// A recording does not show which heaps are of one arena. A heap that was full counts as followed by another one,
// unless no other heap has a live block: glibc unmaps the last heap of an arena when it is empty.
//
// glibc 2.36: malloc/malloc.c (mtrim, sysmalloc), malloc/arena.c (grow_heap, heap_trim).
#pragma once

#include "analyzer/allocators/process_allocators.h"
#include "analyzer/pins/page_ranges.h"

namespace heapprof::pins {

/// The tops, with memory behind them that never held a block. `once_held`: what has held a block; `kept`: what live
/// blocks keep. Empty if the allocator is another one.
PageRanges arena_tops(const allocators::ProcessAllocators& allocators, const PageRanges& once_held,
                      const PageRanges& kept);

}  // namespace heapprof::pins
