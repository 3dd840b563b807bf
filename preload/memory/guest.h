/* Put in front of every C file of mimalloc and of libunwind's generic library by tools/deps.sh
 * (-include): the libraries inside the recorder become guests as it is one itself. Whatever in them would
 * reach the kernel, the heap, a lock, a signal mask, errno, the environment or a thread's storage is renamed
 * here to a function of preload/memory/guest.cpp, or to nothing.
 *
 * What it relies on: no two threads are in one of the libraries at a time, nor a thread twice. The callers
 * see to that (memory/own_memory.cpp, the unwinder's fallback), by try-locks that fail rather than wait.
 *
 * The system's headers come first, so that the renaming does not touch their declarations. */
#ifndef HEAPPROF_PRELOAD_MEMORY_GUEST_H
#define HEAPPROF_PRELOAD_MEMORY_GUEST_H

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* The kernel, by raw system calls; results and failures as libc's, without errno. */
void* heapprof_guest_mmap(void* address, size_t bytes, int protection, int flags, int fd, long offset);
int heapprof_guest_munmap(void* address, size_t bytes);
int heapprof_guest_mprotect(void* address, size_t bytes, int protection);
int heapprof_guest_madvise(void* address, size_t bytes, int advice);
long heapprof_guest_random(void* buffer, size_t bytes);

/* The recorder's own memory. */
void* heapprof_guest_malloc(size_t bytes);
void* heapprof_guest_calloc(size_t count, size_t bytes);
void heapprof_guest_free(void* block);

#define mmap heapprof_guest_mmap
#define munmap heapprof_guest_munmap
#define mprotect heapprof_guest_mprotect
#define madvise heapprof_guest_madvise
#define malloc heapprof_guest_malloc
#define calloc heapprof_guest_calloc
#define free heapprof_guest_free

/* The only system call either makes by number and needs is getrandom(buffer, bytes, flags). */
#define syscall(number, ...) heapprof_guest_system_call_##number(__VA_ARGS__, 0, 0, 0)
#define heapprof_guest_system_call_SYS_getrandom(buffer, bytes, ...) heapprof_guest_random((buffer), (bytes))
#define heapprof_guest_system_call_SYS_getcpu(...) (-1)
#define heapprof_guest_system_call_SYS_mbind(...) (-1)
#define heapprof_guest_system_call_SYS_write(...) (-1)

/* Files and descriptors: none. Both libraries go on without what they would have read. */
#define open(...) (-1)
#define openat(...) (-1)
#define read(...) (-1)
#define write(...) (-1)
#define close(...) (-1)
#define access(...) (-1)
#define stat(path, status) ((void)(status), -1)
#define fstat(fd, status) ((void)(status), -1)
#define pipe2(...) (-1)
#define mincore(...) (-1)
#define msync(...) (-1)
#define getpid() 0
#define getenv(name) ((char*)0)
#define fputs(...) (-1)
#define snprintf(...) 0
#define vsnprintf(...) 0
#define fprintf(...) 0
#define printf(...) 0
#undef stdout
#undef stderr
#define stdout ((FILE*)0)
#define stderr ((FILE*)0)
#define strerror(number) ""
#define realpath(path, resolved) ((char*)0)
#define sysconf(name) ((name) == _SC_PAGESIZE ? (long)getpagesize() : -1L)
#define getrusage(who, usage) (memset((usage), 0, sizeof *(usage)), 0)
#define clock_gettime(clock, time) (memset((time), 0, sizeof *(time)), 0)
#define atexit(function) ((void)(function), 0)

/* One at a time: no locks, no masks, one thread. */
#undef errno
#define errno heapprof_guest_errno
static int heapprof_guest_errno __attribute__((unused));
#define sigprocmask(...) 0
#define pthread_mutex_init(...) 0
#define pthread_mutex_lock(...) 0
#define pthread_mutex_unlock(...) 0
#define pthread_key_create(key, destructor) ((void)(destructor), *(key) = 0, 0)
#define pthread_key_delete(...) 0
#define pthread_setspecific(...) 0
#define pthread_getspecific(...) ((void*)0)
#define pthread_once(...) (-1)

/* mimalloc: its thread-local heap becomes a plain variable, and the address of that its thread's identity
 * (the way it takes on a libc it does not know); its constructor is not one. */
#define MI_NO_GETENV 1
#define __thread
#define _Thread_local
#undef __GLIBC__
#define constructor unused
#define destructor unused

#endif
