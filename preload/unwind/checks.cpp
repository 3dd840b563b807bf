#include "preload/unwind/checks.h"

#ifdef HEAPPROF_CHECK_STACKS

#include "preload/sys/difference.h"
#include "preload/unwind/stack_walk.h"
#include "preload/unwind/thread_data.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::unwind {

namespace {

[[noreturn]] void report_difference() noexcept {
  sys::report_difference("a remembered stack differs from the result of unwinding");
}

bool same_frame(const Frame& remembered, const Frame& found) noexcept {
  const bool unused = (remembered.flags & kFpUnused) != 0;
  const unsigned ignored_flags = kFpUnused | (unused ? kFpIsSlot : 0);
  return remembered.pc == found.pc && remembered.sp == found.sp && (unused || remembered.fp == found.fp) &&
         ((remembered.flags ^ found.flags) & ~ignored_flags) == 0 && remembered.module == found.module;
}

/// Walks the stack from walk.state in full. Changes no cached step: adding a step removes its nodes, so that no
/// capture would use a node that another one has stored there.
Walked walk_in_full(ThreadData& data, Walk& walk) noexcept {
  data.full.valid = false;
  data.bounds.begin(to_address(walk.state.sp));
  const Walked walked = walk_stack(data, walk, 0, 0);
  data.bounds_version = data.bounds.version();  // valid again, because the walk has read all words
  return walked;
}

/// Returns whether the outermost `count` frames of the shadow stack are those of the walk.
bool same_frames(const ThreadData& data, const Walked& walked, std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i)
    if (!same_frame(data.arrays->frames[i], data.arrays->walked[walked.frames - 1 - i])) return false;
  return true;
}

}  // namespace

void check_shadow_stack(ThreadData& data, const arch::EntryRegisters& entry,
                        const Definitions& definitions) noexcept {
  Walk walk{entry_state(entry), data.bounds, data.full, entry, definitions, data.generation};
  const Walked walked = walk_in_full(data, walk);
  if (walked.frames != data.length || walk.reason != data.reason || !same_frames(data, walked, data.length))
    report_difference();
}

void check_steps(ThreadData& data, const arch::EntryRegisters& entry, const Definitions& definitions,
                 std::uint32_t anchor, std::uint32_t steps, NodeId expected) noexcept {
  Walk walk{entry_state(entry), data.bounds, data.full, entry, definitions, data.generation};
  const Walked walked = walk_in_full(data, walk);
  if (walked.frames != anchor + 1 + steps || walk.reason != data.reason || !same_frames(data, walked, anchor + 1))
    report_difference();
  NodeId node = data.arrays->frames[anchor].node;
  for (std::uint32_t i = steps; i-- != 0;) node = intern(definitions, node, data.arrays->walked[i]);
  if (node != expected) report_difference();
}

void check_path(CachedPaths& paths, const arch::EntryRegisters& entry, const Definitions& definitions,
                const CachedPath& path) noexcept {
  auto& data = static_cast<ThreadData&>(paths);
  const std::uint32_t version = data.bounds_version;
  check_steps(data, entry, definitions, path.anchor, path.steps, path.node);
  // The walk may have invalidated what the fast path relies on.
  if (data.bounds_version != version || data.words != data.arrays->words) data.epoch = kNoEpoch;
}

}  // namespace heapprof::unwind

#endif
