// Programs that bring their own allocator: its functions are found by name in the loaded objects and diverted at
// their entry, so that the allocator stays in charge and its calls are recorded (docs/own-allocators-and-privileges.md).
//
//   names      which functions, and where they find their arguments
//   symbols    those of one object, read from its file
//   arch/*/patch, thunk.S    diverting one
//   call       what is recorded of a call
//   intercept  which objects, and when
//
// When. All objects that came with the program: in the library's constructor, before main, while there is one thread.
// An object loaded later: at the loader's own allocations, when the object is mapped and none of its code has run; it is
// the loading thread that calls, and it holds the loader's lock, so that the object stays. What is met in any other way
// while there are other threads is left alone, and said.
//
// Left alone always: libc and the functions that the hooks call for the program (they are recorded there); sanitizers'
// allocators; functions for which patch.h knows a reason. Each object is told of once in the trace.
#pragma once

namespace heapprof::intercept {

/// In the library's constructor, when recording has started. False: the function that programs reach as free is
/// neither ours nor diverted.
bool start() noexcept;

}  // namespace heapprof::intercept
