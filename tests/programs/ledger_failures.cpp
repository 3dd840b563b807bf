// Calls that fail, and calls with extreme arguments.
//
// usage: ledger_failures WORK    0: none of the calls
//
// Each failure must have the same result as without the recorder (null, errno), count as failed, and have no other
// effect: a block whose reallocation failed stays live. A refused alignment does not count as failed, and is no event
// at all: no memory was requested. operator new is not tested: when it fails, libstdc++ allocates the exception.
#include "tests/support/sites.h"

namespace {

template <typename Call>
void fails(int expected_errno, Call call) {
  errno = 0;
  void* block = call();
  LEDGER_CHECK(block == nullptr);
  if (expected_errno != 0) LEDGER_CHECK(errno == expected_errno);
}

}  // namespace

// The product of calloc's or reallocarray's arguments overflows: the requested size is undefined.
LEDGER_SITE void* site_calloc_overflow(std::size_t count, std::size_t size) {
  ledger::Entry& entry =
      ledger::begin(ledger::Kind::kCalloc, ledger::k_site_calloc, nullptr, 0, 0, ledger::kFlagSizeUnknown);
  return ledger::done(entry, calloc(count, size));
}

LEDGER_SITE void* site_reallocarray_overflow(void* old, std::size_t count, std::size_t size) {
  ledger::Entry& entry =
      ledger::begin(ledger::Kind::kReallocarray, ledger::k_site_reallocarray, old, 0, 0, ledger::kFlagSizeUnknown);
  return ledger::done(entry, reallocarray(old, count, size));
}

namespace {

/// Calls with an alignment that libc refuses. The ledger has no entry of them.
void call_with_refused(std::size_t alignment) {
  void* block = nullptr;
  LEDGER_CHECK(posix_memalign(&block, alignment, 100) == EINVAL && block == nullptr);
  fails(EINVAL, [=] { return aligned_alloc(alignment, 100); });
  fails(EINVAL, [=] { return memalign(alignment, 100); });
}

/// realloc to 0 bytes frees the block. musl returns a block of 0 bytes in its place.
void resize_to_0(void* block) {
  void* const rest = site_realloc(block, 0);
#ifdef __GLIBC__
  LEDGER_CHECK(rest == nullptr);
#else
  site_free(rest);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t work = ledger::argument(argc, argv, 1, 1);
  ledger::open(ledger::kSiteNames, 1, 4096);
  ledger::set_phase(ledger::Phase::kWorking);
  if (work != 0) {
    const std::size_t huge = ledger::opaque(static_cast<std::size_t>(PTRDIFF_MAX) + 1);
    const std::size_t large = ledger::opaque(std::size_t{1} << 60);  // valid, but no machine has as much
    const std::size_t most = ledger::opaque(SIZE_MAX);
    for (int i = 0; i < 25; ++i) {
      void* block = site_malloc(1000 + static_cast<std::size_t>(i));
      memset(block, 0x5a, 1000);
      fails(ENOMEM, [=] { return site_malloc(huge); });
      fails(ENOMEM, [=] { return site_malloc(large); });
      fails(ENOMEM, [=] { return site_malloc(most); });
      fails(ENOMEM, [=] { return site_calloc(1, large); });
      fails(ENOMEM, [=] { return site_calloc_overflow(most, 3); });
      fails(ENOMEM, [=] { return site_realloc(block, huge); });
      fails(ENOMEM, [=] { return site_realloc(block, large); });
      fails(ENOMEM, [=] { return site_realloc(nullptr, large); });
      fails(ENOMEM, [=] { return site_reallocarray(block, 2, large / 2); });
      fails(ENOMEM, [=] { return site_reallocarray_overflow(block, most, 3); });
      fails(0, [=] { return site_posix_memalign(64, large); });
      fails(ENOMEM, [=] { return site_aligned_alloc(64, huge); });
      fails(ENOMEM, [=] { return site_memalign(64, large); });
      fails(ENOMEM, [=] { return site_valloc(large); });
      fails(ENOMEM, [=] { return site_pvalloc(large); });
      call_with_refused(ledger::opaque(SIZE_MAX / 2 + 17));  // no power of two, and none above it fits into 64 bits
#ifndef __GLIBC__
      call_with_refused(ledger::opaque(24));  // glibc rounds it up
#endif
      for (std::size_t k = 0; k < 1000; ++k)
        LEDGER_CHECK(static_cast<unsigned char*>(block)[k] == 0x5a || k < sizeof(std::uint64_t));
      if (i % 2 == 0) site_free(block);
      else resize_to_0(block);
      // A block of 0 bytes has its own address and must be freed.
      void* none = site_malloc(0);
      void* none_too = site_calloc(0, 100);
      void* none_either = site_calloc(100, 0);
      LEDGER_CHECK(none != nullptr && none_too != nullptr && none_either != nullptr && none != none_too);
      void* from_none = site_realloc(nullptr, 0);
      LEDGER_CHECK(from_none != nullptr);
      site_free(none);
      site_free(none_too);
      if (i % 3 != 0) site_free(none_either);  // else a block of 0 bytes leaks
      resize_to_0(from_none);
      site_free(nullptr);
      site_delete(nullptr);
    }
  }
  ledger::set_phase(ledger::Phase::kFinished);
  return ledger::status();
}
