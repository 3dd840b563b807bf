#include "preload/python/mixed_stacks.h"

#include <atomic>
#include <optional>

#include "preload/python/broken_rule.h"
#include "preload/python/checks.h"
#include "preload/python/left_out.h"
#include "preload/python/readable_pages.h"
#include "preload/python/thread_frames.h"
#include "preload/recorder/call_tree/call_tree.h"
#include "preload/sys/kernel.h"
#include "preload/unwind/stack_bounds.h"
#include "preload/unwind/stack_visit.h"

namespace heapprof::python {

namespace {

/// The node of a mixed stack.
struct CachedStack {
  std::uint64_t hash;  ///< of the Python frames; 0: there are none
  NodeId native;       ///< kNone: empty
  NodeId mixed;        ///< or kNotPlaced
};
/// Instead of a node: the Python frames cannot be placed. For find(), that is as if the stack was not cached.
constexpr NodeId kNotPlaced = MixedStacks::kFramesRead;
/// Sets of two entries: the second one holds what the first one held before.
constexpr unsigned kCacheBits = 11;
/// The hash of no Python frames.
constexpr std::uint64_t kNoPythonFrames = 0;

/// A C frame.
struct NativeFrame {
  std::uint64_t offset;
  ModuleId module;
  std::uint32_t node_flags;
  NodeId native;  ///< the C stack from this frame outwards; kNone: not known
  bool hidden;
  /// If the frame is an evaluation: the index after that of its innermost Python frame, and that of its outermost
  /// one.
  std::uint32_t python_end;
  std::uint32_t python_begin;
};

/// A C frame of the last stack that was placed, and the mixed stack from this frame outwards: with the Python frames
/// that it executes, if it is an evaluation.
struct PlacedFrame {
  std::uint64_t hash;  ///< of the Python frames
  NodeId native;       ///< the C stack (NativeStack); kNone: not known
  NodeId mixed;
  std::uint32_t depth;  ///< frames of the mixed stack
};

/// The node that the call tree has for these values: that of the last stack with so many outer frames.
struct KnownNode {
  std::uint64_t offset;
  std::uint64_t module;  ///< and flags (module_word)
  NodeId parent;
  NodeId node;  ///< kNone: there is none
};

/// A module and a node's flags in one word.
constexpr std::uint64_t module_word(ModuleId module, std::uint32_t node_flags) noexcept {
  return std::uint64_t{node_flags} << 32 | raw(module);
}

/// An array in a mapping of its own.
template <typename T>
struct Array {
  T* elements;
  std::uint32_t capacity;

  /// Makes room for `count` elements, and keeps the first `used`.
  bool reserve(std::uint32_t count, std::uint32_t used) noexcept {
    if (count <= capacity) return true;
    // `used` may exceed the capacity: a growth that was abandoned leaves none.
    std::uint32_t larger = capacity == 0 ? 256 : capacity;
    while (larger < count || larger < used) larger *= 2;
    T* const memory = static_cast<T*>(sys::map_private(larger * sizeof(T)));
    if (memory == nullptr) return false;
    if (used != 0) __builtin_memcpy(memory, elements, used * sizeof(T));
    T* const old = elements;
    const std::uint32_t old_capacity = capacity;
    // A signal handler may leave by longjmp at any instruction: the old mapping is not used after it was unmapped.
    capacity = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    elements = memory;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    capacity = larger;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (old_capacity != 0) sys::unmap_private(old, old_capacity * sizeof(T));
    return true;
  }
};

/// The last stack that was placed.
struct LastStack {
  Array<PlacedFrame> frames;  ///< its C frames, outermost first
  std::uint32_t count;        ///< of these; 0 while they are changed
  Array<KnownNode> nodes;     ///< by the number of outer frames of the mixed stack

