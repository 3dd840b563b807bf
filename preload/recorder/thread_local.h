// The recorder's part of the host's thread-local storage: small, because static TLS is scarce.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

struct ThreadState;

struct ThreadLocal {
  ThreadState* state;
  std::uint64_t allocations;      ///< recorded by this thread so far
  const void* last_block;         ///< of the last one
  const void* reallocating;       ///< block whose realloc has begun
  std::uint32_t allocator_depth;  ///< real allocator calls this thread is inside of
  std::uint32_t generation;       ///< g_process_generation when `state` was set
};
extern thread_local constinit ThreadLocal t_local [[gnu::tls_model("initial-exec")]];

}  // namespace heapprof::recorder
