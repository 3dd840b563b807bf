#include "preload/python/mixed_stacks.h"

#include <atomic>
#include <optional>

#include "preload/python/checks.h"
#include "preload/python/left_out.h"
#include "preload/python/readable_pages.h"
#include "preload/python/stack_traits.h"
#include "preload/python/thread_frames.h"
#include "preload/sys/kernel.h"
#include "preload/unwind/stack_bounds.h"
#include "preload/unwind/stack_visit.h"

namespace heapprof::python {

namespace {

/// The node of a mixed stack.
struct CachedStack {
  std::uint64_t hash;  ///< of the Python frames
  NodeId native;       ///< kNone: empty
  NodeId mixed;
};
/// Sets of two entries: the second one holds what the first one held before.
constexpr unsigned kCacheBits = 11;

/// A frame of a mixed stack.
struct Item {
  std::uint64_t offset;
  ModuleId module;
  std::uint32_t node_flags;
  NodeId node;
};

/// A C frame.
struct NativeFrame {
  std::uint64_t offset;
  ModuleId module;
  std::uint32_t node_flags;
  /// If the frame is an evaluation: the index after that of its innermost Python frame, and that of its outermost
  /// one.
  std::uint32_t python_end;
  std::uint32_t python_begin;
};

/// An array in a mapping of its own.
template <typename T>
struct Array {
  T* elements;
  std::uint32_t capacity;

  /// Makes room for `count` elements, and keeps the first `used`.
  bool reserve(std::uint32_t count, std::uint32_t used) noexcept {
    if (count <= capacity) return true;
    std::uint32_t larger = capacity == 0 ? 256 : capacity;
    while (larger < count) larger *= 2;
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

}  // namespace

struct MixedStackData {
  ThreadFrames frames;
  std::uint32_t interpreter;  ///< to which `state` belongs
  CheckedState state;
  ReadablePages pages;
  unwind::StackBounds bounds;
  Array<NativeFrame> native;  ///< innermost first
  Array<Item> items;          ///< the last stack that was placed, outermost first
  std::uint32_t item_count;   ///< 0 while they are changed
  Truncation root;            ///< of that stack
  CachedStack cache[1u << kCacheBits][2];
};

namespace {

/// The walk over the C frames, which finds the evaluation of each boundary.
struct PlacingWalk {
  MixedStackData& data;
  std::uint32_t count = 0;   ///< C frames so far
  std::uint32_t python_end;  ///< the Python frames from here on have been placed
  std::uint32_t boundary;    ///< the next boundary, which the evaluation of the frames inside of it must contain
  bool no_memory = false;
  const Interpreter* by_code;     ///< whose evaluations are known by their code; null: by what boundaries are
  std::uint32_t evaluations = 0;  ///< that were found by their code

