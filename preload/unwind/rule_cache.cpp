#include "preload/unwind/rule_cache.h"

#include "preload/sys/kernel.h"

namespace heapprof::unwind {

bool RuleCache::start() noexcept {
  if (entries_ == nullptr) entries_ = static_cast<Entry*>(sys::map_private(kBytes));
  return entries_ != nullptr;
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
