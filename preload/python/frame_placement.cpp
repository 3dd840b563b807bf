#include "preload/python/frame_placement.h"

#include <atomic>

#include "preload/python/broken_rule.h"
#include "preload/recorder/call_tree/call_tree.h"
#include "preload/unwind/stack_visit.h"

namespace heapprof::python {

namespace {

/// A module and a node's flags in one word.
constexpr std::uint64_t module_word(ModuleId module, std::uint32_t node_flags) noexcept {
  return std::uint64_t{node_flags} << 32 | raw(module);
}

/// The walk over the C frames, which finds the evaluation of each boundary.
struct PlacingWalk {
  const ThreadFrames& frames;
  MappedArray<NativeFrame>& native;
  const LastStack& last;
  std::uint32_t count = 0;     ///< C frames so far
  std::uint32_t python_count;  ///< Python frames
  std::uint32_t python_end;    ///< the Python frames from here on have been placed
  std::uint32_t boundary;      ///< the next boundary, which the evaluation of the frames inside of it must contain
  bool no_memory = false;
  const Interpreter* by_code;     ///< whose evaluations are known by their code; null: by what boundaries are
  std::uint32_t evaluations = 0;  ///< that were found by their code
  /// The walk has ended at this frame of the last stack, from which outwards both are equal; python_end is the end of
  /// its Python frames. Null: it has not.
  const PlacedFrame* known = nullptr;

  PlacingWalk(const StackToPlace& stack, const LastStack& last_stack) noexcept
      : frames(stack.frames), native(stack.data.native), last(last_stack),
        python_count(stack.python == nullptr ? 0 : frames.count()), python_end(python_count), boundary(python_end),
        by_code(stack.python != nullptr && stack.python->layout->evaluations_by_code() ? stack.python : nullptr) {
    next_boundary();
  }

  /// Finds the next boundary, from python_end outwards; kNone if there is none.
  void next_boundary() noexcept {
    const PythonFrame* const all = frames.frames();
    for (boundary = python_end; boundary-- != 0;)
      if (all[boundary].boundary()) return;
    boundary = kNone;
  }

  static constexpr std::uint32_t kNone = ~0u;
};

std::uint64_t hash_of_outermost(const ThreadFrames& frames, std::uint32_t count) noexcept {
  return count == 0 ? 0 : frames.frames()[count - 1].hash;
}

/// Adds the next frame of the walk. Returns false when the walk is complete.
[[gnu::always_inline]] inline bool place_frame(PlacingWalk& walk, const unwind::VisitedFrame& visited) noexcept {
  if (visited.node != NodeId::kNone && visited.outer_frames < walk.last.count && walk.by_code == nullptr) {
    const PlacedFrame& placed = walk.last.frames.elements[visited.outer_frames];
    if (placed.native == visited.node && placed.hash == hash_of_outermost(walk.frames, walk.python_end)) {
      walk.known = &placed;
      return false;
    }
  }
  if (!walk.native.reserve(walk.count + 1, walk.count)) {
    walk.no_memory = true;
    return false;
  }
  NativeFrame frame{visited.offset, visited.module, visited.node_flags, visited.node, visited.hidden, 0, 0};
  if (walk.by_code != nullptr) {
    // Which Python frame it executes is decided when all are known.
    if (static_cast<std::uint32_t>(visited.module) == walk.by_code->module &&
        walk.by_code->evaluation.contains(visited.offset)) {
      frame.python_end = 1;
      ++walk.evaluations;
    }
  } else if (walk.boundary != PlacingWalk::kNone) {
    const std::uint64_t address = walk.frames.frames()[walk.boundary].address;
    const bool contains = is_broken(Rule::kPlace) ? interpreter_number(visited.module) != 0
                                                  : address >= visited.begin && address < visited.end;
    if (contains) {
      frame.python_end = walk.python_end;
      frame.python_begin = walk.boundary;
      walk.python_end = walk.boundary;
      walk.next_boundary();
    }
  }
  walk.native.elements[walk.count++] = frame;
  return true;
}

/// Places the Python frames in the evaluations that were found by their code, from the innermost one on. There may be
/// more evaluations than boundaries: those outside of a greenlet or of a sub-interpreter, whose frames are not
/// linked. If there are as many as Python frames, each has one (while a trace function is called at the beginning of
/// a generator). Returns false if there are fewer, unless the stack is truncated.
bool place_by_code(PlacingWalk& walk, bool truncated) noexcept {
  const ThreadFrames& all = walk.frames;
  std::uint32_t boundaries = 0, frames = 0;
  for (std::uint32_t i = 0; i != walk.python_count; ++i) ++(all.frames()[i].boundary() ? boundaries : frames);
  const bool each = walk.evaluations != boundaries && walk.evaluations == frames;
  if (walk.evaluations < boundaries && !truncated) return false;
  for (std::uint32_t i = 0; i != walk.count; ++i) {
    NativeFrame& native = walk.native.elements[i];
    if (native.python_end == 0) continue;
    native.python_end = walk.python_end;  // 0: it executes none of these
    while (walk.python_end != 0) {
      const bool boundary = all.frames()[--walk.python_end].boundary();
      if (boundary != each) break;
    }
    native.python_begin = walk.python_end;
  }
  return true;
}

/// Appends frames of the mixed stack, from the outermost to the innermost.
class StackBuilder {
 public:
  /// There must be room for all nodes. `omitted`: outermost frames that are not added.
  StackBuilder(const StackToPlace& stack, LastStack& last, std::uint32_t omitted) noexcept
      : frames_(stack.frames), last_(last), stream_(stack.stream), omitted_(omitted) {}

