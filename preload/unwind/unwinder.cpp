// Capturing a stack. docs/concepts/unwinding.md has the whole story; here is the order of things.
//
//   walk         from the hook's caller outwards, frame by frame: find the rule of the program counter,
//                apply it (step), note the frame and every word that the rule read
//   commit       put the frames in order, outermost first
//   intern       from the first frame that is new to the innermost
//
// A frame's state is (pc, sp, fp): sp is the CFA of the frame below it, fp the frame register, or, when a
// frame below has saved it, the address of where; most code has no use for its value, and then it is never
// read. The rule takes a state to that of the caller.
#include "preload/unwind/unwinder.h"

#include <bit>
#include <cstring>
#include <utility>

#include "preload/sys/kernel.h"
#include "preload/unwind/full_unwind.h"
#include "preload/unwind/modules.h"
#include "preload/unwind/registered_frames.h"
#include "preload/unwind/rule_cache.h"
#include "preload/unwind/stack_bounds.h"

namespace heapprof::unwind {

namespace {

/// No stack is walked further than this.
constexpr std::uint32_t kMaxFrames = 1u << 17;
/// Stacks deeper than max_depth are cut at multiples of this (design 2.3).
constexpr std::uint32_t kCutFrames = 512;
/// Under a limit lower than that, at multiples of half the limit.
constexpr std::uint32_t cut_step(std::uint32_t max_depth) noexcept {
  const std::uint32_t half = (max_depth + 1) / 2;
  return half < kCutFrames ? half : kCutFrames;
}
/// What capture_short can hold: under 1 KB of stack, so that its deepest path stays within 4 KB (tests/abi).
constexpr std::uint32_t kShortFrames = 112;
constexpr unsigned kFlagShift = 58;
constexpr std::size_t kFirstMapping = 208u << 10;
constexpr std::uint32_t kKnownStepBits = 10;
constexpr std::uint32_t kKnownNodeBits = 10;
/// So many frames may lead to a remembered one by known steps; if there are more, the stack is remembered anew.
constexpr std::uint32_t kMaxKnownSteps = 12;

constinit RuleCache g_rules;
constinit std::uint32_t g_max_depth = 1024;
constinit bool g_shadow_stack = true;
constinit std::uint64_t g_hidden_pc = 0;

/// Of a state, and of the frame that it was, in which case there are two more.
enum Flags : std::uint16_t {
  kExact = 1,    ///< interrupted at pc: the next instruction, not a return address
  kGuessed = 2,  ///< found by frame pointers
  kFpSaved = 4,  ///< fp is where the frame register was saved, not its value
  kStateFlags = kExact | kGuessed | kFpSaved,
  kWhole = 8,     ///< named by pc itself though it was found as a return address: the signal frame
  kBarrier = 16,  ///< not every word that was read to get beyond it is remembered
  // What the step out of the frame makes of fp. Neither: it reads it.
  kEndsFp = 32,     ///< finds another, without a look at this one
  kPassesFp = 64,   ///< hands it on as it is
  kFpIgnored = 128, ///< remembered frames: nothing from here outwards reads it, so any fp is as good
};

struct State {
  std::uint64_t pc;
  std::uint64_t sp;
  std::uint64_t fp;
  std::uint16_t flags;

  bool exact() const noexcept { return (flags & kExact) != 0; }
};

struct FrameName {
  NodeId node;
  std::uint16_t module;
  std::uint16_t flags;

