// Included before everything else by the programs for musl, each of which is compiled from one file: what they take
// from libstdc++'s library, operators new and delete; and functions of glibc that musl lacks.
#pragma once

#include <bits/c++config.h>
// Functions of glibc, which libstdc++ was configured for.
#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
#undef _GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <ucontext.h>

#include <new>

/// Destructors of thread-local objects. libgcc's way without a function of libc is a key, too.
extern "C" [[gnu::used]] inline int __cxa_thread_atexit(void (*destroy)(void*), void* object, void*) {
  struct Registration {
    void (*destroy)(void*);
    void* object;
    Registration* next;
  };
  static Registration registrations[256];
  static std::size_t used;
  static pthread_key_t key;
  static const int created = pthread_key_create(&key, [](void* list) {
    for (auto* each = static_cast<Registration*>(list); each != nullptr; each = each->next)
      each->destroy(each->object);
  });
  const std::size_t index = __atomic_fetch_add(&used, 1, __ATOMIC_RELAXED);
  if (created != 0 || index >= sizeof registrations / sizeof *registrations) abort();
  registrations[index] = {destroy, object, static_cast<Registration*>(pthread_getspecific(key))};
  return pthread_setspecific(key, &registrations[index]);
}

/// The recorder defines it, but musl does not: a program that is linked with musl cannot call it.
inline void* pvalloc(std::size_t size) { return valloc(size); }

constexpr int M_ARENA_MAX = -8;
inline int mallopt(int, int) { return 1; }

// The tests that need these are skipped with musl.
constexpr int RTLD_DEEPBIND = 0;
constexpr int LM_ID_NEWLM = -1;
inline void* dlmopen(int, const char*, int) { return nullptr; }
extern "C" {
inline int getcontext(ucontext_t*) { abort(); }
inline int swapcontext(ucontext_t*, const ucontext_t*) { abort(); }
inline void makecontext(ucontext_t*, void (*)(), int, ...) { abort(); }
}

const std::nothrow_t std::nothrow{};

void* operator new(std::size_t size) {
  void* const block = malloc(size != 0 ? size : 1);
  if (block == nullptr) abort();
  return block;
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  void* const block = aligned_alloc(align, size != 0 ? (size + align - 1) & ~(align - 1) : align);
  if (block == nullptr) abort();
  return block;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return malloc(size != 0 ? size : 1); }
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return operator new(size, alignment); }
void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept { return operator new(size, tag); }
void operator delete(void* block) noexcept { free(block); }
void operator delete(void* block, std::size_t) noexcept { free(block); }
void operator delete(void* block, std::align_val_t) noexcept { free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { free(block); }
void operator delete[](void* block) noexcept { operator delete(block); }
void operator delete[](void* block, std::size_t) noexcept { operator delete(block); }
void operator delete[](void* block, std::align_val_t) noexcept { operator delete(block); }