  void forget() noexcept {
    count = 0;
    for (std::uint32_t i = 0; i != nodes.capacity; ++i) nodes.elements[i].node = NodeId::kNone;
  }
};

}  // namespace

struct MixedStackData {
  ThreadFrames frames;
  std::uint32_t interpreter;  ///< to which `state` belongs
  // Constant for the interpreter, and set before it.
  Interpreter* python;
  NodeId (*read_and_find)(MixedStackData&, NodeId native, recorder::Stream&, Interpreter&) noexcept;
  CheckedState state;
  ReadablePages pages;
  unwind::StackBounds bounds;
  Array<NativeFrame> native;  ///< innermost first
  LastStack last;
  LastStack checked;                                   ///< the same without anything remembered; in checked builds
  alignas(64) CachedStack cache[1u << kCacheBits][2];  // two sets in each cache line
  NativeStacks native_stacks;
};

namespace {

enum class Remembered : bool {
  kIgnored,
  kUsed,
};

/// What a stack is placed for, and with.
struct Placing {
  MixedStackData& data;
  LastStack& last;
  const Interpreter* python;  ///< null: no Python frames are placed
  const arch::EntryRegisters& entry;
  const unwind::ThreadUnwinder& unwinder;
  unwind::Captured captured;
  const unwind::Definitions& definitions;
  recorder::Stream& stream;
};

/// The walk over the C frames, which finds the evaluation of each boundary.
struct PlacingWalk {
  MixedStackData& data;
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

  explicit PlacingWalk(const Placing& placing) noexcept
      : data(placing.data), last(placing.last), python_count(placing.python == nullptr ? 0 : data.frames.count()),
        python_end(python_count), boundary(python_end),
        by_code(placing.python != nullptr && placing.python->layout->evaluations_by_code() ? placing.python
                                                                                           : nullptr) {
    next_boundary();
  }

  /// Finds the next boundary, from python_end outwards; python_end if there is none.
  void next_boundary() noexcept {
    const PythonFrame* const frames = data.frames.frames();
    for (boundary = python_end; boundary-- != 0;)
      if (frames[boundary].boundary()) return;
    boundary = kNone;
  }

