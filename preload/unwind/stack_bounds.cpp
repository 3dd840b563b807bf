#include "preload/unwind/stack_bounds.h"

#include <sys/auxv.h>
#include <sys/uio.h>

#include "preload/sys/kernel.h"
#include "preload/unwind/invalidation.h"

extern "C" {
[[gnu::weak]] extern void* __libc_stack_end;  // ld.so, GLIBC_2.2.5: the stack pointer of the main thread at its start
}

namespace heapprof::unwind {

namespace detail {
constinit std::atomic<std::uint32_t> foreign_stack_invalidations{0};
}

namespace {

constexpr std::uint64_t kPage = 4096;
/// The largest distance over which a range is extended: the local variables of one frame.
constexpr std::uint64_t kMaxGrowth = 64u << 20;
/// The largest distance below a foreign stack's range at which an address counts as part of that stack.
constexpr std::uint64_t kMaxForeignGrowth = 1u << 20;

constexpr std::uint64_t kNoLimit = ~std::uint64_t{7};

constexpr std::uint64_t page_of(std::uint64_t address) noexcept { return address & ~(kPage - 1); }

enum class Probe : std::uint8_t { kNone, kSignalMask, kReadSelf };
constinit std::atomic<Probe> g_probe{Probe::kNone};

constexpr long kInvalid = -22;  // EINVAL

bool probe_with(Probe kind, std::uint64_t address) noexcept {
  if (kind == Probe::kSignalMask) {
    // Linux copies the set before it checks `how` (kernel/signal.c, rt_sigprocmask).
    return sys::call(SYS_rt_sigprocmask, -1, static_cast<long>(address), 0, 8) == kInvalid;
  }
  if (kind == Probe::kReadSelf) {
    std::uint64_t word;
    const iovec to{&word, 8};
    const iovec from{reinterpret_cast<void*>(address), 8};
    return sys::call(SYS_process_vm_readv, sys::process_id(), sys::word(&to), 1, sys::word(&from), 1, 0) == 8;
  }
  return false;
}

/// Returns the top of the calling thread's own stack; 0: unknown.
std::uint64_t own_stack_top() noexcept {
  // The main thread's thread pointer points to memory between libraries, not to its stack. If it were used as the
  // top, a capture on an alternate stack below it would probe thousands of pages that are no stack.
  const bool main_thread = sys::thread_id() == sys::process_id();
  // musl lacks __libc_stack_end. The kernel puts AT_RANDOM's bytes above everything else on the stack at the start.
  return !main_thread                   ? arch::thread_pointer()
         : &__libc_stack_end == nullptr ? getauxval(AT_RANDOM)
                                        : reinterpret_cast<std::uint64_t>(__libc_stack_end);
}

}  // namespace

void start_probing() noexcept {
  // An emulator may check `how` first, so a probe is used only if it distinguishes a page that is not readable.
  void* page = sys::map(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (sys::failed(page)) return;
  const auto bad = reinterpret_cast<std::uint64_t>(page);
  const auto good = reinterpret_cast<std::uint64_t>(&page);
  for (const Probe kind : {Probe::kSignalMask, Probe::kReadSelf}) {
    if (probe_with(kind, page_of(good)) && !probe_with(kind, bad)) {
      g_probe.store(kind, std::memory_order_relaxed);
      break;
    }
  }
  sys::unmap(page, kPage);
}

void invalidate_foreign_stacks() noexcept {
  detail::foreign_stack_invalidations.fetch_add(1, std::memory_order_relaxed);
  raise_invalidation_epoch();
}

bool probe(std::uint64_t address) noexcept { return probe_with(g_probe.load(std::memory_order_relaxed), address); }

std::uint64_t own_stack_end() noexcept { return own_stack_top(); }

bool on_own_stack(std::uint64_t address, std::uint64_t higher) noexcept {
  const std::uint64_t top = own_stack_top();
  if (address >= top || higher >= top || top - address > kMaxGrowth) return false;
  for (std::uint64_t page = page_of(address); page < top; page += kPage)
    if (!probe(page)) return false;
  return true;
}

/// Extends the range upwards to `address`. Returns false when a page on the way is not readable.
bool StackBounds::extend(Range& range, std::uint64_t address) noexcept {
  if (address >= range.limit || (address > range.high && address - range.high > kMaxGrowth)) return false;
  while (range.high <= address) {
    if (!probe(range.high)) {
      range.limit = range.high;
      return false;
    }
    const std::uint64_t next = range.high + kPage;
    range.high = next < range.limit ? next : range.limit;
  }
  return true;
}

bool StackBounds::grow(std::uint64_t address) noexcept {
  Range& range = ranges_[current_];
  const bool readable = address >= range.high && extend(range, address);
  select(current_);
  return readable;
}

/// Makes current the range that holds `address`, or that can be extended downwards to it.
bool StackBounds::find(std::uint64_t address) noexcept {
  for (unsigned i = 0; i < kRanges; ++i) {
    if (address - ranges_[i].low < ranges_[i].high - ranges_[i].low) {
      select(i);
      return true;
    }
  }
  const std::uint64_t page = page_of(address);
  for (unsigned i = 0; i < kRanges; ++i) {
    Range& range = ranges_[i];
    if (range.high == 0 || page >= range.low || range.low - page > (range.own ? kMaxGrowth : kMaxForeignGrowth))
      continue;
    std::uint64_t low = range.low;
    while (low > page && probe(low - kPage)) low -= kPage;
    if (low > page) continue;
    range.low = low;
    select(i);
    return true;
  }
  return false;
}

/// Adds a range around `address`, whose page is readable, and makes it current.
void StackBounds::add(std::uint64_t address) noexcept {
  victim_ = (victim_ + 1) % kRanges;
  if (ranges_[victim_].own) victim_ = (victim_ + 1) % kRanges;
  ++version_;
  const std::uint64_t page = page_of(address);
  Range fresh{page, page + kPage, kNoLimit, false};
  const std::uint64_t top = own_stack_top();
  if (top > address && top - address <= kMaxGrowth) {
    Range own{fresh.low, fresh.high, top & ~std::uint64_t{7}, true};
    if (own.high > own.limit) own.high = own.limit;
    if (extend(own, own.limit - 8)) fresh = own;
  }
  ranges_[victim_] = fresh;
  select(victim_);
}

/// Reduces the current range to the page of `address`, which is readable.
void StackBounds::restart_range(std::uint64_t address) noexcept {
  ++version_;
  const std::uint64_t page = page_of(address);
  ranges_[current_] = {page, page + kPage, kNoLimit, false};
  select(current_);
}

void StackBounds::begin_elsewhere(std::uint64_t sp) noexcept {
  if (seen_invalidations_ != invalidations()) {
    seen_invalidations_ = invalidations();
    for (Range& range : ranges_) {
      if (range.own || range.high == 0) continue;
      range = {};
      ++version_;
    }
  }
  select(begin_);
  if (contains(sp - 8)) return;
  if (!find(sp - 8)) add(sp - 8);
  else if (current_ != begin_ && !ranges_[current_].own) restart_range(sp - 8);
  begin_ = current_;
}

bool StackBounds::cross(std::uint64_t sp) noexcept {
  if (++crossings_ > kMaxCrossings) return false;
  if (!find(sp)) {
    if (!probe(sp)) return false;
    add(sp);
  } else if (!ranges_[current_].own) {
    if (!probe(sp)) return false;
    restart_range(sp);
  }
  return true;
}

void StackBounds::reset() noexcept {
  ++version_;
  for (Range& range : ranges_) range = {};
  begin_ = victim_ = 0;
  select(0);
}

}  // namespace heapprof::unwind
