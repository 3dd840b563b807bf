#include "preload/python/stack_traits.h"

#include "preload/python/interpreter.h"
#include "preload/sys/kernel.h"

namespace heapprof::python {

namespace detail {
constinit std::uint8_t* traits_chunks[kTraitsChunks] = {};
}

void store_traits(NodeId node, NodeId parent, ModuleId module, bool signal) noexcept {
  if (node == NodeId::kNone) return;
  std::uint8_t bits = traits_of(parent).bits();
  if (const std::uint32_t number = interpreter_number(module))
    bits = static_cast<std::uint8_t>((bits & ~StackTraits::kInterpreter) | number);
  if (signal) bits |= StackTraits::kSignal;
  std::uint8_t*& place = detail::traits_chunks[raw(node) / detail::kTraitsChunk];
  std::uint8_t* chunk = __atomic_load_n(&place, __ATOMIC_ACQUIRE);
  if (chunk == nullptr) {
    if (bits == 0) return;
    auto* const mapped = static_cast<std::uint8_t*>(sys::map_private(detail::kTraitsChunk));
    if (mapped == nullptr) return;  // no Python frames in these stacks
    if (__atomic_compare_exchange_n(&place, &chunk, mapped, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      chunk = mapped;
    else sys::unmap_private(mapped, detail::kTraitsChunk);
  }
  __atomic_store_n(chunk + raw(node) % detail::kTraitsChunk, bits, __ATOMIC_RELAXED);
}

}  // namespace heapprof::python
