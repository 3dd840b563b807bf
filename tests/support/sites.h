// The allocating functions ("sites") of ledger programs, one for each allocation function. Each has a stack frame of
// its own and writes the ledger (ledger.h). They are C functions, so that the name in a report is the name in the
// ledger.
//
// Blocks of 8 bytes and more contain the identity of the ledger entry of their allocation. A thread that frees a
// block of another thread uses the _stamped functions, which copy the identity into their own entry. Thus the set of
// live blocks is known exactly, although the threads write no common order.
//
// Each call also checks what the recorder must not change: errno after a successful call, the zeros of calloc, and
// the alignment.
#pragma once

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "tests/support/ledger.h"

#define LEDGER_SITE extern "C" [[gnu::noinline, gnu::used]] inline

namespace ledger {

// clang-format off
#define LEDGER_SHARED_SITES(X)                                                                     \
  X(site_malloc) X(site_calloc) X(site_realloc) X(site_reallocarray) X(site_free)                  \
  X(site_posix_memalign) X(site_aligned_alloc) X(site_memalign) X(site_valloc) X(site_pvalloc)     \
  X(site_new) X(site_new_array) X(site_new_aligned) X(site_new_nothrow) X(site_delete)             \
  X(site_small) X(site_large)                                                                      \
  X(site_strdup) X(site_asprintf) X(site_getline) X(site_preinit) X(site_constructor)          \
  X(site_destructor)                                                                               \
  X(site_thread_exit) X(site_atexit) X(site_dlsym) X(site_signal) X(site_plugin_a) X(site_plugin_b) \
  X(site_iconv) X(site_mmap) X(site_munmap) X(site_mremap) X(site_sbrk)
// clang-format on

#define LEDGER_SITE_ENUM(name) k_##name,
#define LEDGER_SITE_NAME(name) #name,
enum Site : unsigned { kNoSite, LEDGER_SHARED_SITES(LEDGER_SITE_ENUM) kSharedSites };
inline constexpr const char* kSiteNames[] = {"", LEDGER_SHARED_SITES(LEDGER_SITE_NAME)};

inline constexpr int kErrnoBefore = 4711;
/// The program exhausts its address space. Then a successful malloc of libc leaves ENOMEM in errno, with and without
/// a recorder, when its heap cannot grow but a mapping succeeds.
inline bool out_of_addresses = false;

// A program with an embedded allocator is compiled with LEDGER_EMBEDDED_ALLOCATOR.
#ifdef LEDGER_EMBEDDED_ALLOCATOR
inline constexpr std::size_t kEmptyNew = 0;
inline constexpr std::size_t kAlignment = 8;  ///< of jemalloc and tcmalloc, for blocks up to 8 bytes
#else
inline constexpr std::size_t kEmptyNew = 1;  ///< size of libstdc++'s malloc for operator new(0)
inline constexpr std::size_t kAlignment = 16;
#endif

inline void* stamped(Entry& entry, void* block, std::size_t size) noexcept {
  LEDGER_CHECK(block == nullptr || errno == kErrnoBefore || (out_of_addresses && errno == ENOMEM));
  done(entry, block);
  if (block != nullptr && size >= sizeof(std::uint64_t)) {
    const std::uint64_t stamp = identity(entry);
    memcpy(block, &stamp, sizeof stamp);
  }
  return block;
}

inline std::uint64_t stamp_of(const void* block) noexcept {
  std::uint64_t stamp;
  memcpy(&stamp, block, sizeof stamp);
  return stamp;
}

inline bool aligned(const void* block, std::size_t alignment) noexcept {
  return reinterpret_cast<std::uint64_t>(block) % alignment == 0;
}

/// Sizes that overflow, hidden from the compiler.
inline std::size_t opaque(std::size_t value) noexcept {
  asm volatile("" : "+r"(value));
  return value;
}

}  // namespace ledger

LEDGER_SITE void* site_malloc(std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMalloc, ledger::k_site_malloc, nullptr, size);
  errno = ledger::kErrnoBefore;
  void* block = malloc(size);
  LEDGER_CHECK(ledger::aligned(block, ledger::kAlignment));
  return ledger::stamped(entry, block, size);
}

LEDGER_SITE void* site_small(std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMalloc, ledger::k_site_small, nullptr, size);
  errno = ledger::kErrnoBefore;
  return ledger::stamped(entry, malloc(size), size);
}

LEDGER_SITE void* site_large(std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMalloc, ledger::k_site_large, nullptr, size);
  errno = ledger::kErrnoBefore;
  return ledger::stamped(entry, malloc(size), size);
}

LEDGER_SITE void* site_calloc(std::size_t count, std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kCalloc, ledger::k_site_calloc, nullptr, count * size);
  errno = ledger::kErrnoBefore;
  auto* block = static_cast<unsigned char*>(calloc(count, size));
  if (block != nullptr)
    for (std::size_t i = 0; i < count * size; i += 1 + i / 8) LEDGER_CHECK(block[i] == 0);
  return ledger::stamped(entry, block, count * size);
}

LEDGER_SITE void* site_realloc(void* old, std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kRealloc, ledger::k_site_realloc, old, size);
  errno = ledger::kErrnoBefore;
  return ledger::stamped(entry, realloc(old, size), size);
}

