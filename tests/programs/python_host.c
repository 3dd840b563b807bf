// A program that loads Python, uses it, unloads it, and goes on:
//   python_host LIBRARY initialize|use    Py_Initialize, a script and Py_Finalize, or only one function that
//   allocates python_host LIBRARY reload            the same twice; the second time the library is mapped elsewhere
// Prints "done" at the end. Allocates blocks of 777,000 + n bytes in the Python function round<n>.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void* function(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    printf("no %s\n", name);
    exit(2);
  }
  return found;
}

static void use(void* library, int round) {
  char script[200];
  snprintf(script, sizeof script, "def round%d():\n  bytearray(%d)\nround%d()\n", round, 777000 + round, round);
  ((void (*)(int))function(library, "Py_InitializeEx"))(0);
  ((int (*)(const char*, void*))function(library, "PyRun_SimpleStringFlags"))(script, NULL);
  ((int (*)(void))function(library, "Py_FinalizeEx"))();
}

static void* load(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    puts(dlerror());
    exit(2);
  }
  return library;
}

static void unload(const char* path, void* library) {
  dlclose(library);
  if (dlopen(path, RTLD_NOLOAD | RTLD_NOW) != NULL) {
    puts("still loaded");
    exit(2);
  }
}

void* volatile block;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* library = load(argv[1]);
  if (strcmp(argv[2], "use") == 0) {
    ((void* (*)(const char*, void*))function(library, "Py_DecodeLocale"))("abc", NULL);
  } else {
    use(library, 0);
  }
  char* begin = (char*)((struct link_map*)library)->l_addr;
  unload(argv[1], library);
  block = malloc(1000);
  free(block);
  if (strcmp(argv[2], "reload") == 0) {
    mmap(begin, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    library = load(argv[1]);
    if ((char*)((struct link_map*)library)->l_addr == begin) return 2;
    use(library, 1);
    unload(argv[1], library);
    block = malloc(1000);
    free(block);
  }
  puts("done");
  return 0;
}
