// The recorder's part of the host's thread-local storage. Small, because static TLS is scarce.
#pragma once

#include <cstdint>

#include "preload/recorder/thread/inner_blocks.h"

namespace heapprof::recorder {

struct ThreadState;

struct ThreadLocal {
  ThreadState* state;
  const void* reallocating;       ///< the block whose realloc has begun; null: none
  InnerBlocks inner_blocks;       ///< valid while allocator_depth is above 0
  std::uint32_t allocator_depth;  ///< number of nested calls of the real allocator that this thread is in
};
extern thread_local constinit ThreadLocal t_local [[gnu::tls_model("initial-exec"), gnu::visibility("hidden")]];

}  // namespace heapprof::recorder
