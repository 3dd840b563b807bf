#include "preload/unwind/cached_paths.h"

#include "preload/unwind/thread_data.h"

namespace heapprof::unwind {

namespace {

/// Ids are multiples of an odd number: all differ, and their lower 32 bits are well distributed.
constexpr std::uint64_t kIdStep = 0x9e3779b97f4a7c15;

/// Returns the entry for the beginning of the stack. Replaces the entry of another stack at this index.
FirstReturn& first_return_for(ThreadData& data, const arch::EntryRegisters& entry, std::uint64_t slot) noexcept {
  FirstReturn& first = data.first_returns[CachedPaths::first_return_index(entry)];
  if (first.id == 0 || first.pc != entry.pc || first.sp != entry.sp || first.slot != slot)
    first = {entry.pc, entry.sp, slot, ++data.first_returns_used * kIdStep};
  return first;
}

/// Adds `path`, in which node, steps and the first `words` words are set, as the path from `entry` to `anchor`.
/// `slot`: of the first return address.
void add_path(ThreadData& data, const arch::EntryRegisters& entry, CachedPath& path, std::uint32_t words,
              std::uint32_t anchor, std::uint64_t slot, bool fp_matters) noexcept {
  const Frame& frame = data.arrays->frames[anchor];
  if (words == 0 || frame.words == 0) return;  // find() requires both not to be 0
  const FirstReturn& first = first_return_for(data, entry, slot);
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
  std::uint64_t value = load_word(slot);
  for (std::uint32_t place = 0;;) {
    CachedPath* const places = data.places_of(first.id, value, place);
    CachedPath* const at = CachedPaths::path_at(places, first.id);
    if (at == nullptr) {
      if (places[0].first_return != 0) places[1] = places[0];
      places[0] = path;
      return;
    }
    const StackWord* const different = at->first_difference(entry);
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
  add_path(data, entry, path, words, anchor, first_slot, fp_matters);
}

[[gnu::noinline]] void cache_path_of_shadow_stack(ThreadData& data, const arch::EntryRegisters& entry) noexcept {
  const FrameArrays& arrays = *data.arrays;
  const Frame& top = arrays.frames[static_cast<std::int64_t>(data.length) - 1];
  if (is_loader(entry.pc) || top.barrier != 0 || top.words == (&top)[-1].words) return;
  CachedPath path;
  path.node = top.node;
  path.steps = 0;
  path.words[0] = arrays.words[top.words - 1];
  add_path(data, entry, path, 1, data.length - 1, path.words[0].address, (top.flags & kFpUnused) == 0);
}

namespace {

/// Returns the path that matches, if it is not at the first place, where find() has looked; else null.
inline CachedPath* find_at_other_places(ThreadData& data, const arch::EntryRegisters& entry,
                                        const FirstReturn& first) noexcept {
  std::uint64_t value = load_word(first.slot);
  for (std::uint32_t place = 0;;) {
    CachedPath* const path = CachedPaths::path_at(data.places_of(first.id, value, place), first.id);
    if (path == nullptr) return nullptr;
    const StackWord* const different = path->first_difference(entry);
    if (different == nullptr) return path;
    if (++place == kPathPlaces) return nullptr;
    value = load_word(different->address);
  }
}

}  // namespace

[[gnu::noinline]] const CachedPath* find_path_slow(ThreadData& data, const arch::EntryRegisters& entry) noexcept {
  CachedPath* path = data.unanchored;
  data.unanchored = nullptr;
  const FirstReturn& first = data.first_returns[CachedPaths::first_return_index(entry)];
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
