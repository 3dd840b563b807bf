// Mappings, in one thread, in an order that depends on SEED.
//
// usage: ledger_mmap WORK [SEED]
//
// Maps memory, unmaps complete mappings and parts of them (head, tail, middle, across two neighbours, twice), grows,
// shrinks and moves mappings, and moves the program break. The ledger has the ranges, which determine the live bytes.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/sites.h"

LEDGER_SITE void* site_mmap(void* where, std::size_t size, int protection, int flags) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMap, ledger::k_site_mmap, nullptr, size, 0,
                                       protection == PROT_NONE ? ledger::kFlagReserve : 0);
  errno = ledger::kErrnoBefore;
  void* address = mmap(where, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  LEDGER_CHECK(address == MAP_FAILED || errno == ledger::kErrnoBefore);
  return ledger::done(entry, address);
}

LEDGER_SITE int site_munmap(void* address, std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kUnmap, ledger::k_site_munmap, address, size);
  const int result = munmap(address, size);
  if (result != 0) entry.flags |= ledger::kFlagFailed;
  ledger::done(entry);
  return result;
}

LEDGER_SITE void* site_mremap(void* old, std::size_t old_size, std::size_t size, int flags) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kRemap, ledger::k_site_mremap, old, size, old_size);
  void* address = mremap(old, old_size, size, flags);
  return ledger::done(entry, address);
}

LEDGER_SITE void* site_sbrk(intptr_t increment) {
  char* before = static_cast<char*>(sbrk(0));
  ledger::Entry& entry = ledger::begin(ledger::Kind::kBreak, ledger::k_site_sbrk, before, 0);
  void* result = sbrk(increment);
  return ledger::done(entry, result == reinterpret_cast<void*>(-1) ? before : before + increment);
}

namespace {

constexpr std::size_t kPage = 4096;
struct Range {
  char* address = nullptr;
  std::size_t size = 0;
};
constexpr std::size_t kRanges = 60;
Range ranges[kRanges];

void unmap_some(ledger::Random& random, Range& range) {
  const std::size_t pages = range.size / kPage;
  if (pages < 3 || random.below(3) == 0) {
    LEDGER_CHECK(site_munmap(range.address, range.size) == 0);
    range = Range{};
    return;
  }
  const std::size_t part = 1 + random.below(pages - 2);
  switch (random.below(3)) {
    case 0:  // head
      site_munmap(range.address, part * kPage);
      range.address += part * kPage;
      range.size -= part * kPage;
      break;
    case 1:  // tail, with a length that the kernel rounds up to pages
      site_munmap(range.address + range.size - part * kPage, part * kPage - 100);
      range.size -= part * kPage;
      break;
    default: {  // a hole; the program no longer uses the part after it, which stays mapped
      site_munmap(range.address + kPage, part * kPage);
      site_munmap(range.address + kPage, part * kPage);  // nothing is mapped there: succeeds without effect
      range.size = kPage;
      break;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t work = ledger::argument(argc, argv, 1, 2'000);
  ledger::Random random{ledger::argument(argc, argv, 2, 1)};
  ledger::open(ledger::kSiteNames, 1, 20'000);
  ledger::set_phase(ledger::Phase::kWorking);
  if (work != 0) {
    // Calls that fail must have no effect.
    LEDGER_CHECK(site_mmap(nullptr, 0, PROT_READ, 0) == MAP_FAILED && errno == EINVAL);
    LEDGER_CHECK(site_mmap(nullptr, std::size_t{1} << 60, PROT_READ, 0) == MAP_FAILED && errno == ENOMEM);
    LEDGER_CHECK(site_munmap(reinterpret_cast<void*>(1), kPage) == -1 && errno == EINVAL);
    // Two neighbours, unmapped by one call; and a mapping replaced by MAP_FIXED.
    auto* pair = static_cast<char*>(site_mmap(nullptr, 8 * kPage, PROT_NONE, MAP_NORESERVE));
    site_mmap(pair, 4 * kPage, PROT_READ | PROT_WRITE, MAP_FIXED);
    site_mmap(pair + 4 * kPage, 4 * kPage, PROT_READ, MAP_FIXED);
    pair[0] = 1;
    LEDGER_CHECK(site_munmap(pair + kPage, 6 * kPage) == 0);
  }
  for (std::uint64_t i = 0; i < work; ++i) {
    Range& range = ranges[random.below(kRanges)];
    if (range.address == nullptr) {
      range.size = (1 + random.below(64)) * kPage;
      range.address =
          static_cast<char*>(site_mmap(nullptr, range.size - random.below(kPage), PROT_READ | PROT_WRITE, 0));
      range.address[0] = 1;
    } else if (random.below(2) == 0) {
      unmap_some(random, range);
    } else if (random.below(8) == 0) {
      const intptr_t by = static_cast<intptr_t>(1 + random.below(8)) * static_cast<intptr_t>(kPage);
      site_sbrk(by);
      if (random.below(2) == 0) site_sbrk(-by);
    } else {
      const std::size_t size = (1 + random.below(96)) * kPage;
      void* moved = site_mremap(range.address, range.size, size, MREMAP_MAYMOVE);
      LEDGER_CHECK(moved != MAP_FAILED);
      range = {static_cast<char*>(moved), size};
      range.address[size - 1] = 1;
    }
  }
  ledger::set_phase(ledger::Phase::kFinished);
  return ledger::status();
}
