// The Python interpreters of this process: finds them among the modules of the recorded stacks, and determines
// whether their frames can be read.
//
// The recorder is a guest: it calls no function of an interpreter, takes no lock of it, and writes nothing to its
// data. An interpreter is used only if its version is known and it confirms the layout of that version; else its
// frames are not recorded, and a note says why.
#pragma once

#include <cstdint>

#include "common/ids.h"
#include "preload/arch/arch.h"
#include "preload/python/evaluation_code.h"
#include "preload/python/freed_code.h"
#include "preload/python/layout.h"
#include "preload/python/readable_pages.h"
#include "preload/recorder/trace/stream.h"
#include "preload/unwind/stack_bounds.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::python {

/// The type of an object. A program that is linked with the interpreter may have a copy of a type (a COPY
/// relocation), which then replaces that of the library.
struct ObjectType {
  std::uint64_t in_module;
  std::uint64_t in_program;  ///< 0: the program has none

  bool is(std::uint64_t type) const noexcept { return type != 0 && (type == in_module || type == in_program); }
};

/// A thread-local variable.
struct ThreadVariable {
  std::uint64_t index;  ///< address of its module's tls_index: the number of the module is there; 0: it has none
  std::int32_t
      offset;  ///< in bytes from the module's variables of the thread; without `index`: from the thread pointer
};

/// Constant once it can be found. Its memory may be read only while a frame of `module` is on the reader's stack.
struct Interpreter {
  const Layout* layout;
  std::uint32_t module;  ///< its ModuleId; set last
  std::uint64_t runtime;
  std::uint64_t module_begin;  ///< addresses of the module
  std::uint64_t module_end;
  /// Addresses of the data that the module's file contains, with the types: see is_static_code().
  std::uint64_t static_begin;
  std::uint64_t static_end;
  /// Where the address of a thread's PyThreadState is; only if the layout has no key.
  ThreadVariable state_variable;
  ObjectType code_type;
  ObjectType text_type;
  ObjectType bytes_type;
  /// Byte offsets: the first PyInterpreterState in the runtime; in that, the next one and the number.
  std::uint32_t first_state;
  std::uint32_t next_state;
  std::uint32_t state_id;
  /// Counts how often the runtime was ended and begun again (note_runtime()).
  std::uint32_t restarts;
  std::uint32_t initialized;  ///< whether the runtime was seen initialized
  /// 1 + `restarts` of the last runtime for which begins_to_free_frames() was true.
  std::uint32_t finalized_runtime;
  /// The invalidation epoch in which the runtime was last found readable; kNoEpoch: in none.
  std::uint64_t readable_epoch;
  EvaluationCode evaluation;  ///< only if evaluations have nothing else
  CodeRelease release;        ///< only if code objects have no versions

  /// Whether the code object at `code` is a part of the interpreter's data, as those of importlib are in 3.11: it is
  /// never freed, so no other one is ever at its address.
  bool is_static_code(std::uint64_t code) const noexcept { return code - static_begin < static_end - static_begin; }
};

inline constexpr std::uint32_t kMaxInterpreters = 8;

namespace detail {
extern Interpreter interpreters[kMaxInterpreters] [[gnu::visibility("hidden")]];
extern std::uint32_t interpreter_count [[gnu::visibility("hidden")]];
extern std::uint32_t found_interpreters [[gnu::visibility("hidden")]];

/// pthread_getspecific, of which libc's headers have another declaration.
using ThreadValue = void*(unsigned key);
[[gnu::visibility("hidden")]] extern ThreadValue* const thread_value;

/// The value of a variable; 0: the thread has not used any variable of the module, and so this one is 0. Only
/// readable memory is read, because libc may be about to move the thread's table of modules.
std::uint64_t value_of(const ThreadVariable& variable, ReadablePages& pages) noexcept;
}  // namespace detail

/// Whether frames of Python are recorded. Changes from false to true at most once.
inline bool is_on() noexcept { return __atomic_load_n(&detail::interpreter_count, __ATOMIC_ACQUIRE) != 0; }

