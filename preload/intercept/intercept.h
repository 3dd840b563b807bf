// Records embedded allocators: finds the functions of allocators that programs and libraries bring along, and patches
// them, so that the allocator stays in charge and its calls are recorded (docs/embedded-allocators.md).
//
//   intercept            which objects are examined, and when
//   scan_lock            one scan at a time
//   loaded_objects       which objects are new on the loader's list
//   object_examiner      which functions of an object are patched
//   allocator_functions, object_symbols, allocator_strings, elf_file   how they are found
//   object_patcher, <architecture>/patch     how they are patched
//   patched_call, <architecture>/trampoline  what is recorded of a call
//   object_report        what people read about it
#pragma once

namespace heapprof::intercept {

/// Patches the objects that came with the program, and watches for others. Returns whether the free that the
/// program's calls reach has been patched. Precondition: the library's constructor, one thread, recording has
/// started.
bool start() noexcept;

}  // namespace heapprof::intercept