LEDGER_SITE void* site_realloc_stamped(void* old, std::size_t size) {
  ledger::Entry& entry =
      ledger::begin(ledger::Kind::kRealloc, ledger::k_site_realloc, old, size, ledger::stamp_of(old));
  errno = ledger::kErrnoBefore;
  return ledger::stamped(entry, realloc(old, size), size);
}

LEDGER_SITE void* site_reallocarray(void* old, std::size_t count, std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kReallocarray, ledger::k_site_reallocarray, old, count * size);
  errno = ledger::kErrnoBefore;
  return ledger::stamped(entry, reallocarray(old, count, size), count * size);
}

LEDGER_SITE void site_free(void* block) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kFree, ledger::k_site_free, block, 0);
  errno = ledger::kErrnoBefore;
  free(block);
  LEDGER_CHECK(errno == ledger::kErrnoBefore);
  ledger::done(entry);
}

LEDGER_SITE void site_free_stamped(void* block) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kFree, ledger::k_site_free, block, 0, ledger::stamp_of(block));
  errno = ledger::kErrnoBefore;
  free(block);
  LEDGER_CHECK(errno == ledger::kErrnoBefore);
  ledger::done(entry);
}

LEDGER_SITE void* site_posix_memalign(std::size_t alignment, std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kPosixMemalign, ledger::k_site_posix_memalign, nullptr, size);
  errno = ledger::kErrnoBefore;
  void* block = nullptr;
  const int result = posix_memalign(&block, alignment, size);
  LEDGER_CHECK((result == 0) == (block != nullptr));
  LEDGER_CHECK(ledger::aligned(block, alignment));
  return ledger::stamped(entry, block, size);
}

LEDGER_SITE void* site_aligned_alloc(std::size_t alignment, std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kAlignedAlloc, ledger::k_site_aligned_alloc, nullptr, size);
  errno = ledger::kErrnoBefore;
  void* block = aligned_alloc(alignment, size);
  LEDGER_CHECK(ledger::aligned(block, alignment));
  return ledger::stamped(entry, block, size);
}

LEDGER_SITE void* site_memalign(std::size_t alignment, std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMemalign, ledger::k_site_memalign, nullptr, size);
  errno = ledger::kErrnoBefore;
  void* block = memalign(alignment, size);
  LEDGER_CHECK(ledger::aligned(block, alignment));
  return ledger::stamped(entry, block, size);
}

LEDGER_SITE void* site_valloc(std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kValloc, ledger::k_site_valloc, nullptr, size);
  errno = ledger::kErrnoBefore;
  void* block = valloc(size);
  LEDGER_CHECK(ledger::aligned(block, 4096));
  return ledger::stamped(entry, block, size);
}

LEDGER_SITE void* site_pvalloc(std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kPvalloc, ledger::k_site_pvalloc, nullptr, size);
  errno = ledger::kErrnoBefore;
  void* block = pvalloc(size);
  LEDGER_CHECK(ledger::aligned(block, 4096));
#ifdef __GLIBC__  // the substitute on musl does not round
  LEDGER_CHECK(block == nullptr || malloc_usable_size(block) >= ((size + 4095) & ~std::size_t{4095}));
#endif
  return ledger::stamped(entry, block, size);
}

LEDGER_SITE void* site_new(std::size_t size) {
  ledger::Entry& entry =
      ledger::begin(ledger::Kind::kNew, ledger::k_site_new, nullptr, size == 0 ? ledger::kEmptyNew : size);
  errno = ledger::kErrnoBefore;
  return ledger::stamped(entry, ::operator new(size), size);
}

LEDGER_SITE void* site_new_array(std::size_t size) {
  ledger::Entry& entry =
      ledger::begin(ledger::Kind::kNew, ledger::k_site_new_array, nullptr, size == 0 ? ledger::kEmptyNew : size);
  errno = ledger::kErrnoBefore;
  return ledger::stamped(entry, ::operator new[](size), size);
}

/// `size` must be a multiple of 64, to which libstdc++ rounds it up.
LEDGER_SITE void* site_new_aligned(std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kNew, ledger::k_site_new_aligned, nullptr, size);
  errno = ledger::kErrnoBefore;
  void* block = ::operator new(size, std::align_val_t{64});
  LEDGER_CHECK(ledger::aligned(block, 64));
  return ledger::stamped(entry, block, size);
}

/// Null: out of memory.
LEDGER_SITE void* site_new_nothrow(std::size_t size) {
  ledger::Entry& entry =
      ledger::begin(ledger::Kind::kNew, ledger::k_site_new_nothrow, nullptr, size == 0 ? ledger::kEmptyNew : size);
  errno = ledger::kErrnoBefore;
  return ledger::stamped(entry, ::operator new(size, std::nothrow), size);
}

LEDGER_SITE void site_delete(void* block) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kDelete, ledger::k_site_delete, block, 0);
  errno = ledger::kErrnoBefore;
  ::operator delete(block);
  LEDGER_CHECK(errno == ledger::kErrnoBefore);
  ledger::done(entry);
}

LEDGER_SITE void site_delete_aligned(void* block) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kDelete, ledger::k_site_delete, block, 0);
  ::operator delete(block, std::align_val_t{64});
  ledger::done(entry);
}
