// The functions behind the hooks. All are looked up together, at the first call of any hook: from the
// library's relocation on, that is possible at every moment, in every thread, without lock, memory or
// system call (real/next_symbol.h). Two threads may do it at once; both find the same.
//
// So no call ever has to be served from elsewhere: what the loader and libraries' constructors allocate
// before libc has started goes to the real allocator as it would without us, and the recorder takes no
// note of it (recorder/lifecycle.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace heapprof::hooks {

/// Result, name, parameters of every real function that libc of any supported version has.
#define HEAPPROF_REAL_FUNCTIONS(X)                                                                     \
  X(void*, malloc, (std::size_t))                                                                      \
  X(void*, calloc, (std::size_t, std::size_t))                                                         \
  X(void*, realloc, (void*, std::size_t))                                                              \
  X(void*, reallocarray, (void*, std::size_t, std::size_t))                                            \
  X(void, free, (void*))                                                                               \
  X(int, posix_memalign, (void**, std::size_t, std::size_t))                                           \
  X(void*, aligned_alloc, (std::size_t, std::size_t))                                                  \
  X(void*, memalign, (std::size_t, std::size_t))                                                       \
  X(void*, valloc, (std::size_t))                                                                      \
  X(void*, pvalloc, (std::size_t))                                                                     \
  X(void*, mmap, (void*, std::size_t, int, int, int, std::int64_t))                                    \
  X(void*, mmap64, (void*, std::size_t, int, int, int, std::int64_t))                                  \
  X(int, munmap, (void*, std::size_t))                                                                 \
  X(void*, mremap, (void*, std::size_t, std::size_t, int, void*))                                      \
  X(int, brk, (void*))                                                                                 \
  X(void*, sbrk, (std::intptr_t))                                                                      \
  X(int, prctl, (int, unsigned long, unsigned long, unsigned long, unsigned long))                     \
  X(long, syscall, (long, long, long, long, long, long, long))                                         \
  X(std::ptrdiff_t, readlink, (const char*, char*, std::size_t))                                       \
  X(std::ptrdiff_t, __readlink_chk, (const char*, char*, std::size_t, std::size_t))                    \
  X(std::ptrdiff_t, readlinkat, (int, const char*, char*, std::size_t))                                \
  X(std::ptrdiff_t, __readlinkat_chk, (int, const char*, char*, std::size_t, std::size_t))             \
  X(char*, realpath, (const char*, char*))                                                             \
  X(char*, __realpath_chk, (const char*, char*, std::size_t))                                          \
  X(char*, canonicalize_file_name, (const char*))

/// Those that are missing from some libcs or some processes; null then.
#define HEAPPROF_REAL_FUNCTIONS_MAYBE(X)                                          \
  X(void, cfree, (void*))                            /* until glibc 2.25 */       \
  X(void, free_sized, (void*, std::size_t))          /* C23 */                    \
  X(void, free_aligned_sized, (void*, std::size_t, std::size_t))

struct RealFunctions {
  std::atomic<bool> found;
#define HEAPPROF_MEMBER(result, name, parameters) result(*name) parameters noexcept;
  HEAPPROF_REAL_FUNCTIONS(HEAPPROF_MEMBER)
  HEAPPROF_REAL_FUNCTIONS_MAYBE(HEAPPROF_MEMBER)
  void (*program_free)(void*) noexcept;  ///< the free that programs reach, ours or that of a library before us
#undef HEAPPROF_MEMBER
};

extern RealFunctions g_real [[gnu::visibility("hidden")]];

void find_real_functions() noexcept;

/// The function at `old_address` is diverted at its entry (preload/intercept): hooks are to go past that, to
/// `new_address`. Whichever members it is. In the library's constructor, while there is one thread.
void move_real_function(const void* old_address, const void* new_address) noexcept;

/// Whether it is one of those behind the hooks.
bool is_real_function(const void* address) noexcept;

/// One load and one branch.
inline const RealFunctions& real() noexcept {
  if (!g_real.found.load(std::memory_order_acquire)) [[unlikely]] find_real_functions();
  return g_real;
}

}  // namespace heapprof::hooks
