// The mirror of intercept/x86_64/call_frame.h. Functions are not diverted here yet (patch.cpp), so that no thunk fills
// it.
#pragma once

#include <cstdint>

#include "preload/recorder/recorder.h"
#include "preload/recorder/thread/thread_state.h"

namespace heapprof::intercept {
struct Target;
}

namespace heapprof::arch {

struct CallFrame {
  std::uint64_t x[8];             ///< arguments, and x0 the result
  std::uint32_t index;            ///< among the patched calls that the thread is in
  const void* block;              ///< what is given up
  std::uint64_t size;             ///< what is asked for
  recorder::InterceptedCall interrupted;  ///< where this call stands in the list: what stood there
  recorder::AllocatorCall call;   ///< set for calls that allocate
  const void* outer_reallocating;
  std::uint32_t outer_depth;
  std::uint32_t begun;
  const void* original;
  const intercept::Target* target;
  std::uint64_t host_fp;
  std::uint64_t return_address;

  std::uint64_t argument(unsigned number) const noexcept { return x[number & 7]; }
  std::uint64_t result() const noexcept { return x[0]; }
  EntryRegisters entry() const noexcept {
    return {return_address, reinterpret_cast<std::uint64_t>(this + 1), host_fp};
  }
};

}  // namespace heapprof::arch
