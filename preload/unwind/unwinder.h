// Call stacks for the recorder: from the registers with which a hook was entered to a node of the call
// tree. docs/concepts/unwinding.md explains how; in short: rules parsed from .eh_frame, kept in a shared cache;
// every address checked before it is read; and a verified memory of the last stack, so that only what
// changed since is unwound.
//
// Nothing here allocates from the host, takes a lock, changes errno, calls a function of libc other than
// _dl_find_object (lock-free, glibc 2.35 and later), or writes to the host's stack. Memory is mapped
// directly. Where system calls are forbidden (sys::g_forbidden) a stack that needs one ends with a reason.
// Functions without a remark may be called from any thread at any time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/ids.h"
#include "common/trace_format.h"
#include "preload/arch/arch.h"
#include "preload/unwind/cached_paths.h"

namespace heapprof::unwind {

/// A loaded object. Pointers are valid during the call that hands it over.
struct ModuleInfo {
  ModuleId id;
  std::uint64_t map_begin;  ///< first mapped address
  std::uint64_t map_end;
  std::uint64_t load_bias;  ///< address in memory minus address in the ELF file
  const std::uint8_t* build_id;
  std::uint32_t build_id_bytes;  ///< 0: it has none
  const char* path;  ///< absolute; "[vdso]" for the kernel's; as the loader names it when nothing better is known
  bool main;         ///< the program itself
};

/// How a capture talks to the thread's stream. Both are called on the capturing thread.
struct Definitions {
  void* context;
  /// Finds or makes the node of (parent, module, offset); node_flags: kNode... of trace_format.h. kNone
  /// when the tree cannot grow: the capture then returns kNone too. Called from the outermost frame to
  /// the innermost. `path`: a hash of this frame and all outer ones, the same whenever they are.
  NodeId (*intern)(void* context, NodeId parent, ModuleId module, std::uint64_t offset,
                   std::uint32_t node_flags, std::uint64_t path);
  /// Called before the first node of a module is interned, by whichever thread meets the module first.
  /// When two threads meet it at once it may be told twice, under one id.
  void (*define_module)(void* context, const ModuleInfo& module);
  /// A node of this path may be interned next. May be null.
  void (*prefetch)(std::uint64_t path) = nullptr;
};

struct Settings {
  /// Frames of a stack, 1 at least. Deeper stacks lose outermost frames: a multiple of 512 of them, or of half of
  /// max_depth where that is less, so that a deep recursion does not make a new tree at each call. Their root
  /// is (kMark, Truncation::kMaxDepth).
  std::uint32_t max_depth = 1024;
  bool shadow_stack = true;
};

/// Before the first capture, once. Finds the loader's text and the main program; reads /proc/self/auxv or
/// maps when libc does not tell. False: no stack can be captured at all (no memory for the rule cache).
bool start(const Settings& settings) noexcept;

namespace detail {
extern std::uint64_t loader_begin [[gnu::visibility("hidden")]];
extern std::uint64_t loader_bytes [[gnu::visibility("hidden")]];
}  // namespace detail

/// `pc` lies in the text of ld.so: whoever allocates or frees from there may be loading or unloading.
inline bool is_loader(std::uint64_t pc) noexcept { return pc - detail::loader_begin < detail::loader_bytes; }

/// An event came from the loader (is_loader): modules may have changed. Makes every thread check a module
/// again before it believes a rule or a remembered frame of it. Call it for releases too, which have no
/// stack; one atomic addition.
void loader_activity() noexcept;

/// The host unmapped this range: stacks that are not a thread's own are checked again before they are read.
void invalidate_stack_region(std::uint64_t begin, std::uint64_t bytes) noexcept;

/// Frames that return to `pc` are the recorder's own, in the middle of a stack, and not part of it. One at most;
/// before stacks can meet it.
void hide_frame(std::uint64_t pc) noexcept;

/// In a forked child that goes on recording into a trace of its own, before its first capture: every module
/// is announced again. The thread unwinders that live on need thread_changed() too.
void restart_in_child() noexcept;

/// __register_frame and friends: `begin` is a terminated sequence of .eh_frame entries, `key` the pointer under which
/// the host will take it back: `begin` itself, or the array that names this sequence among others.
void register_frame(const void* begin, const void* key) noexcept;
/// Takes back all that was registered under `key`.
void deregister_frame(const void* key) noexcept;

/// The unwinding state of one thread at a time. Zeroed memory is a valid one. Not to be used while one of
/// its own captures is under way (a signal handler uses capture_nested), but a capture that was abandoned
/// by longjmp leaves it usable.
class ThreadUnwinder {
 public:
  /// The stack that begins with `entry`, as a node, if it is one of those met of late and nothing in it has changed;
  /// never one that begins in the loader. NodeId::kNone: ask capture().
  [[gnu::always_inline]] NodeId recall(const arch::EntryRegisters& entry,
                                       const Definitions& definitions) const noexcept;

  /// The stack that begins with `entry`, as a node. NodeId::kNone only when the call tree cannot grow.
  NodeId capture(const arch::EntryRegisters& entry, const Definitions& definitions) noexcept {
    const NodeId node = recall(entry, definitions);
    return node != NodeId::kNone ? node : capture_anew(entry, definitions);
  }

  /// The private state goes to another thread, or to another trace: forgets nodes and stack bounds.
  void thread_changed() noexcept;

  /// A capture was left by a longjmp: what it was writing down may be half of one thing and half of another.
  void recover_abandoned_capture() noexcept;

  /// Bytes mapped for this thread.
  std::size_t memory_bytes() const noexcept;

 private:
  [[gnu::noinline]] NodeId capture_anew(const arch::EntryRegisters& entry, const Definitions& definitions) noexcept;

  KnownPaths* paths_;  ///< at the beginning of all that is kept for the thread
};

#ifdef HEAPPROF_CHECK_STACKS
/// The checking build: ends the program if unwinding everything does not find what `path` says.
void check_path(KnownPaths& paths, const arch::EntryRegisters& entry, const Definitions& definitions,
                const KnownPath& path) noexcept;
#else
inline void check_path(KnownPaths&, const arch::EntryRegisters&, const Definitions&, const KnownPath&) noexcept {}
#endif

inline NodeId ThreadUnwinder::recall(const arch::EntryRegisters& entry,
                                     const Definitions& definitions) const noexcept {
  if (paths_ == nullptr) [[unlikely]] return NodeId::kNone;
  const KnownPath* const path = paths_->find(entry);
  if (path == nullptr) [[unlikely]] return NodeId::kNone;
  check_path(*paths_, entry, definitions, *path);
  if (path->node == NodeId::kNone) __builtin_unreachable();
  return path->node;
}

/// As ThreadUnwinder::capture, for a signal handler that interrupted this thread's own capture or whatever
/// else of the recorder: uses nothing of the thread. Stacks deeper than some 100 frames lose the outermost
/// ones and are rooted in (kMark, Truncation::kNested).
NodeId capture_nested(const arch::EntryRegisters& entry, const Definitions& definitions) noexcept;

}  // namespace heapprof::unwind
