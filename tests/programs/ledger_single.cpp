// One thread, every allocation function, in a random order that depends on SEED.
//
// usage: ledger_single WORK [SEED] [PLAIN]
//
// PLAIN 1 makes only the calls that heaptrack records and counts in the same way, so that its recording can be
// compared: no memalign, valloc, pvalloc and reallocarray, and no realloc to 0 bytes.
//
// All figures are exact, including the peak. The depth of the stack varies, so that each call site has many stacks.
#include "tests/support/sites.h"

namespace {

struct Held {
  void* block = nullptr;
  bool by_new = false;
  bool by_aligned_new = false;
};

constexpr std::size_t kHeld = 700;
bool plain;
Held held[kHeld];

void release(Held& slot) {
  if (slot.by_aligned_new) site_delete_aligned(slot.block);
  else if (slot.by_new) site_delete(slot.block);
  else site_free(slot.block);  // also free(NULL)
  slot = Held{};
}

std::size_t some_size(ledger::Random& random) {
  switch (random.below(16)) {
    case 0: return 0;
    case 1: return random.below(100'000);
    case 2: return random.below(8000);
    case 3: return 200'000 + random.below(400'000);  // beyond malloc's mmap threshold
    default: return 1 + random.below(300);
  }
}

[[gnu::noinline]] void allocate(ledger::Random& random, Held& slot) {
  const std::size_t size = some_size(random);
  const std::size_t alignment = std::size_t{16} << random.below(6);
  std::size_t how = random.below(15);
  if (plain && (how == 2 || (how >= 5 && how <= 7))) how = 14;
  switch (how) {
    case 0: slot.block = site_calloc(1 + random.below(4), size / 4); break;
    case 1: slot.block = site_realloc(nullptr, size); break;
    case 2: slot.block = site_reallocarray(nullptr, 3, size / 3); break;
    case 3: slot.block = site_posix_memalign(alignment, size); break;
    case 4: slot.block = site_aligned_alloc(alignment, size); break;
    case 5: slot.block = site_memalign(alignment, size); break;
    case 6: slot.block = site_valloc(size); break;
    case 7: slot.block = site_pvalloc(size); break;
    case 8: slot = {site_new(size), true}; break;
    case 9: slot = {site_new_array(size), true}; break;
    case 10: slot = {site_new_aligned((size + 63) / 64 * 64 + 64), true, true}; break;
    case 11: slot = {site_new_nothrow(size), true}; break;
    case 12: slot.block = site_small(size); break;
    case 13: slot.block = site_large(size); break;
    default: slot.block = site_malloc(size); break;
  }
}

[[gnu::noinline]] void step(ledger::Random& random) {
  Held& slot = held[random.below(kHeld)];
  if (slot.block == nullptr) {
    if (random.below(50) == 0) site_free(nullptr);
    else allocate(random, slot);
    return;
  }
  if (slot.by_new || random.below(2) == 0) {
    release(slot);
    return;
  }
  std::size_t how = random.below(4);
  if (plain && how < 2) how = 2;
  switch (how) {
    case 0: slot.block = site_reallocarray(slot.block, 1 + random.below(5), random.below(200)); break;
    case 1: slot.block = site_realloc(slot.block, 0); break;  // frees it and returns null
    case 2: {                                                 // a temporary allocation
      void* moment = site_small(some_size(random));
      site_free(moment);
      break;
    }
    default: slot.block = site_realloc(slot.block, some_size(random) + plain); break;
  }
}

// Two functions that call each other, so that the stack is not one repeated frame.
[[gnu::noinline]] void descend_odd(ledger::Random& random, unsigned depth);
[[gnu::noinline]] void descend_even(ledger::Random& random, unsigned depth) {
  if (depth == 0) step(random);
  else descend_odd(random, depth - 1);
  asm volatile("" ::: "memory");  // work after the call: not a tail call
}
[[gnu::noinline]] void descend_odd(ledger::Random& random, unsigned depth) {
  if (depth == 0) step(random);
  else descend_even(random, depth - 1);
  asm volatile("" ::: "memory");
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t work = ledger::argument(argc, argv, 1, 20'000);
  ledger::Random random{ledger::argument(argc, argv, 2, 1)};
  plain = ledger::argument(argc, argv, 3, 0) != 0;
  ledger::open(ledger::kSiteNames, 1, static_cast<std::uint32_t>(3 * work + 2 * kHeld + 16));
  ledger::set_phase(ledger::Phase::kWorking);
  unsigned depth = 5;
  for (std::uint64_t i = 0; i < work; ++i) {
    if (random.below(4) == 0) depth = (depth + 40 + random.below(5) - 2) % 40;
    descend_even(random, depth);
  }
  // Half of the remaining blocks are freed; the rest leak.
  for (std::size_t i = 0; i < kHeld; i += 2)
    if (held[i].block != nullptr) release(held[i]);
  ledger::set_phase(ledger::Phase::kFinished);
  return ledger::status();
}
