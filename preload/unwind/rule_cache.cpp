#include "preload/unwind/rule_cache.h"

#include "preload/sys/kernel.h"

namespace heapprof::unwind {

bool RuleCache::start() noexcept {
  if (entries_ != nullptr) return true;
  entries_ = static_cast<Entry*>(sys::map_private(kBytes));
  if (entries_ == nullptr) return false;
  sys::populate(entries_, kFirstPages * kPageEntries * sizeof(Entry));
  return true;
}

void RuleCache::store(FrameAddress address, Rule rule) noexcept {
  if (!has_had(rule.module())) modules_.fetch_or(bit_of(rule.module()), std::memory_order_relaxed);
  if (stored_.load(std::memory_order_relaxed) < kFewRules &&
      stored_.fetch_add(1, std::memory_order_relaxed) == kFewRules - 1)
    use_all_pages();
  put(address, rule, last_page_.load(std::memory_order_relaxed));
}

void RuleCache::put(FrameAddress address, Rule rule, std::uint64_t last_page) noexcept {
  const std::uint64_t key = key_of(address);
  const std::size_t place = first_of_set(address, last_page);
  Entry* const set = entries_ + place;
  const std::uint64_t first = set[0].rule.load(std::memory_order_relaxed);
  const std::uint64_t check = set[0].check.load(std::memory_order_relaxed);
  const bool is_same = (first ^ check) == key;
  if (rule.module() == ModuleId::kAnonymous) {
    if (is_same) set[0].rule.store(0, std::memory_order_relaxed);  // of a module that was unloaded
    // Another thread may choose the other place at the same time. Both entries are then this rule.
    Entry& other = entries_[other_place(place)];
    Entry& entry = has_other_anonymous(set[1], key) && !has_other_anonymous(other, key) ? other : set[1];
    // The check first: that of a removed rule is still there, and beside an equal rule it would be valid again.
    entry.check.store(rule.bits() ^ key, std::memory_order_relaxed);
    entry.rule.store(rule.bits(), std::memory_order_release);
    return;
  }
  if (first != 0 && !is_same) {
    set[1].rule.store(first, std::memory_order_relaxed);
    set[1].check.store(check, std::memory_order_relaxed);
  }
  set[0].rule.store(rule.bits(), std::memory_order_relaxed);
  set[0].check.store(rule.bits() ^ key, std::memory_order_relaxed);
}

/// Copies the rules to their places among all pages. One that is not copied, because another thread stores it
/// meanwhile, or a signal handler leaves by longjmp, is missing and is stored again. Not copied are rules of code
/// without a module, because another thread may have begun to remove these, and entries whose address belongs to
/// another set: they are copies, or half-written.
void RuleCache::use_all_pages() noexcept {
  // First, because this function is called once: a signal handler may leave by longjmp while the pages are faulted
  // in, and the child of another thread's fork continues with what is stored here.
  last_page_.store(kPages - 1, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  sys::populate(entries_, kBytes);
  for (std::size_t i = 0; i < kFirstPages * kPageEntries; ++i) {
    const Rule rule{entries_[i].rule.load(std::memory_order_relaxed)};
    if (rule.kind() == RuleKind::kNone || rule.module() == ModuleId::kAnonymous) continue;
    const std::uint64_t key = entries_[i].check.load(std::memory_order_relaxed) ^ rule.bits();
    const FrameAddress address{ProgramCounter{key >> 1}, (key & 1) != 0};
    if (first_of_set(address, kFirstPages - 1) != i / 2 * 2 || first_of_set(address, kPages - 1) == i / 2 * 2)
      continue;
    put(address, rule, kPages - 1);
  }
}

/// All loads may be relaxed, also on a processor that reorders them. Code is deregistered after it has left all
/// stacks, and then the generation is raised, which the caller has read (acquire). So a thread that stored a rule of
/// that code has done so before this call (happens-before), and by the coherence of each atomic object, these loads
/// return what it stored or read, or something later: its rule, the bit of the module, the last page. A rule that a
/// thread stores during this call is one of code that is on its stack, and may stay.
void RuleCache::remove(ModuleId module) noexcept {
  if (!has_had(module)) return;
  const std::size_t end = (last_page_.load(std::memory_order_relaxed) + 1) * kPageEntries;
  for (std::size_t i = 0; i < end; ++i) {
    const Rule rule{entries_[i].rule.load(std::memory_order_relaxed)};
    if (rule.kind() != RuleKind::kNone && rule.module() == module)
      entries_[i].rule.store(0, std::memory_order_relaxed);
  }
}

}  // namespace heapprof::unwind
