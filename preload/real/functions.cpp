#include "preload/real/functions.h"

#include "preload/real/next_symbol.h"

namespace heapprof::hooks {

constinit RealFunctions g_real{};

namespace {

/// Two threads may write the same word at once: each store is whole.
template <typename Function>
void set(Function*& member, void* function) noexcept {
  __atomic_store_n(&member, reinterpret_cast<Function*>(function), __ATOMIC_RELAXED);
}

}  // namespace

void find_real_functions() noexcept {
#define HEAPPROF_FIND(result, name, parameters) set(g_real.name, next_symbol(#name));
  HEAPPROF_REAL_FUNCTIONS(HEAPPROF_FIND)
#undef HEAPPROF_FIND
  // Where libc has none, a program's own must not be taken for libc's: it would count as seen to by the hooks.
#define HEAPPROF_FIND(result, name, parameters) set(g_real.name, following_symbol(#name));
  HEAPPROF_REAL_FUNCTIONS_MAYBE(HEAPPROF_FIND)
#undef HEAPPROF_FIND
  set(g_real.program_free, first_symbol("free"));
  g_real.found.store(true, std::memory_order_release);
}

void move_real_function(const void* old_address, const void* new_address) noexcept {
#define HEAPPROF_MOVE(result, name, parameters) \
  if (reinterpret_cast<const void*>(g_real.name) == old_address) set(g_real.name, const_cast<void*>(new_address));
  HEAPPROF_REAL_FUNCTIONS(HEAPPROF_MOVE)
  HEAPPROF_REAL_FUNCTIONS_MAYBE(HEAPPROF_MOVE)
#undef HEAPPROF_MOVE
}

bool is_real_function(const void* address) noexcept {
  const RealFunctions& functions = real();
#define HEAPPROF_COMPARE(result, name, parameters) \
  if (address == reinterpret_cast<const void*>(functions.name)) return true;
  HEAPPROF_REAL_FUNCTIONS(HEAPPROF_COMPARE)
  HEAPPROF_REAL_FUNCTIONS_MAYBE(HEAPPROF_COMPARE)
#undef HEAPPROF_COMPARE
  return false;
}

}  // namespace heapprof::hooks
