// The functions that preload/heapprof.h calls: a program controls the recorder and reports blocks of its own pools.
#include "preload/hooks/hook.h"

namespace heapprof::hooks {

using arch::entry_registers;
using arch::EntryRegisters;

HEAPPROF_HOOK(void, heapprof_recorder_pause, ()) {
  recorder::pause();
  prevent_tail_call();
}

HEAPPROF_HOOK(void, heapprof_recorder_resume, ()) {
  recorder::resume();
  prevent_tail_call();
}

HEAPPROF_HOOK(void, heapprof_recorder_mark, (const char* text)) {
  if (text != nullptr) recorder::mark(text);
  prevent_tail_call();
}

HEAPPROF_HOOK(int, heapprof_recorder_is_recording, ()) { return recorder::is_recording() ? 1 : 0; }

/// Records a block of the program's own pool. There is no real function to call.
HEAPPROF_HOOK(void, heapprof_recorder_report_alloc, (const void* block, std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  recorder::AllocatorCall call;
  call.done();
  if (block != nullptr) recorder::allocated(block, size, entry, call);
  prevent_tail_call();
}

HEAPPROF_HOOK(void, heapprof_recorder_report_free, (const void* block)) {
  const EntryRegisters entry = entry_registers();
  if (block != nullptr) recorder::freed(block, entry);
  prevent_tail_call();
}

}  // namespace heapprof::hooks
