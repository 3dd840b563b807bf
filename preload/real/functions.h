// The real functions: those that the host would call without the recorder. Hooks call them through this table.
//
// The first hook that runs finds all of them (next_symbol.h). The search works as soon as the loader has
// relocated this library, in any thread, without a lock, an allocation or a system call. Two threads may search at
// once, because both store the same addresses. No bootstrap allocator is needed: allocations by the loader and
// constructors before libc has started are served by the real allocator and are not recorded (recorder/lifecycle.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace heapprof::real {

/// Result, name and parameters of every function that each supported glibc has; substitutes.h has those that musl
/// lacks.
#define HEAPPROF_REAL_FUNCTIONS(X)                                                         \
  X(void*, malloc, (std::size_t))                                                          \
  X(void*, calloc, (std::size_t, std::size_t))                                             \
  X(void*, realloc, (void*, std::size_t))                                                  \
  X(void*, reallocarray, (void*, std::size_t, std::size_t))                                \
  X(void, free, (void*))                                                                   \
  X(int, posix_memalign, (void**, std::size_t, std::size_t))                               \
  X(void*, aligned_alloc, (std::size_t, std::size_t))                                      \
  X(void*, memalign, (std::size_t, std::size_t))                                           \
  X(void*, valloc, (std::size_t))                                                          \
  X(void*, pvalloc, (std::size_t))                                                         \
  X(void*, mmap, (void*, std::size_t, int, int, int, std::int64_t))                        \
  X(void*, mmap64, (void*, std::size_t, int, int, int, std::int64_t))                      \
  X(int, munmap, (void*, std::size_t))                                                     \
  X(void*, mremap, (void*, std::size_t, std::size_t, int, void*))                          \
  X(int, brk, (void*))                                                                     \
  X(void*, sbrk, (std::intptr_t))                                                          \
  X(int, prctl, (int, unsigned long, unsigned long, unsigned long, unsigned long))         \
  X(long, syscall, (long, long, long, long, long, long, long))                             \
  X(std::ptrdiff_t, readlink, (const char*, char*, std::size_t))                           \
  X(std::ptrdiff_t, __readlink_chk, (const char*, char*, std::size_t, std::size_t))        \
  X(std::ptrdiff_t, readlinkat, (int, const char*, char*, std::size_t))                    \
  X(std::ptrdiff_t, __readlinkat_chk, (int, const char*, char*, std::size_t, std::size_t)) \
  X(char*, realpath, (const char*, char*))                                                 \
  X(char*, __realpath_chk, (const char*, char*, std::size_t))                              \
  X(char*, canonicalize_file_name, (const char*))                                          \
  X(void, _exit, (int))                                                                    \
  X(void, _Exit, (int))                                                                    \
  X(void, quick_exit, (int))                                                               \
  X(int, execve, (const char*, char* const*, char* const*))                                \
  X(int, execv, (const char*, char* const*))                                               \
  X(int, execvp, (const char*, char* const*))                                              \
  X(int, execvpe, (const char*, char* const*, char* const*))                               \
  X(int, fexecve, (int, char* const*, char* const*))

/// The same for functions that some libcs or processes lack. They are null there.
#define HEAPPROF_OPTIONAL_REAL_FUNCTIONS(X)                        \
  X(void, cfree, (void*))                   /* until glibc 2.25 */ \
  X(void, free_sized, (void*, std::size_t)) /* C23 */              \
  X(void, free_aligned_sized, (void*, std::size_t, std::size_t))

struct Functions {
  std::atomic<bool> found;
#define HEAPPROF_MEMBER(result, name, parameters) result(*name) parameters noexcept;
  HEAPPROF_REAL_FUNCTIONS(HEAPPROF_MEMBER)
  HEAPPROF_OPTIONAL_REAL_FUNCTIONS(HEAPPROF_MEMBER)
#undef HEAPPROF_MEMBER
  /// The free that the program's own calls reach: the hook, or the free of a library before this one.
  void (*program_free)(void*) noexcept;
};

extern Functions g_functions [[gnu::visibility("hidden")]];

/// Fills the table. Safe from any thread and at any time after relocation.
void find_functions() noexcept;

/// Makes the hooks call `new_address` instead of `old_address`, whose entry has been patched (preload/intercept).
/// Replaces every member that equals `old_address`. Precondition: the library's constructor, one thread.
void redirect(const void* old_address, const void* new_address) noexcept;

/// Returns whether some member of the table equals `address`.
bool contains(const void* address) noexcept;

/// The table, filled. Costs one load and one branch.
inline const Functions& functions() noexcept {
  if (!g_functions.found.load(std::memory_order_acquire)) [[unlikely]]
    find_functions();
  return g_functions;
}

}  // namespace heapprof::real
