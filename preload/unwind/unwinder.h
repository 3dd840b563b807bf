// Call stacks for the recorder: captures the stack that led to an event as a node of the call tree, from the
// registers with which a hook was entered. It uses unwind rules from .eh_frame, a shadow stack that is verified at
// each capture, and caches of both; it never writes to the host's stack. docs/concepts/unwinding.md explains how.
//
// Nothing here allocates from the host, takes a lock, or changes errno. The only functions of libc that are called
// are those for memory and strings, getauxval, and _dl_find_object, which takes no lock (glibc 2.35 and later).
// Memory is mapped directly. While system calls are forbidden (sys::g_forbidden), a stack that needs one is
// truncated.
//
// Functions may be called from any thread and any signal handler at any time, unless a comment says otherwise.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/ids.h"
#include "common/trace_format.h"
#include "preload/arch/arch.h"
#include "preload/unwind/cached_paths.h"
#include "preload/unwind/definitions.h"

namespace heapprof::unwind {

struct Settings {
  /// Frames per stack, at least 1. A deeper stack is truncated: it loses a multiple of 512 outermost frames, or of
  /// half of max_depth if that is less, so that a deepening recursion does not create a new tree at each call. The
  /// root of a truncated stack is (kTruncationRoot, Truncation::kMaxDepth).
  std::uint32_t max_depth = 1024;
  bool shadow_stack = true;
};

/// Call it once, before the first capture. Finds the loader's text and the main program, and maps the rule cache.
/// Returns false when there is no memory for the cache; no stack can be captured then.
bool start(const Settings& settings) noexcept;

namespace detail {
extern std::uint64_t loader_begin [[gnu::visibility("hidden")]];
extern std::uint64_t loader_bytes [[gnu::visibility("hidden")]];
}  // namespace detail

/// Returns whether `pc` is in the text of ld.so. An event that comes from there may be part of loading or unloading.
inline bool is_loader(ProgramCounter pc) noexcept {
  return to_address(pc) - detail::loader_begin < detail::loader_bytes;
}

/// Raises the module generation, after an event from the loader (is_loader): modules may have changed. Every thread
/// then confirms a module again before it uses a rule or a remembered frame of it. Call it for frees too, which have
/// no stack. Costs two atomic additions.
void loader_activity() noexcept;

/// Call this when the host is about to unmap this range, and again when it has unmapped or replaced it. Stacks that
/// are not a thread's own are then probed again before they are read.
void invalidate_stack_region(std::uint64_t begin, std::uint64_t bytes) noexcept;

/// Sets the absolute path of the program, which ModuleInfo then gets without a search. The text must stay unchanged.
/// Call it before the first capture.
void set_program_path(const char* path) noexcept;

/// Omits frames that return to `pc` from all stacks: they are frames of the recorder in the middle of a stack. There
/// can be only one such `pc`; set it before a stack can contain it.
void hide_frame(ProgramCounter pc) noexcept;

/// Call it in a forked child that records into a trace of its own, before its first capture: every module is defined
/// again. For each ThreadUnwinder that remains in use call thread_changed() too.
void restart_in_child() noexcept;

/// __register_frame and related functions: `begin` is a terminated sequence of .eh_frame entries. `key` is the
/// pointer by which the host will deregister them: `begin` itself, or the array that lists this sequence among
/// others.
void register_frame(const void* begin, const void* key) noexcept;
/// Removes all that was registered with `key`.
void deregister_frame(const void* key) noexcept;

/// How a stack was captured.
enum class Captured : bool {
  kAnyhow,
  kSlowly,  ///< by ThreadUnwinder::capture_slow()
};

/// The unwinding state of a thread. Zeroed memory is a valid object. One thread at a time may use it, and not while
/// one of its own captures is in progress: a signal handler uses capture_nested().
class ThreadUnwinder {
 public:
  /// The fast path of capture(): returns the node of the stack that begins with `entry` if its path is cached, else
  /// NodeId::kNone. Stacks that begin in the loader are never cached.
  [[gnu::always_inline]] NodeId find_cached(const arch::EntryRegisters& entry,
                                            const Definitions& definitions) const noexcept;

  /// Returns the node of the stack that begins with `entry`; NodeId::kNone only when the call tree cannot grow.
  NodeId capture(const arch::EntryRegisters& entry, const Definitions& definitions) noexcept {
    const NodeId node = find_cached(entry, definitions);
    return node != NodeId::kNone ? node : capture_slow(entry, definitions);
  }

  /// Like capture(), after find_cached() has returned kNone for this stack.
  [[gnu::noinline]] NodeId capture_slow(const arch::EntryRegisters& entry, const Definitions& definitions) noexcept;

  /// Drops nodes and stack bounds. Call it before another thread uses the object, or another trace is written.
  void thread_changed() noexcept;

  /// Drops everything that an unfinished capture may have left inconsistent. Call it when a longjmp has abandoned a
  /// capture, or a thread has died during one.
  void recover_abandoned_capture() noexcept;

  /// Whether the last capture may have truncated the stack because there was no memory.
  bool without_memory() const noexcept;

  /// For stack_visit.h: the beginning of the thread's ThreadData; null before the first capture.
  const CachedPaths* paths() const noexcept { return paths_; }

 private:
  CachedPaths* paths_;  ///< the beginning of the thread's ThreadData; null before the first capture
};

#ifdef HEAPPROF_CHECK_STACKS
/// Ends the program if a full walk does not result in the node of `path`.
void check_path(CachedPaths& paths, const arch::EntryRegisters& entry, const Definitions& definitions,
                const CachedPath& path) noexcept;
#else
inline void check_path(CachedPaths&, const arch::EntryRegisters&, const Definitions&, const CachedPath&) noexcept {}
#endif

inline NodeId ThreadUnwinder::find_cached(const arch::EntryRegisters& entry,
                                          const Definitions& definitions) const noexcept {
  if (paths_ == nullptr) [[unlikely]]
    return NodeId::kNone;
  const CachedPath* const path = paths_->find(entry);
  if (path == nullptr) [[unlikely]]
    return NodeId::kNone;
  check_path(*paths_, entry, definitions, *path);
  if (path->node == NodeId::kNone) __builtin_unreachable();
  return path->node;
}

/// Like ThreadUnwinder::capture(), but for a signal handler that interrupted the recorder on this thread: uses no
/// data of the thread. Keeps the innermost 112 frames; the root of deeper stacks is (kTruncationRoot,
/// Truncation::kNested).
NodeId capture_nested(const arch::EntryRegisters& entry, const Definitions& definitions) noexcept;

}  // namespace heapprof::unwind