  /// Begins with a truncation root, unless the reason is kNone.
  void begin(Truncation reason) noexcept {
    if (reason == Truncation::kNone) return;
    node_ = recorder::g_call_tree.intern(NodeId::kNone, ModuleId::kTruncationRoot, static_cast<std::uint64_t>(reason),
                                         0, stream_);
    if (node_ == NodeId::kNone) omitted_ = kFailed;
  }
  /// Begins with the mixed stack of a frame.
  void begin(const PlacedFrame& placed) noexcept {
    node_ = placed.mixed;
    depth_ = placed.depth;
  }

  void add(ModuleId module, std::uint64_t offset, std::uint32_t node_flags) noexcept {
    if (omitted_ != 0) {
      --omitted_;
      return;
    }
    KnownNode& known = last_.nodes.elements[depth_++];
    const std::uint64_t module_and_flags = module_word(module, node_flags);
    if (known.offset == offset && known.parent == node_ && known.module == module_and_flags &&
        known.node != NodeId::kNone) {
      node_ = known.node;
      return;
    }
    const NodeId node = recorder::g_call_tree.intern(node_, module, offset, node_flags, stream_);
    // A handler that leaves by longjmp must not leave a wrong entry.
    known.node = NodeId::kNone;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    known.offset = offset;
    known.parent = node_;
    known.module = module_and_flags;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    known.node = node_ = node;
    if (node == NodeId::kNone) [[unlikely]]
      omitted_ = kFailed;
  }
  /// Adds Python frames, by their indexes.
  void add_python(std::uint32_t begin, std::uint32_t end) noexcept {
    const PythonFrame* const frames = frames_.frames();
    for (std::uint32_t i = begin; i != end; ++i)
      if (!frames[i].boundary() && !frames[i].hidden()) add(ModuleId::kPython, frames[i].offset, 0);
  }

  /// kNone: there is none yet, or the call tree cannot grow.
  NodeId node() const noexcept { return node_; }
  std::uint32_t depth() const noexcept { return depth_; }

 private:
  const ThreadFrames& frames_;
  LastStack& last_;
  recorder::Stream& stream_;
  /// Frames that are still to be omitted: the outermost ones, or all others because the call tree cannot grow.
  std::uint32_t omitted_;
  std::uint32_t depth_ = 0;
  NodeId node_ = NodeId::kNone;

