// What preload/heapprof.h finds: the calls a program makes to talk to the recorder.
#include "preload/hooks/hook.h"

namespace heapprof::hooks {

using arch::entry_registers;
using arch::EntryRegisters;

HEAPPROF_HOOK(void, heapprof_recorder_pause, ()) {
  recorder::pause();
  return_here();
}

HEAPPROF_HOOK(void, heapprof_recorder_resume, ()) {
  recorder::resume();
  return_here();
}

HEAPPROF_HOOK(void, heapprof_recorder_mark, (const char* text)) {
  if (text != nullptr) recorder::mark(text);
  return_here();
}

HEAPPROF_HOOK(int, heapprof_recorder_is_recording, ()) { return recorder::is_recording() ? 1 : 0; }

/// A block of a pool of the program's own. No real allocator stands behind it.
HEAPPROF_HOOK(void, heapprof_recorder_report_alloc, (const void* block, std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  recorder::AllocatorCall call;
  call.done();
  if (block != nullptr) recorder::allocated(block, size, entry, call);
  return_here();
}

HEAPPROF_HOOK(void, heapprof_recorder_report_free, (const void* block)) {
  const EntryRegisters entry = entry_registers();
  if (block != nullptr) recorder::freed(block, entry);
  return_here();
}

}  // namespace heapprof::hooks
