/* Calls malloc, mmap and related functions, also in constructors, in key destructors and after main, and prints
 * what a program can see of them: results, errno, alignment, content. The output does not contain addresses.
 * behaviour_test.py compares the output of runs with and without the recorder.
 *
 * Built with -O0 -fno-builtin, so that the compiler removes no call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* behaviour_library.c */
int library_allocated_in_constructor(void);

enum { kUnsetErrno = 77 }; /* no call below sets errno to this value */

static char g_text[1 << 16];
static size_t g_length;

/* Without stdio, which allocates. */
static void print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_length += (size_t)vsnprintf(g_text + g_length, sizeof g_text - g_length, format, arguments);
  va_end(arguments);
}

static void flush(void) {
  size_t at = 0;
  while (at < g_length) {
    ssize_t written = write(1, g_text + at, g_length - at);
    if (written <= 0) _exit(9);
    at += (size_t)written;
  }
  g_length = 0;
}

static int aligned(const void* p, size_t alignment) { return (uintptr_t)p % alignment == 0; }

/* Makes one call, and prints its result and errno. */
#define POINTER(call)                                                                \
  do {                                                                               \
    errno = kUnsetErrno;                                                             \
    void* result_ = (void*)(call);                                                   \
    int error_ = errno;                                                              \
    print("%s: %s errno %d usable %zu\n", #call, result_ ? "block" : "null", error_, \
          result_ ? malloc_usable_size(result_) : (size_t)0);                        \
    free(result_);                                                                   \
  } while (0)
