// The recorder's own memory (design 2.8): never the host's heap, never a hook.
//
// Small blocks come from mimalloc, linked in privately. It is built as an allocator for one thread
// (preload/memory/guest.h) and used under a lock that nobody waits for: whoever finds it taken, be it by
// another thread, by the code this signal handler interrupted or, in a forked child, by a thread that no
// longer exists, gets a mapping of its own instead, and frees by handing the block to the next one who has
// the lock. So every function here may be called from any thread, from signal handlers, and after fork.
// What that costs when it happens is a system call and a page.
//
// The alternative, mimalloc as it comes, was measured and passed over: a heap per thread in thread-local
// storage, given up by a pthread key's destructor (glibc allocates for the 33rd key, through our hook), no
// safety in signal handlers, and 32 MiB of addresses a thread.
//
// Tables that grow large or are touched on the common path belong in map_anonymous.
#pragma once

#include <cstddef>

namespace heapprof::memory {

/// A block of at least `bytes`, aligned to 16, its content undefined. Null when there is no memory or when
/// the host forbade system calls and nothing is left. Tens of nanoseconds; microseconds for a mapping.
void* own_alloc(std::size_t bytes) noexcept;

/// Gives back what own_alloc returned; null is ignored.
void own_free(void* block) noexcept;

/// Zeroed pages, in /proc/PID/maps as "[anon:heapprof]" where the kernel can name them (5.17 and later).
/// `bytes` is rounded up to pages. Null when there is no memory.
void* map_anonymous(std::size_t bytes) noexcept;
void unmap_anonymous(void* pages, std::size_t bytes) noexcept;

}  // namespace heapprof::memory
