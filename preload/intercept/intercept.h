// Programs that bring their own allocator: its functions are found by name in the loaded objects and diverted at
// their entry, so that the allocator stays in charge and its calls are recorded
// (docs/own-allocators-and-privileges.md).
//
//   names      which functions, and where they find their arguments
//   symbols    those of one object, read from its file
//   */patch, trampoline.S    diverting one
//   call       what is recorded of a call
//   intercept  which objects, and when
//
// When. All objects that came with the program: in the library's constructor, before main, while there is one thread.
// An object loaded later: at the loader's own allocations, when the object is mapped and none of its code has run; it
// is the loading thread that calls, and it holds the loader's lock, so that the object stays. What is met in any
// other way while there are other threads is left alone, and said.
//
// Functions behind the hooks are diverted as well, where something may reach them past the hooks, and the hooks then
// call what lies behind the diversion:
//
//   those of a library that answers malloc for the program, which itself may be linked so that it reaches its own
//   (-Bsymbolic);
//   libc's, when the program or a library of its can load others: one that is loaded with RTLD_DEEPBIND finds libc's
//   malloc before ours. It is too late for that when it happens, as threads may be in malloc.
//
// The libc of another namespace (dlmopen) is an allocator like any other that comes later. Namespaces other than the
// program's are visible from glibc 2.35 on (r_debug_extended).
//
// Left alone always: sanitizers' allocators; functions for which patch.h knows a reason. Each object is told of once
// in the trace, the program's libc never.
#pragma once

namespace heapprof::intercept {

/// In the library's constructor, when recording has started. False: the function that programs reach as free is
/// neither ours nor diverted.
bool start() noexcept;

}  // namespace heapprof::intercept
