// Records embedded allocators: finds their functions in programs and libraries, and patches them so that calls are
// recorded and the allocator still serves them (docs/embedded-allocators.md).
//
//   intercept            which objects are examined, and when
//   scan_lock            one scan at a time
//   loaded_objects       which objects are new on the loader's list
//   object_examiner      which functions of an object are patched
//   allocator_functions, object_symbols, exported_symbols, allocator_strings, elf_file   how they are found
//   object_patcher, <architecture>/patch     how they are patched
//   patched_call, <architecture>/trampoline  how a call is recorded
//   object_report        messages and notes about an object's functions
#pragma once

namespace heapprof::intercept {

/// Patches the objects that were loaded with the program, and those that are loaded later. Returns whether the free
/// that the program's calls reach has been patched. `only_thread`: the process has no other thread. Precondition: the
/// library's constructor, recording has started.
bool start(bool only_thread) noexcept;

}  // namespace heapprof::intercept