#define NUMBER(call)                                     \
  do {                                                   \
    errno = kUnsetErrno;                                 \
    long result_ = (long)(call);                         \
    int error_ = errno;                                  \
    print("%s: %ld errno %d\n", #call, result_, error_); \
  } while (0)
/* The same for mappings: only whether the call failed. */
#define MAPPING(call)                                                                       \
  do {                                                                                      \
    errno = kUnsetErrno;                                                                    \
    void* result_ = (void*)(call);                                                          \
    int error_ = errno;                                                                     \
    print("%s: %s errno %d\n", #call, result_ == MAP_FAILED ? "failed" : "mapped", error_); \
  } while (0)

/* ---- before libc is ready ---- */

#ifdef __GLIBC__
/* Resolved while the loader relocates this program, before any constructor, also libc's, has run. */
static char* g_from_resolver;
static int answer(void) { return 42; }
static int (*resolve_answer(void))(void) {
  char* block = malloc(100);
  if (block != NULL) {
    block[0] = 'r';
    block = realloc(block, 5000);
    free(calloc(3, 7));
  }
  g_from_resolver = block;
  return answer;
}
int early_answer(void) __attribute__((ifunc("resolve_answer")));
#else /* musl has no such functions, and no pvalloc */
static char* g_from_resolver;
static int early_answer(void) { return 42; }
__attribute__((constructor(101))) static void resolve_answer(void) {
  g_from_resolver = realloc(malloc(100), 5000);
  g_from_resolver[0] = 'r';
}
#define pvalloc(size) valloc(((size) + 4095) & ~(size_t)4095)
#endif

static void* g_from_constructor;
__attribute__((constructor(101))) static void first_constructor(void) { g_from_constructor = malloc(300); }

static void before_main(void) {
  print("resolver: %d '%c' usable %zu\n", early_answer(), g_from_resolver[0], malloc_usable_size(g_from_resolver));
  g_from_resolver = realloc(g_from_resolver, 20);
  print("resolver's block after realloc: '%c'\n", g_from_resolver[0]);
  free(g_from_resolver);
  print("constructor: usable %zu\n", malloc_usable_size(g_from_constructor));
  free(g_from_constructor);
  print("library's constructor: %d\n", library_allocated_in_constructor());
}

/* ---- the heap ---- */

static volatile size_t g_huge = SIZE_MAX - 64; /* volatile: compilers evaluate calls with known sizes */
static volatile size_t g_half = SIZE_MAX / 2 + 10;
static volatile size_t g_zero = 0;

static void heap(void) {
  for (size_t size = 0; size <= 70000; size = size * 2 + 7) {
    void* block = malloc(size);
    print("malloc(%zu): aligned %d usable %zu\n", size, aligned(block, 2 * sizeof(void*)), malloc_usable_size(block));
    free(block);
  }
  POINTER(malloc(g_huge));
  POINTER(malloc(1 << 20));
  POINTER(calloc(0, 0));
  POINTER(calloc(g_half, 2));
  POINTER(calloc(g_huge, 1));
  POINTER(calloc(1000, 1000));

  unsigned char* dirty = malloc(3000);
  memset(dirty, 0xff, 3000);
  free(dirty);
  unsigned char* clean = calloc(3, 1000);
  int sum = 0;
  for (int i = 0; i < 3000; ++i) sum += clean[i];
  print("calloc content: %d\n", sum);
  free(clean);

  POINTER(realloc(NULL, 0));
  POINTER(realloc(NULL, 50));
  POINTER(realloc(NULL, g_huge));
  errno = kUnsetErrno;
  void* gone = realloc(malloc(10), g_zero);
  print("realloc(p, 0): %s errno %d\n", gone ? "block" : "null", errno);
  char* text = malloc(16);
  strcpy(text, "kept");
  errno = kUnsetErrno;
  void* failed = realloc(text, g_huge);
  print("realloc(p, huge): %s errno %d '%s'\n", failed ? "block" : "null", errno, text);
  errno = kUnsetErrno;
  text = realloc(text, 300000);
  print("realloc(p, 300000): '%s' errno %d\n", text, errno);
  text = reallocarray(text, 3, 7);
  print("reallocarray(p, 3, 7): '%s' usable %zu\n", text, malloc_usable_size(text));
  errno = kUnsetErrno;
  failed = reallocarray(text, g_half, 2);
  print("reallocarray(p, overflow): %s errno %d '%s'\n", failed ? "block" : "null", errno, text);
  POINTER(reallocarray(NULL, 4, 4));
  POINTER(reallocarray(NULL, g_half, 4));
  errno = kUnsetErrno;
  gone = reallocarray(text, 0, 8);
  print("reallocarray(p, 0, 8): %s errno %d\n", gone ? "block" : "null", errno);

  errno = kUnsetErrno;
  free(NULL);
  print("free(NULL): errno %d\n", errno);
  errno = kUnsetErrno;
  free(malloc(1 << 22));
  print("free(mapped block): errno %d\n", errno);

  for (size_t alignment = 1; alignment <= 1 << 16; alignment *= 2) {
    void* block = (void*)1;
    errno = kUnsetErrno;
    int result = posix_memalign(&block, alignment, alignment + 3);
    print("posix_memalign(%zu): %d errno %d ", alignment, result, errno);
    if (result == 0) {
      print("aligned %d\n", aligned(block, alignment));
      free(block);
    } else {
      print("pointer %s\n", block == (void*)1 ? "untouched" : "changed");
    }
    block = aligned_alloc(alignment, 2 * alignment);
    print("aligned_alloc(%zu): aligned %d\n", alignment, aligned(block, alignment));
    free(block);
    block = memalign(alignment, 100);
    print("memalign(%zu): aligned %d\n", alignment, aligned(block, alignment));
    free(block);
  }
  void* untouched = (void*)1;
  NUMBER(posix_memalign(&untouched, 24, 10));
  NUMBER(posix_memalign(&untouched, 64, g_huge));
  print("posix_memalign failed: pointer %s\n", untouched == (void*)1 ? "untouched" : "changed");
  POINTER(aligned_alloc(24, 48));
  POINTER(aligned_alloc(64, g_huge));
  POINTER(memalign(24, 10));
  POINTER(memalign(g_half, 10));
  void* page = valloc(10);
  print("valloc: aligned %d\n", aligned(page, 4096));
  free(page);
  page = pvalloc(10);
  print("pvalloc: aligned %d room %d\n", aligned(page, 4096), malloc_usable_size(page) >= 4096);
  free(page);
  POINTER(valloc(g_huge));
  POINTER(pvalloc(g_huge));
}

/* ---- mappings ---- */

static void mappings(void) {
  const size_t page = 4096;
  MAPPING(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  MAPPING(mmap(NULL, page, PROT_READ, MAP_PRIVATE, -1, 0));
  MAPPING(mmap(NULL, page, PROT_READ, 0, -1, 0));
  MAPPING(mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 17));
  MAPPING(mmap(NULL, SIZE_MAX / 4, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  MAPPING(mmap((void*)1, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));

  char* low = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  print("MAP_32BIT: %d\n", low != MAP_FAILED && (uintptr_t)low < (1ull << 32));
  NUMBER(munmap(low, page));
  NUMBER(munmap(low + 1, page));
  NUMBER(munmap(low, 0));

  char path[] = "/tmp/heapprof-behaviour-XXXXXX";
  int file = mkstemp(path);
  unlink(path);
  const off_t far = ((off_t)5 << 30) + (off_t)page;
  if (pwrite(file, "far", 3, far) == 3) {
    char* mapped = mmap(NULL, page, PROT_READ, MAP_SHARED, file, far);
    print("mmap at 5 GiB: '%.3s'\n", mapped);
    munmap(mapped, page);
    mapped = mmap64(NULL, page, PROT_READ, MAP_PRIVATE, file, far);
    print("mmap64 at 5 GiB: '%.3s'\n", mapped);
    munmap(mapped, page);
  }
  MAPPING(mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 1));
  close(file);

  char* block = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  block[0] = 'a';
  block[3 * page] = 'd';
  NUMBER(munmap(block + page, page));
  print("a hole: '%c' '%c'\n", block[0], block[3 * page]);
  NUMBER(munmap(block, 4 * page));
  block = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  block[0] = 'm';
  block = mremap(block, 2 * page, 64 * page, MREMAP_MAYMOVE);
  print("mremap grown: '%c' '%d'\n", block[0], block[63 * page]);
  errno = kUnsetErrno;
  print("mremap shrunk in place: %d\n", mremap(block, 64 * page, page, 0) == block);
  MAPPING(mremap(block, page, SIZE_MAX / 4, MREMAP_MAYMOVE));
  MAPPING(mremap(block + 1, page, page, 0));
  MAPPING(mremap((void*)page, page, 2 * page, MREMAP_MAYMOVE));
  MAPPING(mremap(block, page, 0, MREMAP_MAYMOVE));
  char* place = mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  print("mremap fixed: %d", mremap(block, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
  print(" '%c'\n", place[0]);
  char* twin = mremap(place, page, page, MREMAP_MAYMOVE | 4 /* MREMAP_DONTUNMAP */);
  if (twin != MAP_FAILED) {
    print("mremap, old range kept: '%c' %d\n", twin[0], place[0]);
    munmap(twin, page);
  } else {
    print("mremap, old range kept: not supported\n");
  }
  munmap(place, 2 * page);
  char* shared = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  shared[0] = 's';
  char* again = mremap(shared, 0, page, MREMAP_MAYMOVE);
  print("mremap of size 0: '%c'\n", again[0]);
  munmap(again, page);
  munmap(shared, page);

  char* start = sbrk(0);
  print("sbrk: %d", sbrk(100) == start);
  print(" %td", (char*)sbrk(0) - start);
  print(" %d", sbrk(-40) == start + 100);
  print(" %td\n", (char*)sbrk(0) - start);
  NUMBER(brk(start + 5000));
  print("brk: %td\n", (char*)sbrk(0) - start);
  NUMBER(brk((void*)1));
  MAPPING(sbrk((intptr_t)1 << 50));
  MAPPING(sbrk(-((intptr_t)1 << 50)));
  NUMBER(brk(start));
  print("brk back: %td\n", (char*)sbrk(0) - start);
}

/* ---- numbers and prctl ---- */

static void kernel_calls(void) {
  print("gettid: %d\n", syscall(SYS_gettid) == getpid());
  NUMBER(syscall(-1));
  NUMBER(syscall(SYS_close, -1));
  /* All six arguments are used: the last one is the bit set of FUTEX_WAIT_BITSET. */
  int word = 5;
  NUMBER(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 5, NULL, NULL, 0));
  NUMBER(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 4, NULL, NULL, ~0u));
  char* mapped = (char*)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mapped[0] = 1;
  mapped = (char*)syscall(SYS_mremap, mapped, 4096, 3 * 4096, MREMAP_MAYMOVE);
  print("mapped by number: %d\n", mapped[0]);
  NUMBER(syscall(SYS_munmap, mapped, 3 * 4096));
  NUMBER(syscall(SYS_munmap, mapped + 1, 4096));
  NUMBER(syscall(SYS_mmap, NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  NUMBER(syscall(SYS_mremap, (void*)1, 4096, 4096, 0));
  NUMBER(syscall(SYS_seccomp, 77, 0, NULL));
  NUMBER(syscall(SYS_seccomp, 1, 0, NULL)); /* a probe for seccomp support */
  NUMBER(syscall(SYS_prctl, 123456, 0, 0, 0, 0));
  prctl(PR_SET_NAME, "behaviour");
  char name[17] = "";
  NUMBER(prctl(PR_GET_NAME, name));
  print("name: %s\n", name);
  NUMBER(prctl(123456, 1, 2, 3, 4));
  NUMBER(prctl(PR_SET_SECCOMP, 2, NULL));

  char* command[] = {"true", NULL};
  NUMBER(execve("/nonexistent/true", command, environ));
  NUMBER(execve(NULL, command, environ));
  NUMBER(execv("/", command));
  NUMBER(execvp("nonexistent-true", command));
  NUMBER(execvp("/nonexistent/true", command));
  NUMBER(execvp("", command));
  NUMBER(execvpe("/", command, environ));
  NUMBER(fexecve(-1, command, environ));
  NUMBER(execl("/nonexistent/true", "true", NULL));
  NUMBER(execl("/", NULL));
  NUMBER(execlp("nonexistent-true", "true", "1", "2", "3", "4", "5", "6", "7", "8", NULL));
  NUMBER(execle("/nonexistent/true", "true", NULL, environ));

  int status = 0;
  long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
  if (child == 0) {
    free(malloc(40));
    _exit(malloc(10) != NULL ? 3 : 4);
  }
  waitpid((pid_t)child, &status, 0);
  print("cloned by number: %d\n", WEXITSTATUS(status));
  child = vfork();
  if (child == 0) _exit(malloc(10) != NULL ? 5 : 6);
  waitpid((pid_t)child, &status, 0);
  print("vfork: %d\n", WEXITSTATUS(status));
  child = vfork();
  if (child == 0) {
    execv("/nonexistent/true", command);
    execvp("true", command);
    _Exit(7);
  }
  waitpid((pid_t)child, &status, 0);
  print("vfork and execute: %d\n", WEXITSTATUS(status));
  const char* const count_arguments = "case $1$2$9${10}$# in 12910*) exit $#;; esac";
#define TEN(n) #n "1", #n "2", #n "3", #n "4", #n "5", #n "6", #n "7", #n "8", #n "9", #n "0"
  child = vfork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", count_arguments, "sh", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11",
          NULL);
    _exit(1);
  }
  waitpid((pid_t)child, &status, 0);
  print("11 arguments: %d\n", WEXITSTATUS(status));
  child = vfork();
  if (child == 0) {
    execlp("sh", "sh", "-c", count_arguments, "sh", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", TEN(1), TEN(2),
           TEN(3), TEN(4), TEN(5), TEN(6), TEN(7), TEN(8), NULL);
    _exit(1);
  }
  waitpid((pid_t)child, &status, 0);
  print("90 arguments: %d\n", WEXITSTATUS(status));
  child = vfork();
  if (child == 0) {
    char* environment[] = {"STATUS=9", NULL};
    execle("/bin/sh", "sh", "-c", "exit $STATUS", NULL, environment);
    _exit(1);
  }
  waitpid((pid_t)child, &status, 0);
  print("environment: %d\n", WEXITSTATUS(status));
  child = fork();
  if (child == 0) quick_exit(8);
  waitpid((pid_t)child, &status, 0);
  print("quick_exit: %d\n", WEXITSTATUS(status));
}

/* ---- threads, loading ---- */

static pthread_key_t g_key;
static int g_rounds;

static void key_destructor(void* value) {
  char* block = realloc(value, 64);
  if (++g_rounds < 4) {
    pthread_setspecific(g_key, block);
  } else {
    free(block);
  }
}

static void* thread(void* argument) {
  (void)argument;
  pthread_setspecific(g_key, malloc(8));
  free(aligned_alloc(64, 128));
  return malloc(33);
}

static atomic_int g_cancelled_works;

static void* cancelled(void* argument) {
  (void)argument;
  for (;;) {
    free(malloc(100));
    g_cancelled_works = 1;
    pthread_testcancel();
    sched_yield();
  }
}

static void threads(void) {
  pthread_key_t keys[100]; /* for more than 32, glibc allocates memory */
  for (int i = 0; i < 100; ++i) pthread_key_create(&keys[i], NULL);
  pthread_key_create(&g_key, key_destructor);
  pthread_t id;
  void* result;
  pthread_create(&id, NULL, thread, NULL);
  pthread_join(id, &result);
  print("thread: usable %zu rounds %d\n", malloc_usable_size(result), g_rounds);
  free(result);
  pthread_create(&id, NULL, cancelled, NULL);
  while (!g_cancelled_works) sched_yield();
  pthread_cancel(id);
  pthread_join(id, &result);
  print("cancelled: %d\n", result == PTHREAD_CANCELED);
  for (int i = 0; i < 100; ++i) pthread_key_delete(keys[i]);
}

static void loading(void) {
  print("dlsym: %d\n", dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere") == NULL);
  print("dlerror: %d\n", dlerror() != NULL);
  print("dlopen: %d\n", dlopen("/no/such/library.so", RTLD_NOW) == NULL);
  print("dlerror: %s\n", dlerror() != NULL ? "message" : "none");
  void* (*found)(size_t) = (void* (*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
  print("malloc by dlsym: %d\n", found == malloc);
  free(found(20));
}

/* ---- after main ---- */

static void* g_late;

static void at_exit(void) {
  g_late = realloc(g_late, 4000);
  print("atexit: usable %zu\n", malloc_usable_size(g_late));
}

__attribute__((destructor)) static void destructor(void) {
  free(g_late);
  void* last = malloc(70);
  print("destructor: usable %zu\n", malloc_usable_size(last));
  flush();
}

int main(void) {
  before_main();
  flush();
  heap();
  flush();
  mappings();
  flush();
  kernel_calls();
  flush();
  threads();
  loading();
  flush();
  g_late = malloc(10);
  atexit(at_exit);
  return 21;
}