  static constexpr std::uint32_t kFailed = ~0u;  // more than a stack has
};

/// Adds the frames of the walk, and remembers the stack, unless frames are omitted.
NodeId build(const StackToPlace& stack, const PlacingWalk& walk, LastStack& last, Truncation reason,
             std::uint32_t omitted) noexcept {
  last.count = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  StackBuilder builder(stack, last, omitted);
  std::uint32_t at = 0;
  if (walk.known != nullptr) {
    at = static_cast<std::uint32_t>(walk.known - last.frames.elements) + 1;
    builder.begin(*walk.known);
  } else {
    builder.begin(omitted != 0 ? Truncation::kMaxDepth : reason);
    // Frames whose evaluation was not found (a truncated stack, or an evaluation by other code) are the outermost
    // ones.
    builder.add_python(0, walk.python_end);
  }
  std::uint64_t hash = hash_of_outermost(walk.frames, walk.python_end);
  for (std::uint32_t i = walk.count; i-- != 0; ++at) {
    const NativeFrame& frame = walk.native.elements[i];
    if (!frame.hidden) [[likely]]
      builder.add(frame.module, frame.offset, frame.node_flags);
    if (frame.python_end != 0) {
      builder.add_python(frame.python_begin, frame.python_end);
      hash = hash_of_outermost(walk.frames, frame.python_end);
    }
    last.frames.elements[at] = {hash, frame.native, builder.node(), builder.depth()};
  }
  const NodeId node = builder.node();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (node != NodeId::kNone && omitted == 0) last.count = at;
  return node;
}

/// Makes room for so many frames, and keeps the first `used`.
bool reserve_frames(LastStack& last, std::uint32_t frames, std::uint32_t used) noexcept {
  if (frames <= last.frames.capacity) return true;
  // An abandoned growth may leave an array without elements.
  last.count = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return last.frames.reserve(frames, used);
}

/// The most frames that the mixed stack can have: hidden frames and boundaries are counted, too.
std::uint32_t max_mixed_depth(const PlacingWalk& walk) noexcept {
  const std::uint32_t python_frames = walk.python_count - (walk.known != nullptr ? walk.python_end : 0);
  return (walk.known != nullptr ? walk.known->depth : 0) + python_frames + walk.count;
}

/// The number of frames that the mixed stack will have.
std::uint32_t mixed_depth(const PlacingWalk& walk) noexcept {
  const PythonFrame* const frames = walk.frames.frames();
  std::uint32_t depth = walk.known != nullptr ? walk.known->depth : 0;
  for (std::uint32_t i = walk.known != nullptr ? walk.python_end : 0; i != walk.python_count; ++i)
    depth += !frames[i].boundary() && !frames[i].hidden();
  for (std::uint32_t i = 0; i != walk.count; ++i) depth += !walk.native.elements[i].hidden;
  return depth;
}

}  // namespace

NodeId place_frames(const StackToPlace& stack, LastStack& last, Remembered remembered,
                    std::optional<LeftOut>& why_not) noexcept {
  for (;;) {
    if (remembered == Remembered::kIgnored) last.count = 0;
    PlacingWalk walk(stack, last);
    const unwind::ThreadUnwinder* const unwinder = remembered == Remembered::kUsed ? &stack.unwinder : nullptr;
    const Truncation reason = unwind::visit_stack(
        stack.entry, stack.definitions, stack.data.bounds, unwinder, stack.captured,
        [&walk] [[gnu::always_inline]] (const unwind::VisitedFrame& frame) { return place_frame(walk, frame); });
    // The frames are only counted if they may be too many.
    std::uint32_t depth = max_mixed_depth(walk);
    if (unwind::frames_to_omit(depth) != 0) [[unlikely]]
      depth = mixed_depth(walk);
    const std::uint32_t omitted = unwind::frames_to_omit(depth);
    if (walk.known != nullptr && omitted != 0) {
      remembered = Remembered::kIgnored;
      continue;
    }
    const std::uint32_t frames_outside =
        walk.known != nullptr ? static_cast<std::uint32_t>(walk.known - last.frames.elements) + 1 : 0;
    if (walk.no_memory || !reserve_frames(last, frames_outside + walk.count, frames_outside) ||
        !last.nodes.reserve(depth, 0)) {
      why_not = LeftOut::kNoMemory;
      return NodeId::kNone;
    }
    if (walk.known != nullptr) walk.known = last.frames.elements + frames_outside - 1;
    if (walk.by_code != nullptr && !place_by_code(walk, reason != Truncation::kNone)) {
      why_not = LeftOut::kNoPlace;
      return NodeId::kNone;
    }
    return build(stack, walk, last, reason, omitted);
  }
}

}  // namespace heapprof::python
