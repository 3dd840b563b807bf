#include "preload/unwind/cached_paths.h"

#include "preload/sys/kernel.h"
#include "preload/unwind/thread_data.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::unwind {

namespace {

/// Ids are multiples of an odd number: all differ, and their lower 32 bits are well distributed.
constexpr std::uint64_t kIdStep = 0x9e3779b97f4a7c15;

/// Returns the entry for the beginning of the stack, replacing that of another stack at this index; null if there can
/// be none. `slot`: the address of the first return address.
FirstReturn* first_return_for(ThreadData& data, const arch::EntryRegisters& entry, std::uint64_t slot) noexcept {
  const std::uint64_t distance = slot - to_address(entry.sp);
  const auto stored = static_cast<std::uint32_t>(distance);
  if (stored != distance) return nullptr;
  const std::size_t index = CachedPaths::first_return_index(entry);
  FirstReturn& first = data.first_returns[index];
  if (first.id == 0 || first.pc != entry.pc || first.sp != entry.sp || first.slot != stored) {
    // A thread with this many will probably touch all pages of the cached paths, each of them twice, since a place is
    // read before it is written.
    constexpr std::uint64_t kFewFirstReturns = 16;
    if (++data.first_returns_used == kFewFirstReturns)
      sys::populate(data.first_returns, sizeof data.first_returns + sizeof data.paths);
    first = {entry.pc, entry.sp, stored, stored, data.first_returns_used * kIdStep};
    data.context_changes[index] = {};
  }
  return &first;
}

constexpr std::uint16_t kMaxContextChanges = 7;

/// All paths of `first` are then at other places, and find() misses each of them once. So with each change, the
/// number of misses after which the context word may change again is four times as high.
void change_context(FirstReturn& first, ContextChanges& changes, std::uint32_t context) noexcept {
  first.context = context;
  changes.misses = 0;
  if (changes.changes != kMaxContextChanges) ++changes.changes;
}

/// Call it when find() has missed the path of a stack because the path that it found differs from the stack in the
/// word at `address`. Makes this the context word if that happened often enough, and returns whether it has done so.
/// The steps of the stack read this word, too: all words before it, and so all steps before it, are the same.
bool count_miss(ThreadData& data, FirstReturn& first, std::uint64_t address) noexcept {
  const std::uint64_t distance = address - to_address(first.sp);
  const auto context = static_cast<std::uint32_t>(distance);
  // With another first return address or the same context word, two keys have one hash.
  if (context != distance || context == first.slot || context == first.context) return false;
  ContextChanges& changes = data.context_changes[&first - data.first_returns];
  unsigned needed = changes.changes;
  if (changes.limit != 0 && context >= changes.limit) {
    // Other stacks would probably not read the word.
    if (first.context != first.slot) return false;
    needed = kMaxContextChanges;
  }
  ++changes.misses;
  if (std::uint32_t{changes.misses} < std::uint32_t{1} << (2 * needed)) return false;
  change_context(first, changes, context);
  return true;
}

/// Call it when a stack does not read the context word. With another caller, that may be a variable with another
/// value at each event, and no path of the stack would be found again.
void drop_context(ThreadData& data, FirstReturn& first) noexcept {
  ContextChanges& changes = data.context_changes[&first - data.first_returns];
  if (changes.limit == 0 || first.context < changes.limit) changes.limit = first.context;
  change_context(first, changes, first.slot);
}

/// Returns whether the steps of a stack read the word at `address`. It has `words` words in `path`, and then those of
/// the shadow stack before the index `end`, of which a few are searched.
bool reads_word(const ThreadData& data, const CachedPath& path, std::uint32_t words, std::uint32_t end,
                std::uint64_t address) noexcept {
  for (std::uint32_t i = 0; i != words; ++i)
    if (path.words[i].address == address) return true;
  for (std::uint32_t i = 0; i != kPathWords && i != end; ++i)
    if (data.arrays->words[end - 1 - i].address == address) return true;
  return false;
}

/// Whether find_path_slow() has counted that find() missed the stack whose path is added.
enum class Miss : bool {
  kNotCounted,
  kCounted,
};

/// Adds `path`, in which node, steps and the first `words` words are set, as the path from `entry` to `anchor`.
/// `slot`: of the first return address.
void add_path(ThreadData& data, const arch::EntryRegisters& entry, CachedPath& path, std::uint32_t words,
              std::uint32_t anchor, std::uint64_t slot, bool fp_matters, Miss miss) noexcept {
  const Frame& frame = data.arrays->frames[anchor];
  if (words == 0 || frame.words == 0) return;  // find() requires both not to be 0
  FirstReturn* const found = first_return_for(data, entry, slot);
  if (found == nullptr) return;
  FirstReturn& first = *found;
  if (first.context != first.slot &&
      !reads_word(data, path, words, frame.words, to_address(first.sp) + first.context))
    drop_context(data, first);
  path.first_return = first.id;
  path.fp = entry.fp;
  path.fp_mask = fp_matters ? ~std::uint64_t{0} : 0;
  path.anchor = anchor;
  path.prefix_version = data.arrays->prefix_versions[anchor];
  path.anchor_sp = frame.sp;
  path.anchor_fp = frame.fp;
  path.anchor_identity = frame.bits();
  if (words % 2 != 0) path.words[words] = path.words[words - 1];
  path.word_pairs = (words + 1) / 2;
  // A path with the same words leads to a frame that the shadow stack no longer has, and is replaced.
  std::uint64_t value = CachedPaths::value_of(first, entry.sp);
  for (std::uint32_t place = 0;;) {
    CachedPath* const places = data.places_of(first.id, value, place);
    CachedPath* const at = CachedPaths::path_at(places, first.id);
    if (at == nullptr) {
      if (places[0].first_return != 0) places[1] = places[0];
      places[0] = path;
      return;
    }
    const StackWord* const different = at->first_difference(entry);
    if (place == 0 && miss == Miss::kNotCounted && different != nullptr &&
        count_miss(data, first, different->address)) {
      value = CachedPaths::value_of(first, entry.sp);
      continue;
    }
    if (different == nullptr || ++place == kPathPlaces) {
      *at = path;
      return;
    }
    value = load_word(different->address);
  }
}

}  // namespace

