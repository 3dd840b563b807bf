// The table of modules: the loaded objects found on call stacks, each with the id to which nodes refer.
//
// Objects are loaded and unloaded without a call that the recorder could hook, so the module of an address is known
// only within one module generation. Every event that comes from ld.so raises the generation: loading and unloading
// both cause some. A module stores the generation in which it was last confirmed. Before the module is used in a
// newer generation, find_module() looks its address up again. If the loader returns the same object, the module is
// confirmed; another object becomes another module. Two objects are the same if their address, path and build id are
// equal (without a build id: their unwind tables). An object that is loaded again at its old address therefore keeps
// its id.
//
// Modules are never removed or changed. There are less than kMaxModules; further objects are treated as code without
// a module.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/ids.h"
#include "preload/unwind/definitions.h"
#include "preload/unwind/elf_object.h"
#include "preload/unwind/invalidation.h"

namespace heapprof::unwind {

inline constexpr std::uint32_t kMaxModules = 1u << 16;
static_assert(raw(ModuleId::kPython) == kMaxModules - 1);

/// Immutable once it can be found, except name and defined_in.
struct Module : ElfObject {
  ModuleId id;
  std::atomic<const char*> name;          ///< the loader's name; valid while the module is on the reader's stack
  std::atomic<std::uint32_t> defined_in;  ///< the last trace that defines the module: see redefine_modules()
  std::uint32_t next;                     ///< the next module with the same hash
};

/// What the fast path needs of a module.
struct ModuleState {
  std::atomic<std::uint64_t> confirmed;  ///< the generation; 0: never
  std::uint64_t load_bias;
};

namespace detail {
extern std::atomic<std::uint64_t> generation [[gnu::visibility("hidden")]];
extern ModuleState module_states[kMaxModules];
}  // namespace detail

/// The module generation. Read it before the data that is to be valid in it.
inline std::uint64_t generation() noexcept { return detail::generation.load(std::memory_order_acquire); }
inline void raise_generation() noexcept {
  detail::generation.fetch_add(1, std::memory_order_acq_rel);
  raise_invalidation_epoch();
}

inline ModuleState& state_of(ModuleId id) noexcept { return detail::module_states[raw(id)]; }

/// Call it before the first capture.
void start_modules() noexcept;

/// Finds the module that holds `pc`, which must be on the calling thread's stack, and confirms it in `generation`.
/// Returns null if there is no such module, or no memory for it.
Module* find_module(std::uint64_t pc, std::uint64_t generation) noexcept;

/// Defines the module in the trace, unless that has been done.
void define(Module& module, const Definitions& definitions) noexcept;

/// Call this when a new trace begins: all modules will be defined again.
void redefine_modules() noexcept;

}  // namespace heapprof::unwind
