#include "preload/sys/own_mappings.h"

#include "preload/sys/kernel.h"

namespace heapprof::sys {

namespace {

constexpr std::size_t kChunkSlots = 4096;
constexpr std::size_t kMaxChunks = 512;

constinit OwnMapping* g_chunks[kMaxChunks] = {};
constinit std::size_t g_slots = 0;

/// Returns null for a slot without memory.
OwnMapping* slot_at(std::size_t slot) noexcept {
  OwnMapping* const chunk = __atomic_load_n(&g_chunks[slot / kChunkSlots], __ATOMIC_ACQUIRE);
  return chunk == nullptr ? nullptr : chunk + slot % kChunkSlots;
}

OwnMapping* slot_with_memory(std::size_t slot) noexcept {
  if (OwnMapping* const found = slot_at(slot)) return found;
  constexpr std::size_t kBytes = kChunkSlots * sizeof(OwnMapping);
  void* const memory =
      map(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (failed(memory)) return nullptr;
  OwnMapping* known = nullptr;
  auto* const fresh = static_cast<OwnMapping*>(memory);
  if (__atomic_compare_exchange_n(&g_chunks[slot / kChunkSlots], &known, fresh, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    add_own_mapping(fresh, kBytes);  // in the chunk itself
  } else {
    unmap(memory, kBytes);
  }
  return slot_at(slot);
}

}  // namespace

void* map_private(std::size_t bytes) noexcept {
  void* const memory =
      map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (failed(memory)) return nullptr;
  add_own_mapping(memory, bytes);
  return memory;
}

void unmap_private(void* memory, std::size_t bytes) noexcept {
  remove_own_mapping(memory);
  unmap(memory, bytes);
}

void add_own_mapping(const void* memory, std::size_t bytes) noexcept {
  const std::size_t slot = __atomic_fetch_add(&g_slots, 1, __ATOMIC_RELAXED);
  if (slot >= kMaxChunks * kChunkSlots) return;
  OwnMapping* const entry = slot_with_memory(slot);
  if (entry == nullptr) return;
  __atomic_store_n(&entry->bytes, bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->begin, reinterpret_cast<std::uint64_t>(memory), __ATOMIC_RELEASE);
}

/// Searches from the end: memory that is unmapped is usually memory that was mapped last.
void remove_own_mapping(const void* memory) noexcept {
  for (std::size_t slot = own_mapping_slots(); slot-- != 0;) {
    OwnMapping* const entry = slot_at(slot);
    if (entry == nullptr ||
        __atomic_load_n(&entry->begin, __ATOMIC_RELAXED) != reinterpret_cast<std::uint64_t>(memory))
      continue;
    __atomic_store_n(&entry->begin, 0, __ATOMIC_RELEASE);
    // The last slot is used again, if no other thread has added one meanwhile.
    std::size_t slots = slot + 1;
    __atomic_compare_exchange_n(&g_slots, &slots, slot, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return;
  }
}

std::size_t own_mapping_slots() noexcept {
  const std::size_t slots = __atomic_load_n(&g_slots, __ATOMIC_RELAXED);
  return slots < kMaxChunks * kChunkSlots ? slots : kMaxChunks * kChunkSlots;
}

OwnMapping own_mapping(std::size_t slot) noexcept {
  const OwnMapping* const entry = slot_at(slot);
  if (entry == nullptr) return {};
  const std::uint64_t begin = __atomic_load_n(&entry->begin, __ATOMIC_ACQUIRE);
  return {begin, __atomic_load_n(&entry->bytes, __ATOMIC_RELAXED)};
}

}  // namespace heapprof::sys
