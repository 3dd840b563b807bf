// The loaded objects, as far as stacks met them.
//
// Objects come and go without a call that could be watched (design 2.2), so nothing known about an address
// is believed for long. There is a generation, raised by every event that comes out of ld.so: loading and
// unloading both cause some. A module carries the generation in which it was last confirmed. Whoever finds
// it older asks the loader again (_dl_find_object, lock-free) for an address that lies in it and on the
// asker's own stack, which keeps the object from being unloaded meanwhile; the same object still there is
// confirmed, another one becomes a module of its own.
//
// The same object loaded again keeps its id: the same place, path and build id (without one, the same
// unwind table). A module once made is never removed or changed; there are at most kMaxModules, and what
// comes after is treated as code without module.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/ids.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::unwind {

inline constexpr std::uint32_t kMaxModules = 1u << 16;

/// Memory that can be read: [begin, end).
struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool contains(std::uint64_t address) const noexcept { return address - begin < end - begin; }
};

/// A module, all of it. Immutable once it can be found, but for name and announced.
struct Module {
  ModuleId id;
  bool main;
  Span map;
  std::uint64_t load_bias;
  std::uint64_t identity;      ///< hash of what tells it from another object at the same place
  std::uint64_t eh_frame_hdr;  ///< 0: none
  Span headers;                ///< the segment that holds eh_frame_hdr
  Span frames;                 ///< the segment that holds .eh_frame
  Span text;                   ///< the largest executable segment
  Span build_id;
  std::atomic<const char*> name;  ///< the loader's; valid while the module is on the reader's stack
  std::atomic<std::uint32_t> announced;  ///< in which trace (restart_in_child)
  std::uint32_t next;                    ///< of those with the same hash
};

/// What the fast path needs of a module.
struct ModuleState {
  std::atomic<std::uint64_t> confirmed;  ///< in which generation; 0: never
  std::uint64_t load_bias;
};

namespace detail {
extern std::atomic<std::uint64_t> generation [[gnu::visibility("hidden")]];
extern ModuleState module_states[kMaxModules];
}  // namespace detail

/// Read it before anything that shall be valid in it.
inline std::uint64_t generation() noexcept { return detail::generation.load(std::memory_order_acquire); }
inline void raise_generation() noexcept {
  detail::generation.fetch_add(1, std::memory_order_acq_rel);
  detail::world.fetch_add(1, std::memory_order_acq_rel);
}

inline ModuleState& state_of(ModuleId id) noexcept { return detail::module_states[raw(id)]; }

/// Finds the loader, the main program and the way to find objects. Before the first capture.
void start_modules() noexcept;

/// The module of code that is on the calling thread's stack; null: none, or no memory. Confirmed in
/// `generation`.
Module* find_module(std::uint64_t pc, std::uint64_t generation) noexcept;

/// Some object holds this address. It need not be on a stack.
bool is_code(std::uint64_t pc) noexcept;

/// No object holds this address, for certain. Asks neither the kernel nor a lock; without _dl_find_object it cannot
/// tell, and says false.
bool is_unloaded(const void* address) noexcept;

/// Where the object that holds this address is mapped; empty when there is none, or without _dl_find_object.
Span loaded_range(const void* address) noexcept;

/// The code of the function that holds `pc`, by the unwind information of the object loaded at `map`. It need not be
/// on a stack, but has to stay. False: nothing says so.
bool find_function(const Span& map, std::uint64_t pc, Span& function) noexcept;

/// Tells the trace about the module unless that has been done.
void announce(Module& module, const Definitions& definitions) noexcept;

/// All modules have to be announced again.
void announce_all_again() noexcept;

}  // namespace heapprof::unwind
