// A C++ program that embeds Python, and executes a script:
//
//   embedding LIBRARY|- SCRIPT      -: the program is linked with the library
//
// The script can call the built-in function call_from_host(callable), a function of this program. No headers of
// Python are used, so that one program serves all versions; what it uses is a part of the stable ABI.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace {

void* g_library;

template <typename Function>
Function* function(const char* name) {
  void* const found = dlsym(g_library, name);
  if (found == nullptr) {
    printf("no %s\n", name);
    exit(2);
  }
  return reinterpret_cast<Function*>(found);
}

struct Host {
  virtual ~Host() = default;
  [[gnu::noinline]] virtual void* call(void* callable) {
    void* const result = function<void*(void*, void*)>("PyObject_CallObject")(callable, nullptr);
    asm volatile("" ::: "memory");  // no tail call
    return result;
  }
};

void* call_from_host(void* host, void* callable) {
  return static_cast<Host*>(function<void*(void*, const char*)>("PyCapsule_GetPointer")(host, nullptr))
      ->call(callable);
}

struct MethodDefinition {  // PyMethodDef
  const char* name;
  void* (*function)(void*, void*);
  int flags;
  const char* doc;
};
constexpr int kOneArgument = 8;  // METH_O
MethodDefinition g_definition{"call_from_host", call_from_host, kOneArgument, nullptr};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  // Extension modules need the symbols of the library.
  g_library = strcmp(argv[1], "-") == 0 ? RTLD_DEFAULT : dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  if (g_library == nullptr && strcmp(argv[1], "-") != 0) {
    puts(dlerror());
    return 2;
  }
  Host host;
  function<void(int)>("Py_InitializeEx")(0);
  void* const capsule = function<void*(void*, const char*, void*)>("PyCapsule_New")(&host, nullptr, nullptr);
  void* const callable =
      function<void*(MethodDefinition*, void*, void*)>("PyCFunction_NewEx")(&g_definition, capsule, nullptr);
  void* const builtins = function<void*(const char*)>("PyImport_ImportModule")("builtins");
  if (function<int(void*, const char*, void*)>("PyObject_SetAttrString")(builtins, "call_from_host", callable) != 0)
    return 2;
  const int failed = function<int(const char*, void*)>("PyRun_SimpleStringFlags")(argv[2], nullptr);
  return function<int()>("Py_FinalizeEx")() != 0 || failed != 0;
}
