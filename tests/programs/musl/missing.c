// Calls, found by dlsym, the functions that the recorder exports although musl lacks them. Without the recorder there
// is nothing to call.
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(condition)                                      \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      return 1;                                               \
    }                                                         \
  } while (0)

#define FIND(result, name, parameters)                                            \
  result(*name##_) parameters = (result(*) parameters)dlsym(RTLD_DEFAULT, #name); \
  found += name##_ != 0

int main(int argc, char** argv) {
  int found = 0;
  FIND(void*, pvalloc, (size_t));
  FIND(char*, canonicalize_file_name, (const char*));
  FIND(ssize_t, __readlink_chk, (const char*, char*, size_t, size_t));
  FIND(ssize_t, __readlinkat_chk, (int, const char*, char*, size_t, size_t));
  FIND(char*, __realpath_chk, (const char*, char*, size_t));
  FIND(void, free_sized, (void*, size_t));
  FIND(void, cfree, (void*));
  if (found == 0) return argc > 1 && strcmp(argv[1], "plain") == 0 ? 0 : 2;
  CHECK(found == 7);

  char* block = pvalloc_(5000);
  CHECK(block != 0 && (uintptr_t)block % 4096 == 0);
  memset(block, 1, 8192);
  free_sized_(block, 5000);
  errno = 0;
  CHECK(pvalloc_(SIZE_MAX - 5) == 0 && errno == ENOMEM);
  cfree_(malloc(10));

  char buffer[PATH_MAX] = "", plain[PATH_MAX] = "";
  const ssize_t length = readlink("/proc/self/exe", plain, sizeof plain);
  CHECK(length > 0);
  CHECK(__readlink_chk_("/proc/self/exe", buffer, sizeof buffer, sizeof buffer) == length);
  CHECK(strcmp(buffer, plain) == 0);
  memset(buffer, 0, sizeof buffer);
  CHECK(__readlinkat_chk_(-1, "/proc/self/exe", buffer, sizeof buffer, sizeof buffer) == length);
  CHECK(strcmp(buffer, plain) == 0);
  CHECK(__realpath_chk_("/proc/self/exe", buffer, sizeof buffer) == buffer && strcmp(buffer, plain) == 0);
  char* name = canonicalize_file_name_("/proc/self/exe");
  CHECK(name != 0 && strcmp(name, plain) == 0);
  free(name);

  // mmap64 is another name of mmap, or missing, in the versions of musl; reallocarray came with 1.2.2.
  void* (*mmap64_)(void*, size_t, int, int, int, off_t) = dlsym(RTLD_DEFAULT, "mmap64");
  CHECK(mmap64_ != 0);
  void* page = mmap64_(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  CHECK(munmap(page, 4096) == 0);
  puts("all found");
  return 0;
}