/// Increases after interpreter_number() has become that of a new interpreter.
inline std::uint32_t found_interpreters() noexcept {
  return __atomic_load_n(&detail::found_interpreters, __ATOMIC_ACQUIRE);
}

/// `number`: from interpreter_number(), not 0.
inline Interpreter& interpreter(std::uint32_t number) noexcept { return detail::interpreters[number - 1]; }

/// The number of the interpreter whose module this is, from 1; 0: the module is none, or its frames cannot be read.
inline std::uint32_t interpreter_number(ModuleId module) noexcept {
  if (module == ModuleId::kTruncationRoot) return 0;
  const std::uint32_t count = __atomic_load_n(&detail::interpreter_count, __ATOMIC_ACQUIRE);
  for (std::uint32_t i = 0; i != count && i != kMaxInterpreters; ++i)
    if (__atomic_load_n(&detail::interpreters[i].module, __ATOMIC_ACQUIRE) == static_cast<std::uint32_t>(module))
      return i + 1;
  return 0;
}

/// Whether an object is a part of an interpreter's module, so that it is never freed.
bool is_static(std::uint64_t object) noexcept;

/// Call it when a module has been defined in the trace, on the thread that has the module on its stack: so the module
/// stays loaded during the call. If the module is an interpreter, its record is written to `stream`. Does nothing if
/// lines of Python are not to be recorded.
void module_defined(const unwind::ModuleInfo& module, recorder::Stream& stream) noexcept;

/// The PyThreadState of the calling thread, and whether it was found to be one.
struct CheckedState {
  std::uint64_t state;  ///< 0: none yet
  bool valid;
};

/// The calling thread's PyThreadState; 0: it has none, or its frames must not be read: the state is another thread's,
/// or another thread is finalizing the interpreter. `bounds`: of this thread. `checked`: of this thread and
/// interpreter, kept between calls. Precondition: a frame of the interpreter's module is on the thread's stack.
std::uint64_t thread_state(Interpreter& python, ReadablePages& pages, unwind::StackBounds& bounds,
                           CheckedState& checked) noexcept;

/// The fast path of thread_state(): whether it would certainly return `state`, which it has returned before for the
/// calling thread. kLayout: that of `python`. False also while the thread itself finalizes the interpreter.
/// Precondition: as thread_state().
template <const Layout& kLayout>
[[gnu::always_inline]] inline bool has_same_state(const Interpreter& python, std::uint64_t state,
                                                  [[maybe_unused]] ReadablePages& pages) noexcept {
  if constexpr (kLayout.tss_key != 0) {
    const auto key = load<std::uint64_t>(python.runtime + kLayout.tss_key);
    if (static_cast<std::uint32_t>(key) == 0 ||
        reinterpret_cast<std::uint64_t>(detail::thread_value(static_cast<unsigned>(key >> 32))) != state)
      return false;
  } else {
    if (detail::value_of(python.state_variable, pages) != state) return false;
  }
  if constexpr (kLayout.lock_holder != 0) {
    const auto holder = load<std::uint64_t>(python.runtime + kLayout.lock_holder);
    if (holder != state && holder != 0) return false;
  }
  return load<std::uint64_t>(python.runtime + kLayout.finalizing) == 0 &&
         load<std::uint64_t>(state + kLayout.thread_id) == arch::thread_pointer();
}

/// Whether another thread than that of `thread_state` finalizes the interpreter: it changes and frees the states and
/// frames of others. Precondition: as thread_state().
bool is_finalized_by_another(const Interpreter& python, std::uint64_t thread_state) noexcept;

/// Call it for an event at which no Python frames are read, because recording is paused or there is no memory. If
/// `caller` is code of an interpreter, notes whether its runtime has ended: it may begin again before frames are read
/// again, on a thread whose state has the same address as before.
void note_unread_event(ProgramCounter caller) noexcept;

/// Whether `caller`, which is about to unmap memory, is an interpreter that is being finalized, for the first time
/// since its runtime began. It frees the frames and states of all other threads. One of them may be in an event that
/// has read before that nobody finalizes, and must leave it first.
bool begins_to_free_frames(ProgramCounter caller) noexcept;

}  // namespace heapprof::python
