#include "preload/real/functions.h"

#include <cstddef>
#include <iterator>

#include "preload/real/next_symbol.h"
#include "preload/real/substitutes.h"

namespace heapprof::real {

constinit Functions g_functions{};

namespace {

/// Atomic, because two threads may store the same address at once.
template <typename Function>
void set(Function*& member, void* function) noexcept {
  __atomic_store_n(&member, reinterpret_cast<Function*>(function), __ATOMIC_RELAXED);
}

}  // namespace

void find_functions() noexcept {
#define HEAPPROF_NAME(result, name, parameters) #name,
  static constexpr const char* kNames[] = {HEAPPROF_REAL_FUNCTIONS(HEAPPROF_NAME)
                                               HEAPPROF_OPTIONAL_REAL_FUNCTIONS(HEAPPROF_NAME)};
#undef HEAPPROF_NAME
  void* found[std::size(kNames)];
  following_symbols(kNames, found, std::size(kNames));
  void* const* next = found;
#define HEAPPROF_SET(result, name, parameters)                          \
  set(g_functions.name, *next != nullptr ? *next : next_symbol(#name)); \
  ++next;
  HEAPPROF_REAL_FUNCTIONS(HEAPPROF_SET)
#undef HEAPPROF_SET
  // Objects before this library are not searched: if libc lacks the function, one that the program defines is not
  // libc's, and the program does not call it through the hook.
#define HEAPPROF_SET(result, name, parameters) set(g_functions.name, *next++);
  HEAPPROF_OPTIONAL_REAL_FUNCTIONS(HEAPPROF_SET)
#undef HEAPPROF_SET
  set(g_functions.program_free, first_symbol("free"));
  substitute_missing_functions();
  g_functions.found.store(true, std::memory_order_release);
}

void redirect(const void* old_address, const void* new_address) noexcept {
#define HEAPPROF_REDIRECT(result, name, parameters)                   \
  if (reinterpret_cast<const void*>(g_functions.name) == old_address) \
    set(g_functions.name, const_cast<void*>(new_address));
  HEAPPROF_REAL_FUNCTIONS(HEAPPROF_REDIRECT)
  HEAPPROF_OPTIONAL_REAL_FUNCTIONS(HEAPPROF_REDIRECT)
#undef HEAPPROF_REDIRECT
}

bool contains(const void* address) noexcept {
  const Functions& table = functions();
#define HEAPPROF_COMPARE(result, name, parameters) \
  if (address == reinterpret_cast<const void*>(table.name)) return true;
  HEAPPROF_REAL_FUNCTIONS(HEAPPROF_COMPARE)
  HEAPPROF_OPTIONAL_REAL_FUNCTIONS(HEAPPROF_COMPARE)
#undef HEAPPROF_COMPARE
  return false;
}

}  // namespace heapprof::real
