#include "preload/unwind/rule_cache.h"

#include "preload/sys/kernel.h"

namespace heapprof::unwind {

bool RuleCache::start() noexcept {
  if (entries_ == nullptr) entries_ = static_cast<Entry*>(sys::map_private(kBytes));
  return entries_ != nullptr;
}

void RuleCache::store(FrameAddress address, Rule rule) noexcept {
  const std::uint64_t bit = bit_of(rule.module());
  if ((modules_.load(std::memory_order_relaxed) & bit) == 0) modules_.fetch_or(bit, std::memory_order_relaxed);
  if (stored_.load(std::memory_order_relaxed) < kFewRules &&
      stored_.fetch_add(1, std::memory_order_relaxed) == kFewRules - 1)
    sys::populate(entries_, kBytes);
  const std::uint64_t key = key_of(address);
  Entry* const set = entries_ + first_of_set(address);
  const std::uint64_t first = set[0].rule.load(std::memory_order_relaxed);
  const std::uint64_t check = set[0].check.load(std::memory_order_relaxed);
  if (first != 0 && (first ^ check) != key) {
    set[1].rule.store(first, std::memory_order_relaxed);
    set[1].check.store(check, std::memory_order_relaxed);
  }
  set[0].rule.store(rule.bits(), std::memory_order_relaxed);
  set[0].check.store(rule.bits() ^ key, std::memory_order_relaxed);
}

void RuleCache::remove(ModuleId module) noexcept {
  if ((modules_.load(std::memory_order_relaxed) & bit_of(module)) == 0) return;
  for (std::size_t i = 0; i < kEntries; ++i) {
    const Rule rule{entries_[i].rule.load(std::memory_order_relaxed)};
    if (rule.kind() != RuleKind::kNone && rule.module() == module)
      entries_[i].rule.store(0, std::memory_order_relaxed);
  }
}

}  // namespace heapprof::unwind
