#include "preload/python/freed_code.h"

#include "preload/python/broken_rule.h"
#include "preload/recorder/process/fast_path_mode.h"
#include "preload/unwind/stack_bounds.h"

// The address of the hook of free (preload/hooks/heap.cpp). Absent in programs that contain the recorder's core
// without hooks.
extern "C" {
[[gnu::weak, gnu::visibility("hidden")]] extern void (*const heapprof_free_hook_address)(void*) noexcept;
}

namespace heapprof::python {

namespace detail {
constinit std::uint8_t code_filter[(1u << kFilterBits) / 8] = {};
constinit bool code_is_watched = false;
constinit std::uint64_t freed_code_objects = 0;
constinit bool code_table_full = false;
}  // namespace detail

namespace {

struct Slot {
  std::uint64_t code;     ///< 0: the slot is free
  std::uint32_t version;  ///< 0: not set yet
};
constexpr unsigned kSlotBits = 15;
constexpr std::uint64_t kSlotMask = (1u << kSlotBits) - 1;
constexpr std::uint32_t kMaxUsed = (1u << kSlotBits) / 4 * 3;

constinit Slot g_slots[1u << kSlotBits] = {};
constinit std::uint32_t g_used = 0;

constexpr std::uint64_t first_slot(std::uint64_t block) noexcept {
  return detail::hash_of_block(block) >> (64 - kSlotBits);
}

// ---- x86-64 instructions -------------------------------------------------------------------------------

std::int32_t displacement(const unsigned char* at) noexcept {
  std::int32_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

/// The address to which the 4 bytes at `at`, which end an instruction, refer relative to the next instruction.
std::uint64_t relative_address(const unsigned char* at) noexcept {
  return reinterpret_cast<std::uint64_t>(at) + 4 + static_cast<std::uint64_t>(std::int64_t{displacement(at)});
}

const unsigned char* after_endbr64(const unsigned char* at) noexcept {
  constexpr unsigned char kEndbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
  return __builtin_memcmp(at, kEndbr64, sizeof kEndbr64) == 0 ? at + sizeof kEndbr64 : at;
}

/// Follows the code of PyObject_Free, which is `allocator.free(allocator.ctx, block)`. Compilers may insert a
/// comparison of the function with the usual one, whose code then follows inline; the other way is followed.
class ObjectFreeCode {
 public:
  /// Returns where the address of the function is; 0: the code is another one.
  std::uint64_t find(const unsigned char* at) noexcept {
    constexpr unsigned kMaxInstructions = 12;
    registers_[kRdi] = kBlock;
    if (!is_readable(at)) return 0;
    at = after_endbr64(at);
    for (unsigned i = 0; i != kMaxInstructions && at != nullptr && is_readable(at); ++i) {
      if (at[0] == 0xff && at[1] == 0x25) return checked(relative_address(at + 2));        // jmp *d(%rip)
      if (at[0] == 0xff && (at[1] & 0xf8) == 0xe0) return checked(registers_[at[1] & 7]);  // jmp *%reg
      at = next(at);
    }
    return 0;
  }

 private:
  static constexpr unsigned kRsi = 6, kRdi = 7;
  static constexpr std::uint64_t kBlock = 1;  ///< the argument of PyObject_Free
  /// PyMemAllocatorEx: ctx, malloc, calloc, realloc, free.
  static constexpr std::uint64_t kFreeOffset = 32;

  std::uint64_t checked(std::uint64_t place) const noexcept {
    return registers_[kRdi] == place - kFreeOffset && registers_[kRsi] == kBlock && place % 8 == 0 ? place : 0;
  }

  /// Whether the instruction at `at` can be read: in other code than that of PyObject_Free, a jump may lead anywhere.
  bool is_readable(const unsigned char* at) noexcept {
    constexpr std::uint64_t kPage = 4096, kMaxInstructionBytes = 8;
    const auto begin = reinterpret_cast<std::uint64_t>(at);
    for (std::uint64_t page = begin / kPage; page <= (begin + kMaxInstructionBytes - 1) / kPage; ++page) {
      if (page == readable_page_) continue;
      if (!unwind::probe(page * kPage)) return false;
      readable_page_ = page;
    }
    return true;
  }

  /// Executes one instruction. Returns the next one; null: it is unexpected.
  const unsigned char* next(const unsigned char* at) noexcept {
    if (at[0] == 0x0f && at[1] == 0x85)  // jne
      return reinterpret_cast<const unsigned char*>(relative_address(at + 2));
    if (at[0] == 0x75) return at + 2 + static_cast<signed char>(at[1]);
    if (at[0] != 0x48) return nullptr;
    const unsigned mode = at[2] >> 6, reg = at[2] >> 3 & 7, other = at[2] & 7;
    const bool relative = mode == 0 && other == 5;
    switch (at[1]) {
      case 0x8b:  // mov d(%rip), %reg
        if (!relative) return nullptr;
        registers_[reg] = relative_address(at + 3);
        return at + 7;
      case 0x8d:  // lea d(%rip), %reg
        if (!relative) return nullptr;
        registers_[reg] = 0;
        return at + 7;
      case 0x89:  // mov %reg, %other
        if (mode != 3) return nullptr;
        registers_[other] = registers_[reg];
        return at + 3;
      case 0x39:  // cmp
      case 0x3b: return mode == 3 ? at + 3 : nullptr;
      case 0x3d: return at + 6;
      case 0x81: return mode == 3 && reg == 7 ? at + 7 : nullptr;
      default: return nullptr;
    }
  }

  std::uint64_t registers_[8] = {};  ///< from which address each was loaded
  std::uint64_t readable_page_ = 0;
};

/// Returns where the address of the function is to which the instruction at `at` jumps, directly or by an entry of
/// the procedure linkage table; 0: it is another instruction.
std::uint64_t jump_target_place(const unsigned char* at, ReadablePages& pages) noexcept {
  constexpr unsigned kStubBytes = 16;
  if (at[0] == 0xe9) {
    const std::uint64_t stub = relative_address(at + 1);
    if (!pages.range(stub, kStubBytes)) return 0;
    at = after_endbr64(reinterpret_cast<const unsigned char*>(stub));
  }
  if (at[0] == 0xf2) ++at;  // bnd
  return at[0] == 0xff && at[1] == 0x25 ? relative_address(at + 2) : 0;
}

}  // namespace

void detail::count_freed_code(std::uint64_t block) noexcept {
  if constexpr (is_broken(Rule::kFreedCode)) return;
  for (std::uint64_t at = first_slot(block);; ++at) {
    Slot& slot = g_slots[at & kSlotMask];
    const std::uint64_t code = __atomic_load_n(&slot.code, __ATOMIC_RELAXED);
    if (code == 0) return;
    if (code != block) continue;
    __atomic_fetch_add(&slot.version, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&freed_code_objects, 1, __ATOMIC_RELEASE);
    return;
  }
}

VersionWord version_of_code(std::uint64_t code) noexcept {
  const std::uint64_t first = first_slot(code);
  for (std::uint64_t at = first;; ++at) {
    Slot& slot = g_slots[at & kSlotMask];
    std::uint64_t other = __atomic_load_n(&slot.code, __ATOMIC_RELAXED);
    if (other == code) return &slot.version;
    if (other != 0) continue;
    if (__atomic_add_fetch(&g_used, 1, __ATOMIC_RELAXED) > kMaxUsed) {
      __atomic_store_n(&detail::code_table_full, true, __ATOMIC_RELAXED);
      return nullptr;
    }
    if (!__atomic_compare_exchange_n(&slot.code, &other, code, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      __atomic_sub_fetch(&g_used, 1, __ATOMIC_RELAXED);
      if (other != code) continue;
      return &slot.version;
    }
    // The version last: if a signal handler leaves by longjmp before, frees at the address may not be counted, but
    // its version remains 0, which identifies nothing.
    __atomic_store_n(&detail::code_is_watched, true, __ATOMIC_RELAXED);
    recorder::watch_frees();
    const std::uint64_t bit = detail::hash_of_block(code) >> (64 - detail::kFilterBits);
    __atomic_fetch_or(&detail::code_filter[bit / 8], static_cast<std::uint8_t>(1u << bit % 8), __ATOMIC_RELAXED);
    __atomic_store_n(&slot.version, 1, __ATOMIC_RELEASE);
    return &slot.version;
  }
}

void CodeRelease::find(std::uint64_t object_free) noexcept {
  if (object_free == 0 || &heapprof_free_hook_address == nullptr) return;
  hook_ = reinterpret_cast<std::uint64_t>(heapprof_free_hook_address);
  place_ = ObjectFreeCode().find(reinterpret_cast<const unsigned char*>(object_free));
}

/// With PYTHONMALLOC=malloc the function is _PyMem_RawFree, which is `free(block)` of its second argument.
[[gnu::noinline]] bool CodeRelease::prove(std::uint64_t function, ReadablePages& pages) noexcept {
  if (function == __atomic_load_n(&rejected_, __ATOMIC_RELAXED)) return false;
  constexpr unsigned kFunctionBytes = 16;
  constexpr unsigned char kMove[] = {0x48, 0x89, 0xf7};  // mov %rsi, %rdi
  std::uint64_t called = 0;
  if (pages.range(function, kFunctionBytes)) {
    const auto* const at = after_endbr64(reinterpret_cast<const unsigned char*>(function));
    if (__builtin_memcmp(at, kMove, sizeof kMove) == 0) called = jump_target_place(at + sizeof kMove, pages);
  }
  if (called == 0 || !pages.object(called, sizeof(std::uint64_t))) {
    __atomic_store_n(&rejected_, function, __ATOMIC_RELAXED);
    return false;
  }
  if (word(called) != hook_) return false;  // another library's free, or it is not bound yet
  __atomic_store_n(&called_, called, __ATOMIC_RELAXED);
  __atomic_store_n(&proven_, function, __ATOMIC_RELEASE);
  return true;
}

}  // namespace heapprof::python
