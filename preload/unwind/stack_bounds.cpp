#include "preload/unwind/stack_bounds.h"

#include <sys/uio.h>

#include "preload/sys/kernel.h"
#include "preload/unwind/cached_paths.h"

extern "C" {
[[gnu::weak]] extern void* __libc_stack_end;  // ld.so, GLIBC_2.2.5: the main stack pointer at the start
}

namespace heapprof::unwind {

namespace detail {
constinit std::atomic<std::uint32_t> foreign_stacks_forgotten{0};
constinit std::atomic<std::uint64_t> world{0};
}

namespace {

constexpr std::uint64_t kPage = 4096;
/// The longest way over untouched stack: one frame's local variables, and what is checked in one go.
constexpr std::uint64_t kMaxGrowth = 64u << 20;
/// As far below a stretch that is not the thread's own, a stack pointer is taken for the same stack's.
constexpr std::uint64_t kMaxForeignGrowth = 1u << 20;

constexpr std::uint64_t kNoLimit = ~std::uint64_t{7};

constexpr std::uint64_t page_of(std::uint64_t address) noexcept { return address & ~(kPage - 1); }

enum class Probe : std::uint8_t { kNone, kSignalMask, kReadSelf };
constinit std::atomic<Probe> g_probe{Probe::kNone};

constexpr long kInvalid = -22;  // EINVAL

bool probe_with(Probe kind, std::uint64_t address) noexcept {
  if (kind == Probe::kSignalMask) {
    // Linux copies the set before it looks at `how` (kernel/signal.c, rt_sigprocmask).
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

/// Where the calling thread's own stack ends; 0: unknown.
std::uint64_t own_top() noexcept {
  // The main thread's pointer lies in some mapping between libraries: the way there from an alternate stack that
  // happens to stand below would be thousands of pages, none of them stack.
  const bool main_thread = sys::thread_id() == sys::process_id();
  return !main_thread                  ? arch::thread_pointer()
         : &__libc_stack_end == nullptr ? 0
                                        : reinterpret_cast<std::uint64_t>(__libc_stack_end);
}

}  // namespace

void start_probing() noexcept {
  // An emulator may look at `how` first: believe only what was tried on a page that cannot be read.
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

void forget_foreign_stacks() noexcept {
  detail::foreign_stacks_forgotten.fetch_add(1, std::memory_order_relaxed);
  detail::world.fetch_add(1, std::memory_order_acq_rel);
}

bool probe(std::uint64_t address) noexcept { return probe_with(g_probe.load(std::memory_order_relaxed), address); }

bool on_own_stack(std::uint64_t address, std::uint64_t higher) noexcept {
  const std::uint64_t top = own_top();
  if (address >= top || higher >= top || top - address > kMaxGrowth) return false;
  for (std::uint64_t page = page_of(address); page < top; page += kPage)
    if (!probe(page)) return false;
  return true;
}

bool StackBounds::extend(Stretch& stretch, std::uint64_t address) noexcept {
  if (address >= stretch.limit || (address > stretch.high && address - stretch.high > kMaxGrowth)) return false;
  while (stretch.high <= address) {
    if (!probe(stretch.high)) {
      stretch.limit = stretch.high;
      return false;
    }
    const std::uint64_t next = stretch.high + kPage;
    stretch.high = next < stretch.limit ? next : stretch.limit;
  }
  return true;
}

bool StackBounds::grow(std::uint64_t address) noexcept {
  Stretch& stretch = stretches_[index_];
  const bool readable = address >= stretch.high && extend(stretch, address);
  select(index_);
  return readable;
}

/// Makes current the stretch that holds `address`, or that turns out to when the pages between are probed.
bool StackBounds::find(std::uint64_t address) noexcept {
  for (unsigned i = 0; i < kStretches; ++i) {
    if (address - stretches_[i].low < stretches_[i].high - stretches_[i].low) {
      select(i);
      return true;
    }
  }
  const std::uint64_t page = page_of(address);
  for (unsigned i = 0; i < kStretches; ++i) {
    Stretch& stretch = stretches_[i];
    if (stretch.high == 0 || page >= stretch.low ||
        stretch.low - page > (stretch.own ? kMaxGrowth : kMaxForeignGrowth))
      continue;
    std::uint64_t low = stretch.low;
    while (low > page && probe(low - kPage)) low -= kPage;
    if (low > page) continue;
    stretch.low = low;
    select(i);
    return true;
  }
  return false;
}

/// A new stretch around `address`, whose page is known to be readable.
void StackBounds::make(std::uint64_t address) noexcept {
  victim_ = (victim_ + 1) % kStretches;
  if (stretches_[victim_].own) victim_ = (victim_ + 1) % kStretches;
  ++epoch_;
  const std::uint64_t page = page_of(address);
  Stretch fresh{page, page + kPage, kNoLimit, false};
  const std::uint64_t top = own_top();
  if (top > address && top - address <= kMaxGrowth) {
    Stretch own{fresh.low, fresh.high, top & ~std::uint64_t{7}, true};
    if (own.high > own.limit) own.high = own.limit;
    if (extend(own, own.limit - 8)) fresh = own;
  }
  stretches_[victim_] = fresh;
  select(victim_);
}

/// Back to the page of `address`, which is readable.
void StackBounds::look_again(std::uint64_t address) noexcept {
  ++epoch_;
  const std::uint64_t page = page_of(address);
  stretches_[index_] = {page, page + kPage, kNoLimit, false};
  select(index_);
}

void StackBounds::begin_elsewhere(std::uint64_t sp) noexcept {
  if (seen_ != forgotten()) {
    seen_ = forgotten();
    for (Stretch& stretch : stretches_) {
      if (stretch.own || stretch.high == 0) continue;
      stretch = {};
      ++epoch_;
    }
  }
  select(begun_);
  if (contains(sp - 8)) return;
  if (!find(sp - 8)) make(sp - 8);
  else if (index_ != begun_ && !stretches_[index_].own) look_again(sp - 8);
  begun_ = index_;
}

bool StackBounds::cross(std::uint64_t sp) noexcept {
  if (++crossings_ > kMaxCrossings) return false;
  if (!find(sp)) {
    if (!probe(sp)) return false;
    make(sp);
  } else if (!stretches_[index_].own) {
    if (!probe(sp)) return false;
    look_again(sp);
  }
  return true;
}

void StackBounds::forget() noexcept {
  ++epoch_;
  for (Stretch& stretch : stretches_) stretch = {};
  begun_ = victim_ = 0;
  select(0);
}

}  // namespace heapprof::unwind