  static constexpr std::uint32_t kNone = ~0u;
};

std::uint64_t hash_of_outermost(const ThreadFrames& frames, std::uint32_t count) noexcept {
  return count == 0 ? 0 : frames.frames()[count - 1].hash;
}

/// Adds the next frame of the walk. Returns false when the walk is complete.
[[gnu::always_inline]] inline bool place_frame(PlacingWalk& walk, const unwind::VisitedFrame& visited) noexcept {
  MixedStackData& data = walk.data;
  if (visited.node != NodeId::kNone && visited.outer_frames < walk.last.count && walk.by_code == nullptr) {
    const PlacedFrame& placed = walk.last.frames.elements[visited.outer_frames];
    if (placed.native == visited.node && placed.hash == hash_of_outermost(data.frames, walk.python_end)) {
      walk.known = &placed;
      return false;
    }
  }
  if (!data.native.reserve(walk.count + 1, walk.count)) {
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
    const std::uint64_t address = data.frames.frames()[walk.boundary].address;
    const bool contains = is_broken(Rule::kPlace) ? interpreter_number(visited.module) != 0
                                                  : address >= visited.begin && address < visited.end;
    if (contains) {
      frame.python_end = walk.python_end;
      frame.python_begin = walk.boundary;
      walk.python_end = walk.boundary;
      walk.next_boundary();
    }
  }
  data.native.elements[walk.count++] = frame;
  return true;
}

/// Places the Python frames in the evaluations that were found by their code, from the innermost one on. There may be
/// more evaluations than boundaries: those outside of a greenlet or of a sub-interpreter, whose frames are not
/// linked. If there are as many as Python frames, each has one (while a trace function is called at the beginning of
/// a generator). Returns false if there are fewer, unless the stack is truncated.
bool place_by_code(PlacingWalk& walk, bool truncated) noexcept {
  const ThreadFrames& all = walk.data.frames;
  std::uint32_t boundaries = 0, frames = 0;
  for (std::uint32_t i = 0; i != walk.python_count; ++i) ++(all.frames()[i].boundary() ? boundaries : frames);
  const bool each = walk.evaluations != boundaries && walk.evaluations == frames;
  if (walk.evaluations < boundaries && !truncated) return false;
  for (std::uint32_t i = 0; i != walk.count; ++i) {
    NativeFrame& native = walk.data.native.elements[i];
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
  StackBuilder(const Placing& placing, std::uint32_t omitted) noexcept
      : frames_(placing.data.frames), last_(placing.last), stream_(placing.stream), omitted_(omitted) {}

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
NodeId build(const Placing& placing, const PlacingWalk& walk, Truncation reason, std::uint32_t omitted) noexcept {
  const MixedStackData& data = placing.data;
  LastStack& last = placing.last;
  last.count = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  StackBuilder builder(placing, omitted);
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
  std::uint64_t hash = hash_of_outermost(data.frames, walk.python_end);
  for (std::uint32_t i = walk.count; i-- != 0; ++at) {
    const NativeFrame& frame = data.native.elements[i];
    if (!frame.hidden) [[likely]]
      builder.add(frame.module, frame.offset, frame.node_flags);
    if (frame.python_end != 0) {
      builder.add_python(frame.python_begin, frame.python_end);
      hash = hash_of_outermost(data.frames, frame.python_end);
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
  const PythonFrame* const frames = walk.data.frames.frames();
  std::uint32_t depth = walk.known != nullptr ? walk.known->depth : 0;
  for (std::uint32_t i = walk.known != nullptr ? walk.python_end : 0; i != walk.python_count; ++i)
    depth += !frames[i].boundary() && !frames[i].hidden();
  for (std::uint32_t i = 0; i != walk.count; ++i) depth += !walk.data.native.elements[i].hidden;
  return depth;
}

/// Places the Python frames by a walk. If they cannot be placed, `why_not` is set.
[[gnu::noinline]] NodeId place_by_walk(const Placing& placing, Remembered remembered,
                                       std::optional<LeftOut>& why_not) noexcept {
  LastStack& last = placing.last;
  for (;;) {
    if (remembered == Remembered::kIgnored) last.count = 0;
    PlacingWalk walk(placing);
    const unwind::ThreadUnwinder* const unwinder = remembered == Remembered::kUsed ? &placing.unwinder : nullptr;
    const Truncation reason = unwind::visit_stack(
        placing.entry, placing.definitions, placing.data.bounds, unwinder, placing.captured,
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
    return build(placing, walk, reason, omitted);
  }
}

/// Places the stack again without anything remembered, in a checked build.
void check_place_by_walk(const Placing& placing, NodeId expected, std::optional<LeftOut> expected_why_not) noexcept {
  const Placing again{placing.data,     placing.data.checked, placing.python,      placing.entry,
                      placing.unwinder, placing.captured,     placing.definitions, placing.stream};
  again.last.forget();
  std::optional<LeftOut> why_not;
  const NodeId node = place_by_walk(again, Remembered::kIgnored, why_not);
  check_place(expected, node, expected_why_not == why_not);
}

/// Places a stack that was cached again, in a checked build: one of 64, because it takes long.
[[maybe_unused]] void check_cached(const Placing& placing, NodeId cached) noexcept {
  static thread_local std::uint32_t found [[gnu::tls_model("initial-exec")]];
  if (++found % 64 != 0) return;
  const bool is_placed = cached != kNotPlaced;
  check_place_by_walk(placing, is_placed ? cached : NodeId::kNone,
                      is_placed ? std::nullopt : std::optional(LeftOut::kNoPlace));
}

/// The set of the cache in which a stack is.
CachedStack* cache_set(MixedStackData& data, std::uint64_t hash, NodeId native) noexcept {
  return data.cache[(hash ^ raw(native)) * 0x9e3779b97f4a7c15 >> (64 - kCacheBits)];
}

/// What is cached for a stack: a node or kNotPlaced; kNone: nothing.
NodeId find_cached(MixedStackData& data, std::uint64_t hash, NodeId native) noexcept {
  const CachedStack* const set = cache_set(data, hash, native);
  if (set[0].hash == hash && set[0].native == native) [[likely]]
    return set[0].mixed;
  return set[1].hash == hash && set[1].native == native ? set[1].mixed : NodeId::kNone;
}

/// Adds a stack to its set of the cache.
void cache(MixedStackData& data, std::uint64_t hash, NodeId native, NodeId mixed) noexcept {
  CachedStack* const set = cache_set(data, hash, native);
  // A handler that leaves by longjmp must not leave a wrong entry.
  set[1].native = NodeId::kNone;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[1].hash = set[0].hash;
  set[1].mixed = set[0].mixed;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[1].native = set[0].native;
  set[0].native = NodeId::kNone;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[0].hash = hash;
  set[0].mixed = mixed;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[0].native = native;
}

/// Places a stack that is not cached, and adds the result to the cache: a node or kNotPlaced. Returns nullopt if
/// there is no memory.
[[gnu::noinline]] std::optional<NodeId> place_new(const Placing& placing, std::uint64_t hash,
                                                  NodeId native) noexcept {
  // Several stacks have the number of a truncated one.
  if (placing.unwinder.without_memory()) return std::nullopt;
  std::optional<LeftOut> why_not;
  NodeId mixed = place_by_walk(placing, Remembered::kUsed, why_not);
  if constexpr (kCheckFrames) check_place_by_walk(placing, mixed, why_not);
  if (why_not == LeftOut::kNoMemory) return std::nullopt;
  if (why_not) mixed = kNotPlaced;
  if (mixed != NodeId::kNone) cache(placing.data, hash, native, mixed);
  return mixed;
}

/// Why the frames of `checked`, which is not 0, are not read.
LeftOut reason_without_state(const Interpreter& python, const CheckedState& checked) noexcept {
  if (!checked.valid) return unreadable_reason();
  return is_finalized_by_another(python, checked.state) ? LeftOut::kFinalized : LeftOut::kOtherThread;
}

template <const Layout& kLayout>
NodeId read_and_find(MixedStackData& data, NodeId native, recorder::Stream& stream, Interpreter& python) noexcept;

/// read_and_find() of a version; it finds nothing if there is none.
decltype(MixedStackData::read_and_find) read_and_find_of(std::uint32_t version) noexcept {
  switch (version) {
    case kLayout38.version: return read_and_find<kLayout38>;
    case kLayout39.version: return read_and_find<kLayout39>;
    case kLayout310.version: return read_and_find<kLayout310>;
    case kLayout311.version: return read_and_find<kLayout311>;
    case kLayout312.version: return read_and_find<kLayout312>;
    case kLayout313.version: return read_and_find<kLayout313>;
    case kLayout314.version: return read_and_find<kLayout314>;
    case kLayout315.version: return read_and_find<kLayout315>;
    default: return [](MixedStackData&, NodeId, recorder::Stream&, Interpreter&) noexcept { return NodeId::kNone; };
  }
}

/// Reads the Python frames of the calling thread, whose C stack this is. Returns the interpreter; null: there are
/// none, or they are left out.
const Interpreter* read_frames(MixedStackData& data, NativeStack stack, recorder::Stream& stream) noexcept {
  if (stack.interpreter() == 0) return nullptr;
  if (stack.in_handler()) [[unlikely]]
    return leave_out(LeftOut::kHandler, stream), nullptr;
  Interpreter& python = interpreter(stack.interpreter());
  if (data.interpreter != stack.interpreter()) [[unlikely]] {
    // The number is that of the other members also where a signal handler leaves by longjmp in between.
    data.interpreter = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    data.state = {};
    data.python = &python;
    data.read_and_find = read_and_find_of(python.layout->version);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    data.interpreter = stack.interpreter();
  }
  data.pages.begin_event();
  const std::uint64_t state = thread_state(python, data.pages, data.bounds, data.state);
  if (state == 0) {
    if (data.state.state != 0) leave_out(reason_without_state(python, data.state), stream);
    return nullptr;
  }
  const bool frees_noticed = python.release.is_noticed(data.pages);
  switch (data.frames.update(python, state, frees_noticed, data.pages, stream)) {
    case ThreadFrames::Result::kFrames:
      // The frames were unchanged while they were read only if this is still so.
      std::atomic_thread_fence(std::memory_order_acquire);
      if (is_finalized_by_another(python, state)) [[unlikely]] {
        data.frames.forget();
        return leave_out(LeftOut::kFinalized, stream), nullptr;
      }
      break;
    case ThreadFrames::Result::kNone: return nullptr;
    case ThreadFrames::Result::kUnreadable: return leave_out(unreadable_reason(), stream), nullptr;
    case ThreadFrames::Result::kTooMany: return leave_out(LeftOut::kTooMany, stream), nullptr;
    case ThreadFrames::Result::kNoMemory: return leave_out(LeftOut::kNoMemory, stream), nullptr;
  }
  if constexpr (kCheckFrames) check_frames(data.frames, python, state, frees_noticed, data.pages, stream);
  return &python;
}

/// Finds a stack with frames of `python` in the cache, after its frames were read as read_frames() does. Returns what
/// MixedStacks::find() returns. Everything that read_frames() counts as left out is left to it.
template <const Layout& kLayout>
NodeId read_and_find(MixedStackData& data, NodeId native, recorder::Stream& stream, Interpreter& python) noexcept {
  const std::uint64_t state = data.state.state;
  if (!has_same_state<kLayout>(python, state, data.pages)) [[unlikely]]
    return NodeId::kNone;
  bool frees_noticed = false;
  if constexpr (kLayout.code_version == 0) frees_noticed = python.release.is_noticed(data.pages);
  if (data.frames.update_again<kLayout>(python, state, frees_noticed, data.pages, stream) !=
      ThreadFrames::Result::kFrames) [[unlikely]]
    return NodeId::kNone;
  // The frames were unchanged while they were read only if this is still so.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (load<std::uint64_t>(python.runtime + kLayout.finalizing) != 0) [[unlikely]] {
    data.frames.forget();
    return NodeId::kNone;
  }
  if constexpr (kCheckFrames) return MixedStacks::kFramesRead;  // place_read() checks them
  const NodeId node = find_cached(data, data.frames.hash(), native);
  return node == NodeId::kNone ? MixedStacks::kFramesRead : node;
}

/// Finds the node of a stack in the cache, or else places it. Returns nullopt if there is no memory.
[[gnu::always_inline]] inline std::optional<NodeId> find_or_place(Placing& placing, NodeId native) noexcept {
  MixedStackData& data = placing.data;
  std::uint64_t hash = placing.python == nullptr ? kNoPythonFrames : data.frames.hash();
  for (;;) {
    NodeId node = find_cached(data, hash, native);
    if (node == NodeId::kNone) {
      const std::optional<NodeId> placed = place_new(placing, hash, native);
      if (!placed) return std::nullopt;
      node = *placed;
    } else if constexpr (kCheckFrames) {
      check_cached(placing, node);
    }
    if (node != kNotPlaced) [[likely]]
      return node;
    leave_out(LeftOut::kNoPlace, placing.stream);
    placing.python = nullptr;
    hash = kNoPythonFrames;
  }
}

/// Whether a thread of the process has, or has had, data.
constinit bool g_has_data = false;

}  // namespace

bool MixedStacks::must_begin() const noexcept {
  return data_ == nullptr || suspended_ != 0 || data_->native_stacks.is_outdated();
}

bool MixedStacks::begin() noexcept {
  if (suspended()) {
    --suspended_;
    return false;
  }
  if (data_ == nullptr) {
    data_ = static_cast<MixedStackData*>(sys::map_private(sizeof(MixedStackData)));
    if (data_ == nullptr) {
      suspended_ = kSuspendedEvents;
      return false;
    }
    // The thread that starts the interpreter has so many stacks that it uses every page. A page that is read before
    // it is written would be faulted in twice. Other threads may have few stacks.
    if (!__atomic_exchange_n(&g_has_data, true, __ATOMIC_RELAXED)) sys::populate(data_, sizeof(MixedStackData));
  } else {
    data_->last.count = 0;
    for (auto& set : data_->cache)
      for (CachedStack& cached : set) cached.native = NodeId::kNone;
  }
  ready_for_ = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  data_->native_stacks.begin();
  suspended_ = 0;
  ready_for_ = data_->native_stacks.interpreters() + 1;
  return true;
}

NativeStacks& MixedStacks::native_stacks() noexcept { return data_->native_stacks; }

NodeId MixedStacks::intern_native(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t node_flags,
                                  recorder::Stream& stream) noexcept {
  return data_->native_stacks.intern(parent, module, offset, node_flags, stream);
}

NodeId MixedStacks::find(NodeId native, recorder::Stream& stream) noexcept {
  const NativeStack stack(native);
  if (!stack.numbered()) return native;
  MixedStackData& data = *data_;
  if (!stack.executes(data.interpreter) || !data.state.valid || !data.pages.is_current()) [[unlikely]]
    return NodeId::kNone;
  return data.read_and_find(data, native, stream, *data.python);
}

std::optional<NodeId> MixedStacks::place(NodeId native, const arch::EntryRegisters& entry,
                                         const unwind::ThreadUnwinder& unwinder, unwind::Captured captured,
                                         const unwind::Definitions& definitions, recorder::Stream& stream) noexcept {
  const NativeStack stack(native);
  if (!stack.numbered()) return native;
  MixedStackData& data = *data_;
  Placing placing{data, data.last, read_frames(data, stack, stream), entry, unwinder, captured, definitions, stream};
  const std::optional<NodeId> node = find_or_place(placing, native);
  if (!node) suspend();
  return node;
}

std::optional<NodeId> MixedStacks::place_read(NodeId native, const arch::EntryRegisters& entry,
                                              const unwind::ThreadUnwinder& unwinder, unwind::Captured captured,
                                              const unwind::Definitions& definitions,
                                              recorder::Stream& stream) noexcept {
  MixedStackData& data = *data_;
  Interpreter& python = interpreter(data.interpreter);
  if constexpr (kCheckFrames)
    check_frames(data.frames, python, data.state.state, python.release.is_noticed(data.pages), data.pages, stream);
  Placing placing{data, data.last, &python, entry, unwinder, captured, definitions, stream};
  const std::optional<NodeId> node = find_or_place(placing, native);
  if (!node) suspend();
  return node;
}

void MixedStacks::suspend() noexcept {
  suspended_ = kSuspendedEvents;
  ready_for_ = 0;
}

void MixedStacks::thread_changed() noexcept {
  if (data_ == nullptr) return;
  data_->bounds.reset();
  data_->frames.forget();
  data_->state = {};
  data_->last.count = 0;
}

bool interpreter_is_on_stack(const arch::EntryRegisters& entry, const unwind::Definitions& definitions) noexcept {
  unwind::StackBounds bounds{};
  bool found = false;
  const auto visit = [&found](const unwind::VisitedFrame& frame) {
    found = interpreter_number(frame.module) != 0;
    return !found;
  };
  unwind::visit_stack(entry, definitions, bounds, nullptr, unwind::Captured::kAnyhow, visit);
  return found;
}

}  // namespace heapprof::python