[[gnu::noinline]] void cache_path_of_steps(ThreadData& data, const arch::EntryRegisters& entry,
                                           CachedStep* const* steps, std::uint32_t count, std::uint32_t anchor,
                                           NodeId node) noexcept {
  // Events of the loader must not take the fast path: they raise the module generation.
  if (is_loader(entry.pc)) return;
  CachedPath path;
  path.node = node;
  path.steps = count;
  State state = entry_state(entry);
  StackWord* word = path.words;
  bool entry_fp = true;  // state.fp is still entry.fp
  bool fp_matters = false;
  for (std::uint32_t i = 0; i != count; ++i) {
    const CachedStep& step = *steps[i];
    if (word + 2 > path.words + kPathWords) return;
    if (step.rule.kind() == RuleKind::kFp) {
      fp_matters = fp_matters || entry_fp;
      read_fp(state, word);
    }
    const std::uint64_t slot = to_address(step.cfa) + step.rule.ra_offset();
    *word++ = {slot, load_word(slot)};
    if (!step.rule.fp_unchanged()) {
      state.fp = to_address(step.cfa) + step.rule.fp_offset();
      state.flags = kFpIsSlot;
      entry_fp = false;
    }
  }
  if (entry_fp && (data.arrays->frames[anchor].flags & kFpUnused) == 0) fp_matters = true;
  const auto words = static_cast<std::uint32_t>(word - path.words);
  const std::uint64_t first_slot = to_address(steps[0]->cfa) + steps[0]->rule.ra_offset();
  add_path(data, entry, path, words, anchor, first_slot, fp_matters, Miss::kCounted);
}

[[gnu::noinline]] void cache_path_of_shadow_stack(ThreadData& data, const arch::EntryRegisters& entry) noexcept {
  const FrameArrays& arrays = *data.arrays;
  const Frame& top = arrays.frames[static_cast<std::int64_t>(data.length) - 1];
  if (is_loader(entry.pc) || top.barrier != 0 || top.words == (&top)[-1].words) return;
  CachedPath path;
  path.node = top.node;
  path.steps = 0;
  path.words[0] = arrays.words[top.words - 1];
  const bool fp_matters = (top.flags & kFpUnused) == 0;
  add_path(data, entry, path, 1, data.length - 1, path.words[0].address, fp_matters, Miss::kNotCounted);
}

namespace {

/// Returns the path that matches, if it is not at the first place, where find() has looked; else null.
inline CachedPath* find_at_other_places(ThreadData& data, const arch::EntryRegisters& entry,
                                        FirstReturn& first) noexcept {
  std::uint64_t value = CachedPaths::value_of(first, entry.sp);
  for (std::uint32_t place = 0;;) {
    CachedPath* const path = CachedPaths::path_at(data.places_of(first.id, value, place), first.id);
    if (path == nullptr) return nullptr;
    const StackWord* const different = path->first_difference(entry);
    if (different == nullptr) return path;
    if (place == 0) count_miss(data, first, different->address);
    if (++place == kPathPlaces) return nullptr;
    value = load_word(different->address);
  }
}

}  // namespace

[[gnu::noinline]] const CachedPath* find_path_slow(ThreadData& data, const arch::EntryRegisters& entry) noexcept {
  CachedPath* path = data.unanchored;
  data.unanchored = nullptr;
  FirstReturn& first = data.first_returns[CachedPaths::first_return_index(entry)];
  if (first.id == 0 || first.pc != entry.pc || first.sp != entry.sp) return nullptr;
  if (path == nullptr) path = find_at_other_places(data, entry, first);
  else if (first.id != path->first_return || path->first_difference(entry) != nullptr) return nullptr;
  if (path == nullptr || path->anchor >= data.length) return nullptr;
  const Frame& anchor = data.arrays->frames[path->anchor];
  const std::uint64_t version = data.arrays->prefix_versions[path->anchor];
  // The program counter needs no comparison: node, module and flags determine it.
  if (path->prefix_version != version && (anchor.sp != path->anchor_sp || anchor.fp != path->anchor_fp ||
                                          anchor.bits() != path->anchor_identity || anchor.barrier != 0))
    return nullptr;
  path->prefix_version = version;
  return data.words_unchanged(anchor.words) ? path : nullptr;
}

}  // namespace heapprof::unwind
