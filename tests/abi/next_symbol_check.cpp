// A library to preload: compares the results of real/next_symbol.h with dlsym's: for the names of the hooks, for
// functions with several versions or with resolvers (IFUNC), and for functions that do not exist.
#include <dlfcn.h>
#include <sys/auxv.h>

#include <cstddef>
#include <cstdio>

#include "preload/real/functions.h"
#include "preload/real/next_symbol.h"

namespace {

/// Where the program is loaded.
void* program_base() {
  Dl_info program;
  return dladdr(reinterpret_cast<void*>(getauxval(AT_ENTRY)), &program) == 0 ? nullptr : program.dli_fbase;
}

/// dlsym's result. In a program that is linked to a fixed address (Debian's python3), the address of a function is an
/// entry of the program's PLT, and dlsym finds that instead of the definition to which it leads.
void* find_with_dlsym(bool next, const char* name) {
  if (next) return dlsym(RTLD_NEXT, name);
  void* const found = dlsym(RTLD_DEFAULT, name);
  Dl_info at;
  if (found == nullptr || dladdr(found, &at) == 0 || at.dli_fbase != program_base()) return found;
  return heapprof::real::program_defines(name) ? found : dlsym(RTLD_NEXT, name);
}

[[gnu::constructor]] void compare() {
  int found = 0;
  int differ = 0;
  for (const char* name : {
#define HEAPPROF_NAME(result, name, parameters) #name,
           HEAPPROF_REAL_FUNCTIONS(HEAPPROF_NAME) HEAPPROF_OPTIONAL_REAL_FUNCTIONS(HEAPPROF_NAME)
#undef HEAPPROF_NAME
               "memcpy",
           "strlen", "time", "pthread_create", "realpath", "fmemopen", "posix_spawn", "glob64", "printf", "dlsym",
           "__libc_memalign", "_dl_find_object", "__tls_get_addr", "heapprof_no_such_function", "", "a"}) {
    for (const bool next : {true, false}) {
      void* ours = next ? heapprof::real::next_symbol(name) : heapprof::real::first_symbol(name);
      void* theirs = find_with_dlsym(next, name);
      found += ours != nullptr;
      if (ours == theirs) continue;
      ++differ;
      std::fprintf(stderr, "%s %s: %p, dlsym finds %p\n", next ? "next" : "first", name, ours, theirs);
    }
  }
  const char* const names[] = {"malloc", "memcpy", "heapprof_no_such_function", "printf", "malloc", "cfree"};
  constexpr std::size_t kNames = sizeof names / sizeof *names;
  void* several[kNames];
  heapprof::real::following_symbols(names, several, kNames);
  for (std::size_t i = 0; i < kNames; ++i) {
    if (several[i] == heapprof::real::following_symbol(names[i])) continue;
    ++differ;
    std::fprintf(stderr, "%s: another definition with several names\n", names[i]);
  }
  std::fprintf(stderr, "next_symbol: %d found, %d differ\n", found, differ);
}

}  // namespace
