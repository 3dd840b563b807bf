// Captures a stack. The methods are tried in this order, the cheapest first:
//
//   1. a cached path                        ThreadUnwinder::find_cached
//   2. the shadow stack, unchanged          find_remembered
//   3. a cached path, slow                  find_path_slow
//   4. cached steps to the shadow stack     capture_by_cached_steps
//   5. a walk to the shadow stack           capture_by_walk
//
// 1 to 4 verify what is remembered. 5 replaces it, so that the next capture can use it; so does 4 in a recursion.
#include "preload/unwind/unwinder.h"

#include "preload/sys/kernel.h"
#include "preload/unwind/bounded_capture.h"
#include "preload/unwind/checks.h"
#include "preload/unwind/modules.h"
#include "preload/unwind/stack_walk.h"
#include "preload/unwind/thread_data.h"
#include "preload/unwind/truncation.h"

namespace heapprof::unwind {

namespace detail {
constinit std::uint32_t max_depth = 1024;
constinit ProgramCounter hidden_pc{0};
}  // namespace detail

namespace {

constinit bool g_shadow_stack = true;
/// Whether a thread of the process has, or has had, data.
constinit bool g_has_thread_data = false;

/// The steps of a few stacks are on most pages of the cached steps, each of which would be faulted in twice, since a
/// set is read before it is written. The first thread of a process has more stacks than that; others may have fewer.
ThreadData* map_thread_data() noexcept {
  auto* data = static_cast<ThreadData*>(sys::map_private(kThreadDataBytes));
  if (data == nullptr) return nullptr;
  if (!__atomic_exchange_n(&g_has_thread_data, true, __ATOMIC_RELAXED))
    sys::populate(&data->steps, sizeof data->steps);
  lay_out(data->first_arrays, (kThreadDataBytes - sizeof(ThreadData) - kFixedBytes) / kBytesPerFrame);
  data->arrays = &data->first_arrays;
  data->epoch = kNoEpoch;
  return data;
}

/// Returns the node of the stack if it is the shadow stack or a cached path; else kNone.
inline NodeId find_remembered(ThreadData& data, const arch::EntryRegisters& entry,
                              const Definitions& definitions) noexcept {
  data.remove_outdated_paths();
  const Frame& top = data.arrays->frames[static_cast<std::int64_t>(data.length) - 1];
  if (same_state(top, entry_state(entry)) && top.barrier == 0 && top.words != 0 && data.words_unchanged(top.words)) {
    cache_path_of_shadow_stack(data, entry);
    data.verified = data.length;
    if constexpr (kCheckStacks) check_steps(data, entry, definitions, data.length - 1, 0, top.node);
    return top.node;
  }
  const CachedPath* const path = find_path_slow(data, entry);
  if (path == nullptr) return NodeId::kNone;
  data.verified = path->anchor + 1;
  if constexpr (kCheckStacks) check_steps(data, entry, definitions, path->anchor, path->steps, path->node);
  return path->node;
}

/// Walks the stack and updates the shadow stack. Returns kNone and sets `no_memory` if the arrays could not grow: the
/// caller then captures without them, and without this function's frame on the stack.
[[gnu::noinline]] NodeId capture_by_walk(ThreadData& data, const arch::EntryRegisters& entry,
                                         const Definitions& definitions, bool& no_memory) noexcept {
  Walk walk{entry_state(entry), data.bounds, data.full, entry, definitions, generation()};
  data.full.valid = false;
  if (data.generation != walk.generation || data.bounds_version != data.bounds.version()) data.length = 0;
  const Walked walked = walk_stack(data, walk, data.length, kMaxCachedSteps);
  const std::uint32_t depth = walked.kept + walked.frames;
  const NodeId node = update_shadow_stack(data, walk, walked, frames_to_omit(depth, detail::max_depth));
  if (node == NodeId::kNone) [[unlikely]] {
    data.length = 0;
    no_memory = depth > data.arrays->capacity;
    return node;
  }
  if constexpr (kCheckStacks) check_shadow_stack(data, entry, definitions);
  if (!g_shadow_stack) data.length = 0;
  data.verified = data.length;
  return node;
}

/// Allows the fast path to use the cached paths as long as the invalidation epoch is `epoch`, which was read before
/// the capture.
inline void enable_fast_path(ThreadData& data, std::uint64_t epoch) noexcept {
  if (!data.is_valid() || !data.bounds.at_beginning()) return;
  data.remove_outdated_paths();
  data.first_sp = data.bounds.first_sp();
  data.sp_bytes = data.bounds.bytes();
  data.words = data.arrays->words;
  data.prefix_versions = data.arrays->prefix_versions;
  data.epoch = epoch;
}

}  // namespace

NodeId ThreadUnwinder::capture_slow(const arch::EntryRegisters& entry, const Definitions& definitions) noexcept {
  if (paths_ == nullptr) [[unlikely]] {
    paths_ = map_thread_data();
    if (paths_ == nullptr) return capture_bounded(entry, definitions, Truncation::kNoMemory);
  }
  auto& data = static_cast<ThreadData&>(*paths_);
  const std::uint64_t epoch = invalidation_epoch();
  data.epoch = kNoEpoch;
  data.verified = 0;
  data.bounds.begin(to_address(entry.sp));
  NodeId node = NodeId::kNone;
  if (data.is_valid()) [[likely]] {
    data.words = data.arrays->words;
    node = find_remembered(data, entry, definitions);
    if (node == NodeId::kNone) node = capture_by_cached_steps(data, entry, definitions);
  }
  if (node == NodeId::kNone) {
    bool no_memory = false;
    node = capture_by_walk(data, entry, definitions, no_memory);
    if (no_memory) return capture_bounded(entry, definitions, Truncation::kNoMemory);
  }
  enable_fast_path(data, epoch);
  return node;
}

void ThreadUnwinder::thread_changed() noexcept {
  if (paths_ == nullptr) return;
  auto& data = static_cast<ThreadData&>(*paths_);
  data.epoch = kNoEpoch;
  data.length = 0;
  data.bounds.reset();
}

void ThreadUnwinder::recover_abandoned_capture() noexcept {
  if (paths_ == nullptr) return;
  thread_changed();
  auto& data = static_cast<ThreadData&>(*paths_);
  for (CachedStep& step : data.steps.entries) step = CachedStep{};
  data.remove_paths();
}

bool ThreadUnwinder::without_memory() const noexcept {
  if (paths_ == nullptr) return true;
  const auto& data = static_cast<const ThreadData&>(*paths_);
  return data.reason == Truncation::kNoMemory || (data.length == 0 && g_shadow_stack);
}

bool start(const Settings& settings) noexcept {
  detail::max_depth = settings.max_depth == 0 ? 1 : settings.max_depth;
  g_shadow_stack = settings.shadow_stack;
  start_probing();
  start_modules();
  return detail::rules.start();
}

void loader_activity() noexcept { raise_generation(); }

void invalidate_stack_region(std::uint64_t, std::uint64_t) noexcept { invalidate_foreign_stacks(); }

void restart_in_child() noexcept {
  redefine_modules();
  raise_generation();
}

void hide_frame(ProgramCounter pc) noexcept { detail::hidden_pc = pc; }

}  // namespace heapprof::unwind
