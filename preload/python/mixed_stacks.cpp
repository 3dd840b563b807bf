#include "preload/python/mixed_stacks.h"

#include <atomic>
#include <optional>

#include "preload/python/checks.h"
#include "preload/python/frame_placement.h"
#include "preload/python/left_out.h"
#include "preload/python/readable_pages.h"
#include "preload/python/thread_frames.h"
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

}  // namespace

struct MixedStackData {
  ThreadFrames frames;
  std::uint32_t interpreter;  ///< to which `state` belongs
  // Constant for the interpreter, and set before it.
  Interpreter* python;
  NodeId (*read_and_find)(MixedStackData&, NodeId native, recorder::Stream&, Interpreter&) noexcept;
  CheckedState state;
  ReadablePages pages;
  PlacementData placement;
  alignas(64) CachedStack cache[1u << kCacheBits][2];  // two sets in each cache line
  NativeStacks native_stacks;
};

namespace {

/// Places the stack again without anything remembered, in a checked build.
void check_placement(const StackToPlace& stack, NodeId expected, std::optional<LeftOut> expected_why_not) noexcept {
  LastStack& last = stack.data.checked;
  last.forget();
  std::optional<LeftOut> why_not;
  const NodeId node = place_frames(stack, last, Remembered::kIgnored, why_not);
  check_place(expected, node, expected_why_not == why_not);
}

/// Places a stack that was cached again, in a checked build: one of 64, because it takes long.
[[maybe_unused]] void check_cached(const StackToPlace& stack, NodeId cached) noexcept {
  static thread_local std::uint32_t found [[gnu::tls_model("initial-exec")]];
  if (++found % 64 != 0) return;
  const bool is_placed = cached != kNotPlaced;
  check_placement(stack, is_placed ? cached : NodeId::kNone,
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
[[gnu::noinline]] std::optional<NodeId> place_new(MixedStackData& data, const StackToPlace& stack, std::uint64_t hash,
                                                  NodeId native) noexcept {
  // Several stacks have the number of a truncated one.
  if (stack.unwinder.without_memory()) return std::nullopt;
  std::optional<LeftOut> why_not;
  NodeId mixed = place_frames(stack, data.placement.last, Remembered::kUsed, why_not);
  if constexpr (kCheckFrames) check_placement(stack, mixed, why_not);
  if (why_not == LeftOut::kNoMemory) return std::nullopt;
  if (why_not) mixed = kNotPlaced;
  if (mixed != NodeId::kNone) cache(data, hash, native, mixed);
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
  const std::uint64_t state = thread_state(python, data.pages, data.placement.bounds, data.state);
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
[[gnu::always_inline]] inline std::optional<NodeId> find_or_place(MixedStackData& data, StackToPlace& stack,
                                                                  NodeId native) noexcept {
  std::uint64_t hash = stack.python == nullptr ? kNoPythonFrames : data.frames.hash();
  for (;;) {
    NodeId node = find_cached(data, hash, native);
    if (node == NodeId::kNone) {
      const std::optional<NodeId> placed = place_new(data, stack, hash, native);
      if (!placed) return std::nullopt;
      node = *placed;
    } else if constexpr (kCheckFrames) {
      check_cached(stack, node);
    }
    if (node != kNotPlaced) [[likely]]
      return node;
    leave_out(LeftOut::kNoPlace, stack.stream);
    stack.python = nullptr;
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
    data_->placement.last.count = 0;
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
  const NativeStack native_stack(native);
  if (!native_stack.numbered()) return native;
  MixedStackData& data = *data_;
  const Interpreter* const python = read_frames(data, native_stack, stream);
  StackToPlace stack{data.placement, data.frames, python, entry, unwinder, captured, definitions, stream};
  const std::optional<NodeId> node = find_or_place(data, stack, native);
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
  StackToPlace stack{data.placement, data.frames, &python, entry, unwinder, captured, definitions, stream};
  const std::optional<NodeId> node = find_or_place(data, stack, native);
  if (!node) suspend();
  return node;
}

void MixedStacks::suspend() noexcept {
  suspended_ = kSuspendedEvents;
  ready_for_ = 0;
}

void MixedStacks::thread_changed() noexcept {
  if (data_ == nullptr) return;
  data_->placement.bounds.reset();
  data_->frames.forget();
  data_->state = {};
  data_->placement.last.count = 0;
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
