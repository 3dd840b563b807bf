#include "preload/sys/own_mappings.h"

#include "preload/sys/kernel.h"

namespace heapprof::sys {

namespace {

struct Slot {
  /// 0: the slot is free, or is being filled. Stored last when a range is added, and first when it is removed.
  std::uint64_t begin;
  std::uint64_t bytes;
  std::uint64_t next_free;  ///< of a free slot: the next one, plus 1; 0: none
};

constexpr std::size_t kChunkSlots = 4096;
constexpr std::size_t kMaxChunks = 512;
constexpr std::size_t kMaxSlots = kChunkSlots * kMaxChunks;

constinit Slot* g_chunks[kMaxChunks] = {};
constinit std::size_t g_slots = 0;
/// The stack of free slots. Low half: the uppermost one, plus 1; 0: none. High half: a count of its changes, so that
/// a thread that takes a slot notices if others have taken and returned it meanwhile.
constinit std::uint64_t g_free = 0;

constexpr std::uint64_t changed(std::uint64_t free, std::uint64_t uppermost) noexcept {
  return ((free >> 32) + 1) << 32 | uppermost;
}

/// Precondition: slot < g_slots at some time.
Slot& slot_at(std::size_t slot) noexcept {
  return __atomic_load_n(&g_chunks[slot / kChunkSlots], __ATOMIC_ACQUIRE)[slot % kChunkSlots];
}

/// Makes sure that the chunk of `slot` has memory.
bool provide_chunk(std::size_t slot) noexcept {
  Slot** const chunk = &g_chunks[slot / kChunkSlots];
  if (__atomic_load_n(chunk, __ATOMIC_ACQUIRE) != nullptr) return true;
  constexpr std::size_t kBytes = kChunkSlots * sizeof(Slot);
  void* const memory =
      map(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (failed(memory)) return false;
  Slot* known = nullptr;
  if (__atomic_compare_exchange_n(chunk, &known, static_cast<Slot*>(memory), false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE))
    add_own_mapping(memory, kBytes);  // in the chunk itself
  else unmap(memory, kBytes);
  return true;
}

/// Takes a free slot, or null.
Slot* take_free_slot() noexcept {
  std::uint64_t free = __atomic_load_n(&g_free, __ATOMIC_ACQUIRE);
  while (static_cast<std::uint32_t>(free) != 0) {
    Slot& slot = slot_at(static_cast<std::uint32_t>(free) - 1);
    const std::uint64_t next = __atomic_load_n(&slot.next_free, __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(&g_free, &free, changed(free, next), false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
      return &slot;
  }
  return nullptr;
}

/// A slot that was never used, or null.
Slot* take_new_slot() noexcept {
  std::size_t slot = __atomic_load_n(&g_slots, __ATOMIC_RELAXED);
  while (slot != kMaxSlots && provide_chunk(slot))
    if (__atomic_compare_exchange_n(&g_slots, &slot, slot + 1, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
      return &slot_at(slot);
  return nullptr;
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
  Slot* slot = take_free_slot();
  if (slot == nullptr) slot = take_new_slot();
  if (slot == nullptr) return;
  // A reader that has read the address of the slot's last range and now reads this size finds another address when it
  // reads that again.
  __atomic_thread_fence(__ATOMIC_RELEASE);
  __atomic_store_n(&slot->bytes, bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->begin, reinterpret_cast<std::uint64_t>(memory), __ATOMIC_RELEASE);
}

/// Searches from the end: memory that is unmapped is usually memory that was mapped last.
void remove_own_mapping(const void* memory) noexcept {
  for (std::size_t number = own_mapping_slots(); number-- != 0;) {
    Slot& slot = slot_at(number);
    if (__atomic_load_n(&slot.begin, __ATOMIC_RELAXED) != reinterpret_cast<std::uint64_t>(memory)) continue;
    __atomic_store_n(&slot.begin, 0, __ATOMIC_RELAXED);
    std::uint64_t free = __atomic_load_n(&g_free, __ATOMIC_RELAXED);
    do __atomic_store_n(&slot.next_free, static_cast<std::uint32_t>(free), __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&g_free, &free, changed(free, number + 1), false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
    return;
  }
}

std::size_t own_mapping_slots() noexcept { return __atomic_load_n(&g_slots, __ATOMIC_ACQUIRE); }

OwnMapping own_mapping(std::size_t number) noexcept {
  const Slot& slot = slot_at(number);
  const std::uint64_t begin = __atomic_load_n(&slot.begin, __ATOMIC_ACQUIRE);
  const std::uint64_t bytes = __atomic_load_n(&slot.bytes, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (__atomic_load_n(&slot.begin, __ATOMIC_RELAXED) != begin) return {};
  return {begin, bytes};
}

}  // namespace heapprof::sys
