#include "preload/real/substitutes.h"

#include <sys/auxv.h>

#include <cstddef>
#include <cstdint>

#include "preload/real/functions.h"

namespace heapprof::real {

namespace {

template <typename Function>
void fill(Function*& member, Function* substitute) noexcept {
  if (__atomic_load_n(&member, __ATOMIC_RELAXED) == nullptr) __atomic_store_n(&member, substitute, __ATOMIC_RELAXED);
}

/// Without the size, or with one that no block can have, the real function fails and sets errno.
void* reallocarray_by_realloc(void* block, std::size_t count, std::size_t size) noexcept {
  std::size_t total;
  if (__builtin_mul_overflow(count, size, &total)) total = PTRDIFF_MAX;
  return g_functions.realloc(block, total);
}

void* pvalloc_by_valloc(std::size_t size) noexcept {
  const std::size_t page = getauxval(AT_PAGESZ);
  const std::size_t rounded = (size + page - 1) & ~(page - 1);
  return g_functions.valloc(rounded >= size ? rounded : size);
}

// The sizes of the buffers were checked by whoever built the program.

std::ptrdiff_t readlink_unchecked(const char* path, char* buffer, std::size_t bytes, std::size_t) noexcept {
  return g_functions.readlink(path, buffer, bytes);
}

std::ptrdiff_t readlinkat_unchecked(int directory, const char* path, char* buffer, std::size_t bytes,
                                    std::size_t) noexcept {
  return g_functions.readlinkat(directory, path, buffer, bytes);
}

char* realpath_unchecked(const char* path, char* resolved, std::size_t) noexcept {
  return g_functions.realpath(path, resolved);
}

char* canonicalize_by_realpath(const char* path) noexcept { return g_functions.realpath(path, nullptr); }

}  // namespace

void substitute_missing_functions() noexcept {
  fill(g_functions.reallocarray, reallocarray_by_realloc);
  fill(g_functions.pvalloc, pvalloc_by_valloc);
  fill(g_functions.mmap64, g_functions.mmap);
  fill(g_functions.__readlink_chk, readlink_unchecked);
  fill(g_functions.__readlinkat_chk, readlinkat_unchecked);
  fill(g_functions.__realpath_chk, realpath_unchecked);
  fill(g_functions.canonicalize_file_name, canonicalize_by_realpath);
}

}  // namespace heapprof::real
