#include "preload/memory/own_memory.h"

#include <cstdint>

#include "preload/sys/kernel.h"

extern "C" {
void* mi_malloc(std::size_t bytes);
void mi_free(void* block);
}

namespace heapprof::memory {

namespace {

/// From here on a mapping wastes little, and mimalloc would make one too.
constexpr std::size_t kMapFrom = 128 * 1024;

/// In front of every block. Its size keeps the block aligned.
struct alignas(16) Header {
  std::size_t mapped_bytes;  ///< of the mapping that the block has for itself; 0: mimalloc's
  Header* next;              ///< in g_given_back
};

constinit bool g_busy = false;

/// mimalloc's blocks that were freed while somebody else was in it. Pushed by anyone; taken all at once,
/// by whoever has the lock, so that no block can come back between a push's reading and writing.
constinit Header* g_given_back = nullptr;

bool try_enter() noexcept { return !__atomic_test_and_set(&g_busy, __ATOMIC_ACQUIRE); }
void leave() noexcept { __atomic_clear(&g_busy, __ATOMIC_RELEASE); }

void give_back(Header* header) noexcept {
  header->next = __atomic_load_n(&g_given_back, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&g_given_back, &header->next, header, true, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {
  }
}

void free_given_back() noexcept {
  if (__atomic_load_n(&g_given_back, __ATOMIC_RELAXED) == nullptr) return;
  Header* header = __atomic_exchange_n(&g_given_back, nullptr, __ATOMIC_ACQUIRE);
  while (header != nullptr) {
    Header* next = header->next;
    mi_free(header);
    header = next;
  }
}

}  // namespace

void* own_alloc(std::size_t bytes) noexcept {
  if (bytes > SIZE_MAX / 2) return nullptr;
  const std::size_t total = bytes + sizeof(Header);
  if (total < kMapFrom && try_enter()) [[likely]] {
    free_given_back();
    auto* header = static_cast<Header*>(mi_malloc(total));
    leave();
    if (header == nullptr) return nullptr;
    header->mapped_bytes = 0;
    return header + 1;
  }
  auto* header = static_cast<Header*>(map_anonymous(total));
  if (header == nullptr) return nullptr;
  header->mapped_bytes = total;
  return header + 1;
}

void own_free(void* block) noexcept {
  if (block == nullptr) return;
  Header* header = static_cast<Header*>(block) - 1;
  if (header->mapped_bytes != 0) {
    unmap_anonymous(header, header->mapped_bytes);
  } else if (try_enter()) [[likely]] {
    free_given_back();
    mi_free(header);
    leave();
  } else {
    give_back(header);
  }
}

void* map_anonymous(std::size_t bytes) noexcept {
  void* pages = sys::map_private(bytes);
  // linux/prctl.h: PR_SET_VMA, PR_SET_VMA_ANON_NAME. Kernels before 5.17 refuse, which does no harm.
  if (pages != nullptr)
    sys::call(SYS_prctl, 0x53564d41, 0, sys::word(pages), static_cast<long>(bytes), sys::word("heapprof"));
  return pages;
}

void unmap_anonymous(void* pages, std::size_t bytes) noexcept { sys::unmap(pages, bytes); }

}  // namespace heapprof::memory
