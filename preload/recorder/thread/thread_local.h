// The recorder's part of the host's thread-local storage: small, because static TLS is scarce.
#pragma once

#include <cstdint>

#include "preload/recorder/thread/inner_blocks.h"

namespace heapprof::recorder {

struct ThreadState;

struct ThreadLocal {
  ThreadState* state;
  const void* reallocating;       ///< block whose realloc has begun
  InnerBlocks inner_blocks;       ///< meaningful inside a real allocator call
  std::uint32_t allocator_depth;  ///< real allocator calls this thread is inside of
};
extern thread_local constinit ThreadLocal t_local [[gnu::tls_model("initial-exec"), gnu::visibility("hidden")]];

}  // namespace heapprof::recorder
