// The Python interpreter of this process: finds it among the modules of the recorded stacks, and determines whether
// its frames can be read.
//
// The recorder is a guest: it calls no function of the interpreter, takes no lock of it, and writes nothing to its
// data. An interpreter is used only if its version is known and it confirms the layout of that version; else its
// frames are not recorded, and a note says why. There is one interpreter per process: another one is not used.
#pragma once

#include <cstdint>

#include "preload/python/layout.h"
#include "preload/recorder/trace/stream.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::python {

/// Constant once `layout` is set.
struct Interpreter {
  const Layout* layout;  ///< null: no interpreter has been found whose frames can be read
  std::uint64_t runtime;
  std::uint64_t code_type;
  std::uint64_t text_type;
  std::uint64_t bytes_type;
};

namespace detail {
extern Interpreter interpreter [[gnu::visibility("hidden")]];
}  // namespace detail

/// Whether the frames of Python are recorded. Changes from false to true at most once.
inline bool is_on() noexcept { return __atomic_load_n(&detail::interpreter.layout, __ATOMIC_ACQUIRE) != nullptr; }

/// Precondition: is_on().
inline const Interpreter& interpreter() noexcept { return detail::interpreter; }

/// Call it when a module has been defined in the trace, on the thread that has the module on its stack: so the module
/// stays loaded during the call. If the module is an interpreter, its record is written to `stream`. Does nothing if
/// lines of Python are not to be recorded.
void module_defined(const unwind::ModuleInfo& module, recorder::Stream& stream) noexcept;

/// The calling thread's PyThreadState; 0: it has none, or its frames must not be read because another thread is
/// finalizing the interpreter. Precondition: is_on().
std::uint64_t thread_state() noexcept;

}  // namespace heapprof::python