  bool operator==(const FrameName& other) const noexcept {
    return std::bit_cast<std::uint64_t>(*this) == std::bit_cast<std::uint64_t>(other);
  }
};

struct Frame : FrameName {
  std::uint64_t path;  ///< of the node: see Definitions::intern
  std::uint64_t pc;
  std::uint64_t sp;
  std::uint64_t fp;
  std::uint32_t words;    ///< index into the words: see Arrays
  std::uint32_t barrier;  ///< remembered: 1 + index of the nearest barrier from here outwards; 0: none
};
static_assert(sizeof(Frame) == 48);

constexpr std::uint32_t kWordsPerFrame = 3;

/// A step that was taken: from (pc, sp) to a CFA, by a rule of kind kSp or kFp, all of whose reads were found to be
/// within the stack. Programs allocate from many places near the top of a stack that stays: the remembered frames
/// hold one such place, and from the others these lead there, without a look at rules, modules and bounds.
struct KnownStep {
  std::uint64_t pc;
  std::uint64_t sp;
  std::uint64_t cfa;
  Rule rule;
  std::uint64_t stamp;  ///< stamp_of() when it was taken
  NodeId parent;        ///< the node of the caller, when a capture last took this step
  NodeId node;          ///< and of this frame then; kNone: not yet known
};

/// Nodes that this thread looked up of late, in front of the call tree, which costs two or three cache misses
/// when it is large.
struct KnownNode {
  std::uint64_t pc;  ///< with the frame's kExact | kGuessed | kWhole above, from kFlagShift
  NodeId parent;
  NodeId node;               ///< kNone: empty
  std::uint64_t generation;  ///< the module of a pc may change
};

/// Everything that a walk needs and changes.
struct Walk {
  State state;
  StackBounds& bounds;
  FullFrame& full;  ///< the last frame of which all registers were known
  const arch::EntryRegisters& entry;
  const Definitions& definitions;
  std::uint64_t generation;
  Truncation reason = Truncation::kNone;
};

std::uint64_t load(std::uint64_t address) noexcept {
  return *reinterpret_cast<const volatile std::uint64_t*>(address);
}

// ---- finding rules ---------------------------------------------------------------------------------

[[gnu::noinline]] Rule find_rule_slowly(const Walk& walk, std::uint64_t pc, bool exact) noexcept {
  const std::uint64_t key = RuleCache::key(pc, exact);
  ModuleState& anonymous = state_of(ModuleId::kAnonymous);
  if (anonymous.confirmed.load(std::memory_order_acquire) != walk.generation) {
    g_rules.forget(ModuleId::kAnonymous);
    anonymous.confirmed.store(walk.generation, std::memory_order_release);
  }

  Module* module = find_module(exact ? pc : pc - 1, walk.generation);
  if (module != nullptr) {
    announce(*module, walk.definitions);
    const Rule cached = g_rules.find(key);
    if (cached.kind() != RuleKind::kNone && cached.module() == module->id) return cached;
  }
  const ModuleId id = module != nullptr ? module->id : ModuleId::kAnonymous;
  CfiRow row;
  Rule rule;
  switch (look_up(module, pc, exact, row)) {
    case Lookup::kRow: rule = compact(row, id, exact ? pc : pc - 1); break;
    case Lookup::kSignal: rule = {RuleKind::kSignal, id}; break;
    case Lookup::kOutermost: rule = {RuleKind::kEnd, id}; break;
    case Lookup::kNone: rule = {RuleKind::kNoInfo, id}; break;
    case Lookup::kBad: rule = {RuleKind::kBad, id}; break;
  }
  // Code without module and without registered information can change unseen.
  if (module != nullptr || rule.kind() != RuleKind::kNoInfo) g_rules.store(key, rule);
  return rule;
}

inline Rule find_rule(const Walk& walk, const State& state) noexcept {
  const Rule rule = g_rules.find(RuleCache::key(state.pc, state.exact()));
  if (rule.kind() != RuleKind::kNone &&
      state_of(rule.module()).confirmed.load(std::memory_order_acquire) == walk.generation) [[likely]]
    return rule;
  return find_rule_slowly(walk, state.pc, state.exact());
}

// ---- steps -----------------------------------------------------------------------------------------

StepResult truncated(Walk& walk, Truncation reason) noexcept {
  walk.reason = reason;
  return StepResult::kTruncated;
}

/// The state of the frame that full unwinding arrived at.
StepResult continue_from_full(Walk& walk) noexcept {
  if (walk.full.pc() >= arch::kCodeEnd) {
    walk.full.valid = false;
    return truncated(walk, Truncation::kBadAddress);
  }
  walk.state = {walk.full.pc(), walk.full.sp(), walk.full.fp(),
                static_cast<std::uint16_t>(walk.full.exact ? kExact : 0)};
  return StepResult::kCaller;
}

[[gnu::noinline]] StepResult step_signal(Walk& walk) noexcept {
  if (!read_signal_frame(walk.state.sp, walk.bounds, walk.full)) {
    walk.full.valid = false;
    return truncated(walk, Truncation::kBadAddress);
  }
  return continue_from_full(walk);
}

[[gnu::noinline]] StepResult step_all_registers(Walk& walk) noexcept {
  FullFrame& full = walk.full;
  if (!full.valid && !unwind_to_entry(full, walk.entry, walk.bounds, walk.generation)) {
    full.valid = false;
    return truncated(walk, Truncation::kBadRule);
  }
  for (std::uint32_t i = 0; full.pc() != walk.state.pc || full.sp() != walk.state.sp; ++i) {
    if (i == kMaxFrames || step_full(full, walk.bounds, walk.generation, walk.reason) != StepResult::kCaller) {
      full.valid = false;
      return truncated(walk, Truncation::kBadRule);
    }
  }
  const StepResult result = step_full(full, walk.bounds, walk.generation, walk.reason);
  return result == StepResult::kCaller ? continue_from_full(walk) : result;
}

/// Frame pointers.
[[gnu::noinline]] StepResult step_guess(Walk& walk, Word*& words) noexcept;

/// The kinds of rules that few frames have.
[[gnu::noinline]] StepResult step_rare(Walk& walk, Rule rule, Word*& words, std::uint16_t& flags) noexcept {
  switch (rule.kind()) {
    case RuleKind::kEnd:
      flags |= kEndsFp;
      return StepResult::kOutermost;
    case RuleKind::kNoInfo:
      return step_guess(walk, words);
    case RuleKind::kSignal:
      flags |= kWhole | kBarrier;
      return step_signal(walk);
    case RuleKind::kFull:
      flags |= kBarrier;
      return step_all_registers(walk);
    default:
      return truncated(walk, Truncation::kBadRule);
  }
}

/// The value of the frame register. Where it was saved may be read: that was checked when it was found.
inline std::uint64_t read_fp(State& state, Word*& words) noexcept {
  if ((state.flags & kFpSaved) != 0) {
    const std::uint64_t slot = state.fp;
    state.fp = load(slot);
    state.flags &= static_cast<std::uint16_t>(~kFpSaved);
    *words++ = {slot, state.fp};
  }
  return state.fp;
}

StepResult step_guess(Walk& walk, Word*& words) noexcept {
  State& state = walk.state;
  const std::uint64_t fp = read_fp(state, words);
  if (fp == 0) return StepResult::kOutermost;  // ABI 3.4.1: the outermost frame has none
  std::uint64_t record[2];
  if (!read_frame_record(state.sp, fp, walk.bounds, record)) return truncated(walk, Truncation::kNoUnwindInfo);
  *words++ = {fp, record[0]};
  *words++ = {fp + 8, load(fp + 8)};
  if (record[1] == 0) return StepResult::kOutermost;
  if (record[1] >= arch::kCodeEnd) return truncated(walk, Truncation::kNoUnwindInfo);
  state = {record[1], fp + 16, record[0], kGuessed};
  return StepResult::kCaller;
}

/// Goes from `state` to its caller; what was read is noted at `words`. `flags`: of the frame left. The rare
/// kinds work on walk.state.
[[gnu::always_inline]] inline StepResult step(State& state, Walk& walk, Rule rule, Word*& words,
                                              std::uint16_t& flags) noexcept {
  const auto rarely = [&](auto&& function) noexcept {
    walk.state = state;
    const StepResult result = function();
    state = walk.state;
    return result;
  };
  std::uint64_t cfa;
  std::uint64_t fp_slot;
  if (rule.kind() == RuleKind::kSp) {
    // Where a frame record is not at the top of its frame, guessing loses the stack pointer.
    if (!arch::kCallPushesReturnAddress && (state.flags & kGuessed) != 0)
      return rarely([&]() noexcept { return step_guess(walk, words); });
    cfa = state.sp + rule.cfa();
    fp_slot = cfa + rule.fp();
    flags |= rule.fp_is_same() ? kPassesFp : kEndsFp;
  } else if (rule.kind() == RuleKind::kFp) {
    cfa = read_fp(state, words) + rule.cfa();
    fp_slot = cfa + rule.fp();
  } else if (rule.kind() == RuleKind::kRealigned) {
    const std::uint64_t fp = read_fp(state, words);
    const std::uint64_t slot = fp + rule.cfa();
    if (slot % 8 != 0 || slot < state.sp || !walk.bounds.readable(slot))
      return truncated(walk, Truncation::kBadAddress);
    cfa = load(slot);
    *words++ = {slot, cfa};
    fp_slot = fp + rule.fp();
  } else {
    return rarely([&]() noexcept { return step_rare(walk, rule, words, flags); });
  }
  const std::uint64_t ra_slot = cfa + rule.ra();
  // A frame below the last one, or unreadable, is another stack's or none.
  if (cfa % 8 != 0 || cfa <= state.sp || !walk.bounds.readable(ra_slot)) [[unlikely]] {
    if (rule.kind() == RuleKind::kSp || cfa % 8 != 0 || walk.bounds.contains(ra_slot) || !walk.bounds.cross(ra_slot))
      return truncated(walk, Truncation::kBadAddress);
    flags |= kBarrier;
  }
  const std::uint64_t ra = load(ra_slot);
  *words++ = {ra_slot, ra};
  if (!rule.fp_is_same()) {
    if (fp_slot % 8 != 0 || !walk.bounds.readable(fp_slot)) [[unlikely]]
      return truncated(walk, Truncation::kBadAddress);
    state.fp = fp_slot;
    state.flags = kFpSaved;
  } else {
    state.flags &= kFpSaved;
  }
  state.pc = arch::strip(ra);
  state.sp = cfa;
  if (state.pc - 1 < arch::kCodeEnd) [[likely]] return StepResult::kCaller;
  return state.pc == 0 ? StepResult::kOutermost : truncated(walk, Truncation::kBadAddress);
}

/// A frame's offset in its module, by which it is named.
inline std::uint64_t offset_of(const Frame& frame) noexcept {
  const std::uint64_t named = frame.pc - ((frame.flags & (kExact | kWhole)) == 0 ? 1 : 0);
  return named - state_of(ModuleId{frame.module}).load_bias;
}

inline std::uint64_t offset_of(const KnownStep& step) noexcept {
  return step.pc - 1 - state_of(step.rule.module()).load_bias;
}

/// The path (Definitions::intern) of what is called from `caller`. Two rounds of multiply and shift: the low bits
/// have to depend on everything.
inline std::uint64_t path_of(std::uint64_t caller, std::uint64_t offset, std::uint32_t module,
                             unsigned flags) noexcept {
  std::uint64_t hash = caller ^ offset ^ std::uint64_t{module} << 48 ^ std::uint64_t{flags & kGuessed} << 40;
  hash *= 0x9e3779b97f4a7c15;
  hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93;
  return hash ^ hash >> 32;
}

inline NodeId intern(const Definitions& definitions, NodeId parent, const Frame& frame) noexcept {
  if (frame.pc == g_hidden_pc) [[unlikely]] return parent;
  return definitions.intern(definitions.context, parent, ModuleId{frame.module}, offset_of(frame),
                            (frame.flags & kGuessed) != 0 ? kNodeByFramePointer : 0, frame.path);
}

struct Root {
  NodeId node;
  std::uint64_t path;
};

inline Root root_of(const Definitions& definitions, Truncation reason) noexcept {
  if (reason == Truncation::kNone) return {NodeId::kNone, 0};
  const auto offset = static_cast<std::uint64_t>(reason);
  const std::uint64_t path = path_of(0, offset, raw(ModuleId::kTruncationRoot), 0);
  return {definitions.intern(definitions.context, NodeId::kNone, ModuleId::kTruncationRoot, offset, 0, path), path};
}

/// Frames to leave out, from the outermost, of a stack of `depth`.
constexpr std::uint32_t cut_of(std::uint32_t depth, std::uint32_t max_depth) noexcept {
  const std::uint32_t step = cut_step(max_depth);
  return depth <= max_depth ? 0 : (depth - max_depth + step - 1) / step * step;
}

/// A stack without memory of the thread's: the innermost frames; if there are more, rooted in `reason`.
NodeId capture_short(const arch::EntryRegisters& entry, const Definitions& definitions, Truncation reason) noexcept;

// ---- a thread's memory -----------------------------------------------------------------------------

/// Header of a mapping that holds the arrays.
struct Arrays {
  std::size_t mapped;      ///< bytes; 0: part of the mapping of ThreadData
  std::uint32_t capacity;  ///< frames, in each of the two sets
  // The remembered stack, outermost first. frames[i].words: where the words of frame i end. Before frames[0]
  // stands one that equals no state and lies above all.
  Frame* frames;
  Word* words;
  std::uint64_t* marks;  ///< of frames: see cached_paths.h
  // What is being walked, innermost first. fresh[i].words: where the words of frame i begin.
  Frame* fresh;
  Word* fresh_words;
};

constexpr std::size_t kSetBytes = sizeof(Frame) + kWordsPerFrame * sizeof(Word);
/// What lay_out needs for each frame, and besides.
constexpr std::size_t kFrameBytes = 2 * kSetBytes + sizeof(std::uint64_t);
constexpr std::size_t kFixedBytes = sizeof(Frame) + (kWordStride - 1) * sizeof(Word);
static_assert((kMaxFrames << 1) * kWordsPerFrame < 1u << kMarkShift);

constexpr std::size_t bytes_for(std::uint32_t capacity) noexcept { return capacity * kFrameBytes + kFixedBytes; }

void lay_out(Arrays& arrays, std::uint32_t capacity) noexcept {
  char* at = reinterpret_cast<char*>(&arrays + 1);
  const auto take = [&](std::size_t bytes) noexcept { return std::exchange(at, at + bytes); };
  arrays.capacity = capacity;
  // Words before the first, which always hold.
  for (std::uint32_t i = 1; i != kWordStride; ++i) {
    auto* const word = reinterpret_cast<Word*>(take(sizeof(Word)));
    *word = {reinterpret_cast<std::uint64_t>(&word->value), 0};
  }
  arrays.words = reinterpret_cast<Word*>(take(capacity * kWordsPerFrame * sizeof(Word)));
  arrays.frames = reinterpret_cast<Frame*>(take((capacity + 1) * sizeof(Frame))) + 1;
  arrays.frames[-1] = {};
  arrays.frames[-1].sp = ~std::uint64_t{0};
  arrays.fresh_words = reinterpret_cast<Word*>(take(capacity * kWordsPerFrame * sizeof(Word)));
  arrays.fresh = reinterpret_cast<Frame*>(take(capacity * sizeof(Frame)));
  arrays.marks = reinterpret_cast<std::uint64_t*>(take(capacity * sizeof(std::uint64_t)));
}

}  // namespace

/// First thing in the thread's mapping; the arrays follow it, until they get too small.
// Of the remembered stack the length is 0 while it is being rewritten: a capture that is abandoned in between
// leaves nothing half-done behind.
struct ThreadData : KnownPaths {
  StackBounds bounds;
  FullFrame full;
  Arrays* arrays;
  std::uint64_t remembered;  ///< how often frames were, for their marks
  std::uint64_t path_stamp;  ///< stamp_of() when the paths were noted: with another, none is left
  std::uint64_t numbers;     ///< how many FirstReturn::number there were
  std::uint32_t cut;         ///< outermost frames without node
  std::uint32_t epoch;       ///< of bounds, when it was remembered
  Truncation reason;         ///< why its outermost frame is not the thread's
  std::uint64_t generation;  ///< in which it was remembered
  KnownStep known_steps[1u << kKnownStepBits];
  KnownNode known_nodes[1u << kKnownNodeBits];
  Arrays first;  ///< last: its arrays follow
};

namespace {

ThreadData* make_data() noexcept {
  auto* data = static_cast<ThreadData*>(sys::map_private(kFirstMapping));
  if (data == nullptr) return nullptr;
  lay_out(data->first, (kFirstMapping - sizeof(ThreadData) - kFixedBytes) / kFrameBytes);
  data->arrays = &data->first;
  data->world = kNoWorld;
  return data;
}

/// Doubles the arrays. False: no memory.
[[gnu::noinline]] bool grow(ThreadData& data, std::uint32_t fresh, std::uint32_t fresh_words) noexcept {
  Arrays* const old = data.arrays;
  const std::uint32_t capacity = old->capacity * 2;
  const std::size_t bytes = sizeof(Arrays) + bytes_for(capacity);
  auto* larger = static_cast<Arrays*>(sys::map_private(bytes));
  if (larger == nullptr) return false;
  larger->mapped = bytes;
  lay_out(*larger, capacity);
  if (data.length != 0) {
    std::memcpy(larger->frames, old->frames, data.length * sizeof(Frame));
    std::memcpy(larger->words, old->words, old->frames[data.length - 1].words * sizeof(Word));
    std::memcpy(larger->marks, old->marks, data.length * sizeof(std::uint64_t));
  }
  std::memcpy(larger->fresh, old->fresh, fresh * sizeof(Frame));
  std::memcpy(larger->fresh_words, old->fresh_words, fresh_words * sizeof(Word));
  data.arrays = larger;
  if (old->mapped != 0) sys::unmap(old, old->mapped);
  return true;
}

// ---- walking ---------------------------------------------------------------------------------------

inline bool same_state(const Frame& frame, const State& state) noexcept {
  if (frame.sp != state.sp || frame.pc != state.pc) return false;
  if ((frame.flags & kFpIgnored) != 0) return ((frame.flags ^ state.flags) & kStateFlags & ~kFpSaved) == 0;
  return frame.fp == state.fp && (frame.flags & kStateFlags) == state.flags;
}

/// Gives a frame the frame register of `state`.
inline void set_fp(Frame& frame, const State& state) noexcept {
  frame.fp = state.fp;
  frame.flags = static_cast<std::uint16_t>((frame.flags & ~kFpSaved) | (state.flags & kFpSaved));
}

/// Of the remembered frames up to `top`, how many have to be unwound again: 0, or all up to and including
/// the first, from the inside, that is a barrier or of which a word has changed. Those above it are what
/// unwinding would find, since it would read the same words. Takes some 4 instructions a word.
inline std::uint32_t verify(const Arrays& arrays, const Frame* top) noexcept {
  const Frame* const frames = arrays.frames;
  const std::uint32_t barrier = top->barrier;
  const Word* const stop = arrays.words + frames[static_cast<std::int64_t>(barrier) - 1].words;
  const Word* word = arrays.words + top->words;
  for (; word - stop >= 4; word -= 4)
    if (!word[-1].holds() || !word[-2].holds() || !word[-3].holds() || !word[-4].holds()) break;
  while (word != stop && word[-1].holds()) --word;
  if (word == stop) [[likely]] return barrier;
  const auto changed = static_cast<std::uint32_t>(word - arrays.words);  // the word before this one
  while (top[-1].words >= changed) --top;
  return static_cast<std::uint32_t>(top - frames) + 1;
}

/// What a known step depends on besides its state. Neither number ever falls, so the sum tells them apart.
inline std::uint64_t stamp_of(std::uint64_t generation, std::uint32_t epoch) noexcept { return generation + epoch; }

/// The two places for steps from (pc, sp), the second of them for the one that came before.
inline KnownStep* known_steps(ThreadData& data, std::uint64_t pc, std::uint64_t sp) noexcept {
  return &data.known_steps[((pc ^ sp << 20) * 0x9e3779b97f4a7c15 >> (65 - kKnownStepBits)) * 2];
}

inline KnownStep* find_step(ThreadData& data, std::uint64_t pc, std::uint64_t sp, std::uint64_t stamp) noexcept {
  KnownStep* const at = known_steps(data, pc, sp);
  if (at[0].pc == pc && at[0].sp == sp && at[0].stamp == stamp) [[likely]] return at;
  if (at[1].pc == pc && at[1].sp == sp && at[1].stamp == stamp) return at + 1;
  return nullptr;
}

inline void note_step(ThreadData& data, const Walk& walk, Rule rule, const Frame& frame, std::uint64_t cfa) noexcept {
  if ((frame.flags & (kExact | kGuessed | kBarrier)) != 0) return;
  if (rule.kind() != RuleKind::kSp && rule.kind() != RuleKind::kFp) return;
  KnownStep* const at = known_steps(data, frame.pc, frame.sp);
  if (at[0].pc != frame.pc || at[0].sp != frame.sp) at[1] = at[0];
  at[0] = {frame.pc,      frame.sp,     cfa, rule, stamp_of(walk.generation, data.bounds.epoch()),
           NodeId::kNone, NodeId::kNone};
}

/// What a remembered frame is known by, when its mark has changed.
constexpr std::uint64_t name_of(const FrameName& name) noexcept { return std::bit_cast<std::uint64_t>(name); }

/// Odd, so that no two numbers become one.
constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;

/// The place of (pc, sp), with nothing that was noted of another.
inline FirstReturn& first_return_for(ThreadData& data, const arch::EntryRegisters& entry,
                                     std::uint64_t slot) noexcept {
  FirstReturn& first = data.first_returns[KnownPaths::first_return_index(entry.pc, entry.sp)];
  if (first.number == 0 || first.pc != entry.pc || first.sp != entry.sp || first.slot != slot)
    first = {entry.pc, entry.sp, slot, ++data.numbers * kSpread};
  return first;
}

/// Notes `path`, of which node, steps and as many `words` are there, as the way from `entry` to the remembered frame
/// `joint`.
inline void note_path(ThreadData& data, const arch::EntryRegisters& entry, KnownPath& path, std::uint32_t words,
                      std::uint32_t joint, std::uint64_t slot, bool fp_matters) noexcept {
  const Frame& end = data.arrays->frames[joint];
  if (words == 0 || end.words == 0) return;  // find() counts on some
  const FirstReturn& first = first_return_for(data, entry, slot);
  path.first = first.number;
  path.fp = entry.fp;
  path.fp_mask = fp_matters ? ~std::uint64_t{0} : 0;
  path.joint = joint;
  path.mark = data.arrays->marks[joint];
  path.joint_sp = end.sp;
  path.joint_fp = end.fp;
  path.joint_name = name_of(end);
  if (words % 2 != 0) path.word[words] = path.word[words - 1];
  path.pairs = (words + 1) / 2;
  KnownPath* const at = data.paths + KnownPaths::path_index(first.number, load(slot));
  if (at[0].first != 0) at[1] = at[0];
  at[0] = path;
}

/// Notes the `count` steps from `entry` that were taken just now to the remembered frame `joint`.
[[gnu::noinline]] void note_steps(ThreadData& data, const arch::EntryRegisters& entry, KnownStep* const* taken,
                                  std::uint32_t count, std::uint32_t joint, NodeId node) noexcept {
  if (is_loader(entry.pc)) return;  // its events are looked at more closely
  KnownPath path;
  path.node = node;
  path.steps = count;
  bool fp_matters = false;
  State state{entry.pc, entry.sp, entry.fp, 0};
  Word* word = path.word;
  bool first_fp = true;
  for (std::uint32_t i = 0; i != count; ++i) {
    const KnownStep& known = *taken[i];
    if (word + 2 > path.word + kPathWords) return;
    if (known.rule.kind() == RuleKind::kFp) {
      fp_matters = fp_matters || first_fp;
      read_fp(state, word);
    }
    const std::uint64_t slot = known.cfa + known.rule.ra();
    *word++ = {slot, load(slot)};
    if (!known.rule.fp_is_same()) {
      state.fp = known.cfa + known.rule.fp();
      state.flags = kFpSaved;
      first_fp = false;
    }
  }
  if (first_fp && (data.arrays->frames[joint].flags & kFpIgnored) == 0) fp_matters = true;
  const auto words = static_cast<std::uint32_t>(word - path.word);
  note_path(data, entry, path, words, joint, taken[0]->cfa + taken[0]->rule.ra(), fp_matters);
}

/// The same where the stack is the remembered one.
[[gnu::noinline]] void note_top(ThreadData& data, const arch::EntryRegisters& entry) noexcept {
  const Arrays& arrays = *data.arrays;
  const Frame& top = arrays.frames[static_cast<std::int64_t>(data.length) - 1];
  if (is_loader(entry.pc) || top.barrier != 0 || top.words == (&top)[-1].words) return;
  KnownPath path;
  path.node = top.node;
  path.steps = 0;
  path.word[0] = arrays.words[top.words - 1];
  note_path(data, entry, path, 1, data.length - 1, path.word[0].address, (top.flags & kFpIgnored) == 0);
}

/// As KnownPaths::find, when remembered frames were remembered anew, and may be the same.
[[gnu::noinline]] const KnownPath* find_path(ThreadData& data, const arch::EntryRegisters& entry) noexcept {
  const FirstReturn& first = data.first_returns[KnownPaths::first_return_index(entry.pc, entry.sp)];
  if (first.number == 0 || first.pc != entry.pc || first.sp != entry.sp) return nullptr;
  KnownPath* path = data.paths + KnownPaths::path_index(first.number, load(first.slot));
  for (const KnownPath* const end = path + 2; path != end; ++path) {
    if (path->first != first.number || !path->begins_so(entry) || path->joint >= data.length) continue;
    // Node, module and flags tell the program counter.
    const Frame& joint = data.arrays->frames[path->joint];
    if (joint.sp != path->joint_sp || joint.fp != path->joint_fp || name_of(joint) != path->joint_name ||
        joint.barrier != 0)
      continue;
    path->mark = data.arrays->marks[path->joint];
    return data.stand(joint.words) ? path : nullptr;
  }
  return nullptr;
}

struct Walked {
  std::uint32_t kept;   ///< remembered frames, from the outermost, that still stand
  std::uint32_t fresh;  ///< frames inside of those, in arrays->fresh
  std::uint32_t fresh_words;
};

/// Walks from walk.state until the outermost frame, or until what is left is verified. `candidates`:
/// remembered frames that may be used.
inline Walked walk_stack(ThreadData& data, Walk& walk, std::uint32_t candidates) noexcept {
  Arrays* arrays = data.arrays;
  State state = walk.state;
  const Frame* top = arrays->frames + candidates - 1;
  Frame* frame = arrays->fresh;
  Word* words = arrays->fresh_words;
  const auto result = [&](std::uint32_t kept) noexcept {
    return Walked{kept, static_cast<std::uint32_t>(frame - arrays->fresh),
                  static_cast<std::uint32_t>(words - arrays->fresh_words)};
  };
  const auto have_room = [&]() noexcept {
    if (frame != arrays->fresh + arrays->capacity) [[likely]] return true;
    const auto count = static_cast<std::uint32_t>(frame - arrays->fresh);
    const auto used = static_cast<std::uint32_t>(words - arrays->fresh_words);
    const std::int64_t candidate = top - arrays->frames;
    if (count >= kMaxFrames || !grow(data, count, used)) {
      walk.reason = count >= kMaxFrames ? Truncation::kMaxDepth : Truncation::kNoMemory;
      frame[-1].flags |= kBarrier;
      return false;
    }
    arrays = data.arrays;
    frame = arrays->fresh + count;
    words = arrays->fresh_words + used;
    top = arrays->frames + candidate;
    return true;
  };

  for (;;) {
    while (top->sp < state.sp) --top;
    if (same_state(*top, state)) {
      const std::uint32_t again = verify(*arrays, top);
      if (again == 0) [[likely]] return result(static_cast<std::uint32_t>(top - arrays->frames) + 1);
      // The verified ones are as good as walked, but for a frame register that was ignored: as long as it is
      // handed on, it is the one at hand.
      bool same_fp = true;
      for (; top >= arrays->frames + again; --top) {
        if (!have_room()) return result(0);
        const Word* word = arrays->words + top[-1].words;
        const Word* const end = arrays->words + top->words;
        *frame = *top;
        frame->words = static_cast<std::uint32_t>(words - arrays->fresh_words);
        frame->flags &= static_cast<std::uint16_t>(~kFpIgnored);
        if (same_fp) set_fp(*frame, state);
        same_fp = same_fp && (frame->flags & kPassesFp) != 0;
        ++frame;
        while (word != end) *words++ = *word++;
      }
      state = {top->pc, top->sp, same_fp ? state.fp : top->fp,
               static_cast<std::uint16_t>((top->flags & kStateFlags & ~kFpSaved) |
                                          ((same_fp ? state.flags : top->flags) & kFpSaved))};
      --top;
    }

    if (!have_room()) [[unlikely]] return result(0);
    const Rule rule = find_rule(walk, state);
    frame->pc = state.pc;
    frame->sp = state.sp;
    frame->fp = state.fp;
    frame->words = static_cast<std::uint32_t>(words - arrays->fresh_words);
    frame->module = static_cast<std::uint16_t>(raw(rule.module()));
    frame->flags = state.flags;
    const StepResult gone = step(state, walk, rule, words, frame->flags);
    if (gone == StepResult::kCaller) [[likely]] {
      if (frame - arrays->fresh < kMaxKnownSteps) note_step(data, walk, rule, *frame, state.sp);
      ++frame;
      continue;
    }
    ++frame;
    if (gone == StepResult::kTruncated) frame[-1].flags |= kBarrier;
    return result(0);
  }
}

/// As KnownNode::pc.
constexpr std::uint64_t node_key(std::uint64_t pc, unsigned flags) noexcept {
  return pc | static_cast<std::uint64_t>(flags & (kExact | kGuessed | kWhole)) << kFlagShift;
}

/// The two places for a node, the second of them for the one that came before.
inline KnownNode* known_nodes(ThreadData& data, std::uint64_t key, NodeId parent) noexcept {
  const std::uint64_t hash = (key ^ std::uint64_t{raw(parent)} << 32) * 0x9e3779b97f4a7c15;
  return &data.known_nodes[(hash >> (65 - kKnownNodeBits)) * 2];
}

/// The node, if it is known; or kNone.
inline NodeId find_node(const KnownNode* at, std::uint64_t key, NodeId parent, std::uint64_t generation) noexcept {
  if (at[0].pc == key && at[0].parent == parent && at[0].generation == generation) [[likely]] return at[0].node;
  if (at[1].pc == key && at[1].parent == parent && at[1].generation == generation) return at[1].node;
  return NodeId::kNone;
}

/// The node of a frame called from `parent`.
inline NodeId intern(ThreadData& data, const Walk& walk, NodeId parent, const Frame& frame) noexcept {
  const std::uint64_t key = node_key(frame.pc, frame.flags);
  KnownNode* const at = known_nodes(data, key, parent);
  if (const NodeId node = find_node(at, key, parent, walk.generation); node != NodeId::kNone) return node;
  const NodeId node = intern(walk.definitions, parent, frame);
  at[1] = at[0];
  at[0] = {key, parent, node, walk.generation};
  return node;
}

/// Puts the walked frames behind the remembered ones that still stand, and finds the nodes of those that
/// have none. kNone: no memory, for the tree or, when the arrays are smaller than the stack, for them.
inline NodeId remember(ThreadData& data, const Walk& walk, const Walked& walked, std::uint32_t cut) noexcept {
  const std::uint32_t depth = walked.kept + walked.fresh;
  data.length = walked.kept;
  // Room for the walked frames was made as they came; for all together it may still be missing.
  if (depth > data.arrays->capacity && !grow(data, walked.fresh, walked.fresh_words)) return NodeId::kNone;
  data.length = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  Arrays& arrays = *data.arrays;

  Frame* to = arrays.frames + walked.kept;
  Word* words = arrays.words + to[-1].words;
  const std::uint64_t mark = ++data.remembered << kMarkShift;
  std::uint32_t barrier = to[-1].barrier;
  const Word* end = arrays.fresh_words + walked.fresh_words;
  for (const Frame* from = arrays.fresh + walked.fresh; from-- != arrays.fresh; ++to) {
    const Word* const begin = arrays.fresh_words + from->words;
    for (const Word* word = begin; word != end; ++word) *words++ = *word;
    end = begin;
    to->pc = from->pc;
    to->sp = from->sp;
    to->fp = from->fp;
    to->module = from->module;
    if ((from->flags & kEndsFp) != 0 || ((from->flags & kPassesFp) != 0 && (to[-1].flags & kFpIgnored) != 0))
      to->flags = from->flags | kFpIgnored;
    else
      to->flags = from->flags;
    to->words = static_cast<std::uint32_t>(words - arrays.words);
    arrays.marks[to - arrays.frames] = mark + to->words;
    if ((from->flags & kBarrier) != 0) [[unlikely]] barrier = static_cast<std::uint32_t>(to - arrays.frames) + 1;
    to->barrier = barrier;
  }

  if (walked.kept == 0) data.reason = walk.reason;
  Frame* at = arrays.frames + cut;
  Root root;
  if (cut == data.cut && walked.kept > cut) {
    at = arrays.frames + walked.kept;
    root = {at[-1].node, at[-1].path};
  } else {
    root = root_of(walk.definitions, cut != 0 ? Truncation::kMaxDepth : data.reason);
  }
  // The places of all are fetched before the first is needed.
  std::uint64_t path = root.path;
  for (Frame* frame = at; frame != to; ++frame) {
    frame->path = path = path_of(path, offset_of(*frame), frame->module, frame->flags);
    if (walk.definitions.prefetch != nullptr) walk.definitions.prefetch(path);
  }
  NodeId node = root.node;
  for (; at != to; ++at) {
    node = intern(data, walk, node, *at);
    if (node == NodeId::kNone) [[unlikely]] return node;
    at->node = node;
  }
  data.cut = cut;
  data.generation = walk.generation;
  data.epoch = data.bounds.epoch();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  data.length = depth;
  return node;
}

[[maybe_unused, gnu::noinline, noreturn]] void report_difference() noexcept {
  static constexpr char kMessage[] = "heapprof: a remembered stack is not what unwinding finds\n";
  sys::write(2, kMessage, sizeof kMessage - 1);
  __builtin_trap();
}

[[maybe_unused]] bool same_frame(const Frame& remembered, const Frame& found) noexcept {
  const bool ignored = (remembered.flags & kFpIgnored) != 0;
  const unsigned flags = kFpIgnored | (ignored ? kFpSaved : 0);
  return remembered.pc == found.pc && remembered.sp == found.sp && (ignored || remembered.fp == found.fp) &&
         ((remembered.flags ^ found.flags) & ~flags) == 0 && remembered.module == found.module;
}

/// The checking build: what is remembered must be what unwinding everything finds.
[[maybe_unused, gnu::noinline]] void check(ThreadData& data, const arch::EntryRegisters& entry,
                                           const Definitions& definitions) noexcept {
  Walk walk{{entry.pc, entry.sp, entry.fp, 0}, data.bounds, data.full, entry, definitions, data.generation};
  data.full.valid = false;
  data.bounds.begin(entry.sp);
  const Walked walked = walk_stack(data, walk, 0);
  data.epoch = data.bounds.epoch();  // all words were read again just now
  bool same = walked.fresh == data.length && walk.reason == data.reason;
  for (std::uint32_t i = 0; same && i < walked.fresh; ++i) {
    const Frame& remembered = data.arrays->frames[data.length - 1 - i];
    const Frame& found = data.arrays->fresh[i];
    same = same_frame(remembered, found);
  }
  if (!same) report_difference();
}

/// The same for a stack found by `steps` known steps to the remembered frame `joint`.
[[maybe_unused, gnu::noinline]] void check(ThreadData& data, const arch::EntryRegisters& entry,
                                           const Definitions& definitions, std::uint32_t joint, std::uint32_t steps,
                                           NodeId expected) noexcept {
  Walk walk{{entry.pc, entry.sp, entry.fp, 0}, data.bounds, data.full, entry, definitions, data.generation};
  data.full.valid = false;
  data.bounds.begin(entry.sp);
  const Walked walked = walk_stack(data, walk, 0);
  data.epoch = data.bounds.epoch();
  bool same = walked.fresh == joint + 1 + steps && walk.reason == data.reason;
  for (std::uint32_t i = 0; same && i <= joint; ++i)
    same = same_frame(data.arrays->frames[i], data.arrays->fresh[walked.fresh - 1 - i]);
  NodeId node = data.arrays->frames[joint].node;
  std::uint64_t path = data.arrays->frames[joint].path;
  for (std::uint32_t i = steps; same && i-- != 0;) {
    Frame& frame = data.arrays->fresh[i];
    frame.path = path = path_of(path, offset_of(frame), frame.module, frame.flags);
    node = intern(definitions, node, frame);
  }
  if (!same || node != expected) report_difference();
}

#ifdef HEAPPROF_CHECK_STACKS
constexpr bool kCheck = true;
#else
constexpr bool kCheck = false;
#endif

/// Whatever is not the stack of last time, or its outer part. kNone with `short_of_memory`: the arrays could not
/// grow; the caller goes on without them, and without this frame on the stack.
[[gnu::noinline]] NodeId capture_changed(ThreadData& data, const arch::EntryRegisters& entry,
                                         const Definitions& definitions, bool& short_of_memory) noexcept {
  Walk walk{{entry.pc, entry.sp, entry.fp, 0}, data.bounds, data.full, entry, definitions, generation()};
  data.full.valid = false;
  if (data.generation != walk.generation || data.epoch != data.bounds.epoch()) data.length = 0;
  const Walked walked = walk_stack(data, walk, data.length);
  const std::uint32_t depth = walked.kept + walked.fresh;
  const std::uint32_t cut = cut_of(depth, g_max_depth);
  const NodeId node = remember(data, walk, walked, cut);
  if (node == NodeId::kNone) [[unlikely]] {
    data.length = 0;
    short_of_memory = depth > data.arrays->capacity;
    return node;
  }
  if (kCheck) check(data, entry, definitions);
  if (!g_shadow_stack) data.length = 0;
  return node;
}

/// The stack from `entry`, by known steps to a remembered frame from which all stands, and known nodes; kNone when it
/// takes more. The steps are those that walking would take, each from a state met before; what is remembered is not
/// changed, but for frames that were left since.
[[gnu::noinline]] NodeId capture_known(ThreadData& data, const arch::EntryRegisters& entry,
                                                   const Definitions& definitions) noexcept {
  const Arrays& arrays = *data.arrays;
  const Frame* top = arrays.frames + data.length - 1;
  while (top->sp < entry.sp) --top;
  const auto length = static_cast<std::uint32_t>(top - arrays.frames) + 1;
  const std::uint64_t stamp = stamp_of(data.generation, data.epoch);

  State state{entry.pc, entry.sp, entry.fp, 0};
  KnownStep* taken[kMaxKnownSteps];
  std::uint32_t steps = 0;
  // Where a remembered frame is met whose outer part does not stand, it is left by a step too, and so are all up to
  // the one that does not stand.
  const Frame* sound = top + 1;
  for (;;) {
    if (top < sound && same_state(*top, state)) {
      const std::uint32_t again = verify(arrays, top);
      if (again == 0) break;
      sound = arrays.frames + again - 1;
    }
    if (steps == kMaxKnownSteps) return NodeId::kNone;
    KnownStep* const found = find_step(data, state.pc, state.sp, stamp);
    if (found == nullptr) return NodeId::kNone;
    const KnownStep& known = *found;
    if (known.rule.kind() == RuleKind::kFp) {
      if ((state.flags & kFpSaved) != 0) state.fp = load(state.fp);
      state.flags = 0;
      if (state.fp + known.rule.cfa() != known.cfa) return NodeId::kNone;
    }
    taken[steps++] = found;
    state.pc = arch::strip(load(known.cfa + known.rule.ra()));
    if (state.pc - 1 >= arch::kCodeEnd) return NodeId::kNone;
    state.sp = known.cfa;
    if (!known.rule.fp_is_same()) {
      state.fp = known.cfa + known.rule.fp();
      state.flags = kFpSaved;
    }
    while (top->sp < state.sp) --top;
  }
  const auto joint = static_cast<std::uint32_t>(top - arrays.frames);
  if (joint + 1 + steps > g_max_depth) return NodeId::kNone;
  NodeId node = top->node;
  std::uint64_t paths[kMaxKnownSteps];
  bool have_paths = false;
  for (std::uint32_t i = steps; i-- != 0;) {
    KnownStep& step = *taken[i];
    if (step.parent != node || step.node == NodeId::kNone) {
      KnownNode* const at = known_nodes(data, step.pc, node);
      NodeId found = find_node(at, step.pc, node, data.generation);
      if (found == NodeId::kNone) {
        if (!have_paths) {
          std::uint64_t path = top->path;
          for (std::uint32_t j = steps; j-- != 0;) {
            paths[j] = path = path_of(path, offset_of(*taken[j]), raw(taken[j]->rule.module()), 0);
            if (definitions.prefetch != nullptr) definitions.prefetch(path);
          }
          have_paths = true;
        }
        found = step.pc == g_hidden_pc ? node : definitions.intern(definitions.context, node, step.rule.module(),
                                                                   offset_of(step), 0, paths[i]);
        if (found == NodeId::kNone) [[unlikely]] return found;
        at[1] = at[0];
        at[0] = {step.pc, node, found, data.generation};
      }
      step.parent = node;
      step.node = found;
    }
    node = step.node;
  }
  data.length = length;
  if (steps != 0 && top->barrier == 0) note_steps(data, entry, taken, steps, joint, node);
  if (kCheck) check(data, entry, definitions, joint, steps, node);  // takes known steps itself
  return node;
}

}  // namespace

namespace {

/// What is remembered can be believed where the bounds are now.
inline bool still_good(const ThreadData& data) noexcept {
  return data.generation == generation() && data.epoch == data.bounds.epoch() && data.cut == 0;
}

/// Paths that were noted with another stamp do not hold.
inline void drop_old_paths(ThreadData& data) noexcept {
  const std::uint64_t stamp = stamp_of(data.generation, data.epoch);
  if (data.path_stamp == stamp) [[likely]] return;
  for (FirstReturn& first : data.first_returns) first = {};
  data.path_stamp = stamp;
}

/// The stack that is remembered, or a known path to it.
inline NodeId find_remembered(ThreadData& data, const arch::EntryRegisters& entry,
                              const Definitions& definitions) noexcept {
  drop_old_paths(data);
  const Frame& top = data.arrays->frames[static_cast<std::int64_t>(data.length) - 1];
  if (same_state(top, {entry.pc, entry.sp, entry.fp, 0}) && top.barrier == 0 && top.words != 0 &&
      data.stand(top.words)) {
    note_top(data, entry);
    if (kCheck) check(data, entry, definitions, data.length - 1, 0, top.node);
    return top.node;
  }
  if (const KnownPath* const path = find_path(data, entry)) {
    if (kCheck) check(data, entry, definitions, path->joint, path->steps, path->node);
    return path->node;
  }
  return NodeId::kNone;
}

/// What is remembered now holds while the world is what it was before the capture.
inline void hold_until_change(ThreadData& data, std::uint64_t world) noexcept {
  if (!still_good(data) || !data.bounds.at_beginning()) return;
  drop_old_paths(data);
  data.first_sp = data.bounds.first_sp();
  data.sp_bytes = data.bounds.bytes();
  data.words = data.arrays->words;
  data.marks = data.arrays->marks;
  data.world = world;
}

}  // namespace

NodeId ThreadUnwinder::capture_anew(const arch::EntryRegisters& entry, const Definitions& definitions) noexcept {
  if (paths_ == nullptr) [[unlikely]] {
    paths_ = make_data();
    if (paths_ == nullptr) return capture_short(entry, definitions, Truncation::kNoMemory);
  }
  auto& data = static_cast<ThreadData&>(*paths_);
  const std::uint64_t world = detail::world.load(std::memory_order_acquire);
  data.world = kNoWorld;
  data.bounds.begin(entry.sp);
  NodeId node = NodeId::kNone;
  if (still_good(data)) [[likely]] {
    data.words = data.arrays->words;
    node = find_remembered(data, entry, definitions);
    if (node == NodeId::kNone) node = capture_known(data, entry, definitions);
  }
  if (node == NodeId::kNone) {
    bool short_of_memory = false;
    node = capture_changed(data, entry, definitions, short_of_memory);
    if (short_of_memory) return capture_short(entry, definitions, Truncation::kNoMemory);
  }
  hold_until_change(data, world);
  return node;
}

#ifdef HEAPPROF_CHECK_STACKS
void check_path(KnownPaths& paths, const arch::EntryRegisters& entry, const Definitions& definitions,
                const KnownPath& path) noexcept {
  auto& data = static_cast<ThreadData&>(paths);
  const std::uint32_t epoch = data.epoch;
  check(data, entry, definitions, path.joint, path.steps, path.node);
  if (data.epoch != epoch || data.words != data.arrays->words) data.world = kNoWorld;
}
#endif

void ThreadUnwinder::thread_changed() noexcept {
  if (paths_ == nullptr) return;
  auto& data = static_cast<ThreadData&>(*paths_);
  data.world = kNoWorld;
  data.length = 0;
  data.bounds.forget();
}

void ThreadUnwinder::recover_abandoned_capture() noexcept {
  if (paths_ == nullptr) return;
  thread_changed();
  auto& data = static_cast<ThreadData&>(*paths_);
  for (KnownStep& step : data.known_steps) step = KnownStep{};
  for (KnownNode& node : data.known_nodes) node = KnownNode{};
  for (FirstReturn& first : data.first_returns) first = {};
}

std::size_t ThreadUnwinder::memory_bytes() const noexcept {
  return paths_ == nullptr ? 0 : kFirstMapping + static_cast<const ThreadData&>(*paths_).arrays->mapped;
}

namespace {

NodeId capture_short(const arch::EntryRegisters& entry, const Definitions& definitions, Truncation reason) noexcept {
  StackBounds bounds{};
  FullFrame full;
  full.valid = false;
  Walk walk{{entry.pc, entry.sp, entry.fp, 0}, bounds, full, entry, definitions, generation()};
  bounds.begin(entry.sp);
  // Program counters with their flags above (addresses have 57 bits at most); their modules are in the rules.
  std::uint64_t frames[kShortFrames];
  std::uint32_t count = 0;
  StepResult result = StepResult::kCaller;
  for (; count < kShortFrames && result == StepResult::kCaller; ++count) {
    const Rule rule = find_rule(walk, walk.state);
    const std::uint64_t pc = walk.state.pc;
    std::uint16_t flags = walk.state.flags;
    Word words[kWordsPerFrame];
    Word* unused = words;
    result = step(walk.state, walk, rule, unused, flags);
    frames[count] = pc | std::uint64_t{flags} << kFlagShift;
  }
  if (result == StepResult::kCaller) walk.reason = reason;
  auto [node, path] = root_of(definitions, walk.reason);
  while (count != 0) {
    const std::uint64_t packed = frames[--count];
    Frame frame{};
    frame.pc = packed & ((std::uint64_t{1} << kFlagShift) - 1);
    frame.flags = static_cast<std::uint16_t>(packed >> kFlagShift);
    const State state{frame.pc, 0, 0, static_cast<std::uint16_t>(frame.flags & kStateFlags)};
    frame.module = static_cast<std::uint16_t>(raw(find_rule(walk, state).module()));
    frame.path = path = path_of(path, offset_of(frame), frame.module, frame.flags);
    node = intern(definitions, node, frame);
    if (node == NodeId::kNone) break;
  }
  return node;
}

}  // namespace

NodeId capture_nested(const arch::EntryRegisters& entry, const Definitions& definitions) noexcept {
  return capture_short(entry, definitions, Truncation::kNested);
}

bool start(const Settings& settings) noexcept {
  g_max_depth = settings.max_depth == 0 ? 1 : settings.max_depth;
  g_shadow_stack = settings.shadow_stack;
  start_probing();
  start_modules();
  return g_rules.start();
}

void loader_activity() noexcept { raise_generation(); }

void invalidate_stack_region(std::uint64_t, std::uint64_t) noexcept { forget_foreign_stacks(); }

void restart_in_child() noexcept {
  announce_all_again();
  raise_generation();
}

void hide_frame(std::uint64_t pc) noexcept { g_hidden_pc = pc; }

}  // namespace heapprof::unwind