  PlacingWalk(MixedStackData& of, const Interpreter& python) noexcept
      : data(of), python_end(of.frames.count()), boundary(python_end),
        by_code(python.layout->evaluations_by_code() ? &python : nullptr) {
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

bool place_frame(void* context, const unwind::VisitedFrame& visited) {
  auto& walk = *static_cast<PlacingWalk*>(context);
  if (!walk.data.native.reserve(walk.count + 1, walk.count)) {
    walk.no_memory = true;
    return false;
  }
  NativeFrame frame{visited.offset, visited.module, visited.node_flags, 0, 0};
  if (walk.by_code != nullptr) {
    // Which Python frame it executes is decided when all are known.
    if (static_cast<std::uint32_t>(visited.module) == walk.by_code->module &&
        walk.by_code->evaluation.contains(visited.offset)) {
      frame.python_end = 1;
      ++walk.evaluations;
    }
  } else if (walk.boundary != PlacingWalk::kNone) {
    const PythonFrame* const frames = walk.data.frames.frames();
    const std::uint64_t address = frames[walk.boundary].address;
    if (address >= visited.begin && address < visited.end) {
      frame.python_end = walk.python_end;
      frame.python_begin = walk.boundary;
      walk.python_end = walk.boundary;
      walk.next_boundary();
    }
  }
  if (!visited.hidden || frame.python_end != 0) walk.data.native.elements[walk.count++] = frame;
  return true;
}

/// Places the Python frames in the evaluations that were found by their code, from the innermost one on. There may be
/// more evaluations than boundaries: those outside of a greenlet or of a sub-interpreter, whose frames are not
/// linked. If there are as many as Python frames, each has one (while a trace function is called at the beginning of
/// a generator). Returns false if there are fewer, unless the stack is truncated.
bool place_by_code(PlacingWalk& walk, bool truncated) noexcept {
  const ThreadFrames& all = walk.data.frames;
  std::uint32_t boundaries = 0, frames = 0;
  for (std::uint32_t i = 0; i != all.count(); ++i) ++(all.frames()[i].boundary() ? boundaries : frames);
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

/// Appends frames of the mixed stack, from the outermost to the innermost. Frames that equal those of the last stack
/// keep their nodes.
class StackBuilder {
 public:
  StackBuilder(MixedStackData& data, const unwind::Definitions& definitions, std::uint32_t omitted,
               Truncation reason) noexcept
      : data_(data), definitions_(definitions), omitted_(omitted), last_count_(data.item_count) {
    data_.item_count = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (reason != data_.root) last_count_ = 0;
    data_.root = reason;
    if (reason == Truncation::kNone) return;
    const auto offset = static_cast<std::uint64_t>(reason);
    node_ = definitions_.intern(definitions_.context, NodeId::kNone, ModuleId::kTruncationRoot, offset, 0);
    failed_ = node_ == NodeId::kNone;
  }

  void add(ModuleId module, std::uint64_t offset, std::uint32_t node_flags) noexcept {
    if (omitted_ != 0) {
      --omitted_;
      return;
    }
    if (failed_) return;
    Item& item = data_.items.elements[count_];
    if (count_ < last_count_ && item.offset == offset && item.module == module && item.node_flags == node_flags) {
      node_ = item.node;
    } else {
      last_count_ = 0;
      node_ = definitions_.intern(definitions_.context, node_, module, offset, node_flags);
      failed_ = node_ == NodeId::kNone;
      item = {offset, module, node_flags, node_};
    }
    ++count_;
  }
  /// Adds the Python frames of an evaluation, by their indexes.
  void add_python(std::uint32_t begin, std::uint32_t end) noexcept {
    const PythonFrame* const frames = data_.frames.frames();
    for (std::uint32_t i = begin; i != end; ++i)
      if (!frames[i].boundary() && !frames[i].hidden()) add(ModuleId::kPython, frames[i].offset, 0);
  }

  NodeId finish() noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!failed_) data_.item_count = count_;
    return failed_ ? NodeId::kNone : node_;
  }

 private:
  MixedStackData& data_;
  const unwind::Definitions& definitions_;
  std::uint32_t omitted_;  ///< outermost frames that are still to be omitted
  std::uint32_t last_count_;
  std::uint32_t count_ = 0;
  NodeId node_ = NodeId::kNone;
  bool failed_ = false;
};

/// Places the Python frames by a walk. If they cannot be placed, `why_not` is set.
[[gnu::noinline]] NodeId place_by_walk(MixedStackData& data, const Interpreter& python,
                                       const arch::EntryRegisters& entry, const unwind::Definitions& definitions,
                                       std::optional<LeftOut>& why_not) noexcept {
  PlacingWalk walk(data, python);
  Truncation reason = unwind::visit_stack(entry, definitions, data.bounds, place_frame, &walk);
  std::uint32_t lines = 0;
  for (std::uint32_t i = 0; i != data.frames.count(); ++i)
    lines += !data.frames.frames()[i].boundary() && !data.frames.frames()[i].hidden();
  const std::uint32_t depth = walk.count + lines;
  if (depth > data.items.capacity) {
    // A longjmp out of the growth may leave an array without elements.
    data.item_count = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  if (walk.no_memory || !data.items.reserve(depth, data.item_count)) {
    why_not = LeftOut::kNoMemory;
    return NodeId::kNone;
  }
  if (walk.by_code != nullptr && !place_by_code(walk, reason != Truncation::kNone)) {
    why_not = LeftOut::kNoPlace;
    return NodeId::kNone;
  }
  const std::uint32_t omitted = unwind::frames_to_omit(depth);
  if (omitted != 0) reason = Truncation::kMaxDepth;
  StackBuilder builder(data, definitions, omitted, reason);
  // Frames whose evaluation was not found (a truncated stack, or an evaluation by other code) are the outermost ones.
  builder.add_python(0, walk.python_end);
  for (std::uint32_t i = walk.count; i-- != 0;) {
    const NativeFrame& frame = data.native.elements[i];
    builder.add(frame.module, frame.offset, frame.node_flags);
    builder.add_python(frame.python_begin, frame.python_end);
  }
  return builder.finish();
}

/// Places a stack that is not cached, and adds it to its set of the cache.
[[gnu::noinline]] NodeId place_new(MixedStackData& data, CachedStack* set, NodeId native, const Interpreter& python,
                                   const arch::EntryRegisters& entry, const unwind::Definitions& definitions,
                                   recorder::Stream& stream) noexcept {
  std::optional<LeftOut> why_not;
  const NodeId mixed = place_by_walk(data, python, entry, definitions, why_not);
  if (why_not) return leave_out(*why_not, stream), native;
  if (mixed == NodeId::kNone) return mixed;
  // A handler that leaves by longjmp must not leave a wrong entry.
  set[1].native = NodeId::kNone;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[1].hash = set[0].hash;
  set[1].mixed = set[0].mixed;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[1].native = set[0].native;
  set[0].native = NodeId::kNone;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[0].hash = data.frames.hash();
  set[0].mixed = mixed;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[0].native = native;
  return mixed;
}

}  // namespace

NodeId MixedStacks::place(NodeId native, const arch::EntryRegisters& entry, const unwind::Definitions& definitions,
                          recorder::Stream& stream) noexcept {
  const StackTraits traits = traits_of(native);
  if (traits.interpreter() == 0) return native;
  if (traits.in_handler()) [[unlikely]]
    return leave_out(LeftOut::kHandler, stream), native;
  if (data_ == nullptr) [[unlikely]] {
    data_ = static_cast<MixedStackData*>(sys::map_private(sizeof(MixedStackData)));
    if (data_ == nullptr) return leave_out(LeftOut::kNoMemory, stream), native;
  }
  MixedStackData& data = *data_;
  Interpreter& python = interpreter(traits.interpreter());
  if (data.interpreter != traits.interpreter()) [[unlikely]] {
    data.interpreter = traits.interpreter();
    data.state = {};
  }
  data.pages.begin_event();
  const std::uint64_t state = thread_state(python, data.pages, data.state);
  if (state == 0) {
    if (data.state.state != 0 && !data.state.valid) leave_out(unreadable_reason(), stream);
    return native;
  }
  const bool frees_noticed = python.release.is_noticed(data.pages);
  switch (data.frames.update(python, state, frees_noticed, data.pages, stream)) {
    case ThreadFrames::Result::kFrames: break;
    case ThreadFrames::Result::kNone: return native;
    case ThreadFrames::Result::kUnreadable: return leave_out(unreadable_reason(), stream), native;
    case ThreadFrames::Result::kTooMany: return leave_out(LeftOut::kTooMany, stream), native;
    case ThreadFrames::Result::kNoMemory: return leave_out(LeftOut::kNoMemory, stream), native;
  }
  if constexpr (kCheckFrames) check_frames(data.frames, python, state, frees_noticed, data.pages, stream);
  const std::uint64_t hash = data.frames.hash();
  CachedStack* const cached = data.cache[(hash ^ raw(native)) * 0x9e3779b97f4a7c15 >> (64 - kCacheBits)];
  if (cached[0].hash == hash && cached[0].native == native) [[likely]]
    return cached[0].mixed;
  if (cached[1].hash == hash && cached[1].native == native) return cached[1].mixed;
  return place_new(data, cached, native, python, entry, definitions, stream);
}

void MixedStacks::thread_changed() noexcept {
  if (data_ == nullptr) return;
  data_->bounds.reset();
  data_->frames.forget();
  data_->state = {};
}

}  // namespace heapprof::python
