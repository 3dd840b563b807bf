#include "preload/hooks/dropped_registrations.h"

#include <cstddef>
#include <cstdint>

#include "preload/base/text.h"
#include "preload/hooks/hook.h"
#include "preload/recorder/recorder.h"
#include "preload/sys/kernel.h"

namespace heapprof::hooks {

namespace {

// The set is an array of chunks; null is a free slot. The first chunk is static, the others are mapped when all
// before them are full.
constexpr std::size_t kChunkSlots = 4096;
constexpr std::size_t kMaxChunks = 64;
constinit const void* g_first_chunk[kChunkSlots] = {};
constinit const void** g_chunks[kMaxChunks] = {g_first_chunk};
constinit std::uint64_t g_count = 0;      ///< registrations dropped so far
constinit std::uint64_t g_overflows = 0;  ///< dropped registrations for which there was no slot

/// Replaces one slot that holds `old_table`. Returns false when there is none.
bool replace_slot(const void* old_table, const void* new_table) noexcept {
  for (const void**& entry : g_chunks) {
    const void** const chunk = __atomic_load_n(&entry, __ATOMIC_ACQUIRE);
    if (chunk == nullptr) return false;
    for (std::size_t i = 0; i != kChunkSlots; ++i) {
      const void* expected = old_table;
      if (__atomic_load_n(&chunk[i], __ATOMIC_RELAXED) == old_table &&
          __atomic_compare_exchange_n(&chunk[i], &expected, new_table, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return true;
    }
  }
  return false;
}

/// Returns false when memory cannot be mapped, or kMaxChunks is reached.
bool add_chunk() noexcept {
  constexpr std::size_t kChunkBytes = kChunkSlots * sizeof(void*);
  auto** const chunk = static_cast<const void**>(sys::map_private(kChunkBytes));
  if (chunk == nullptr) return false;
  for (const void**& entry : g_chunks) {
    const void** expected = nullptr;
    if (__atomic_compare_exchange_n(&entry, &expected, chunk, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return true;
  }
  sys::unmap_private(chunk, kChunkBytes);
  return false;
}

bool is_empty() noexcept { return __atomic_load_n(&g_count, __ATOMIC_RELAXED) == 0; }

}  // namespace

void add_dropped_registration(const void* table) noexcept {
  bool added = replace_slot(nullptr, table);
  while (!added && add_chunk()) added = replace_slot(nullptr, table);
  if (!added) __atomic_fetch_add(&g_overflows, std::uint64_t{1}, __ATOMIC_RELAXED);
  if (__atomic_fetch_add(&g_count, std::uint64_t{1}, __ATOMIC_RELAXED) != 0) return;
  recorder::note(
      "__register_frame: the program registered unwind tables, and heapprof found no libgcc_s or "
      "libunwind to forward them to. Exceptions cannot pass through the code that they describe");
  prevent_tail_call();
}

bool remove_dropped_registration(const void* table) noexcept {
  if (is_empty() || table == nullptr) return false;
  return replace_slot(table, nullptr) || __atomic_load_n(&g_overflows, __ATOMIC_RELAXED) != 0;
}

void forget_dropped_registration(const void* table) noexcept {
  if (is_empty() || table == nullptr) return;
  while (replace_slot(table, nullptr)) {
  }
}

void note_dropped_registrations() noexcept {
  const std::uint64_t count = __atomic_load_n(&g_count, __ATOMIC_RELAXED);
  if (count == 0) return;
  char buffer[128];
  Text text(buffer);
  recorder::note(text.add("__register_frame: ").number(count).add(" registrations were not forwarded").c_str());
}

}  // namespace heapprof::hooks
