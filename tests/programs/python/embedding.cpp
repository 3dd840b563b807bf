// A C++ program that embeds Python, and executes a script:
//
//   embedding LIBRARY|- SCRIPT      -: the program is linked with the library
//
// The script can call these built-in functions, which are functions of this program:
//
//   call_from_host(callable)
//   begin(plan)    calls step() of one interpreter: A, that of the script, or B, a second one. The characters of the
//                  plan say which one is called first, and which ones by the calls of enter() that follow
//   enter()        calls step() of the next interpreter of the plan; B's step() does nothing else
//   more()         whether the plan has more
//
// No headers of Python are used, so that one program serves all versions; what it uses is a part of the stable ABI.
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
  [[gnu::noinline]] virtual void* enter_next();

  void* states[2] = {};  // of A and B
  const char* plan = "";
};

void* none() { return function<void*(const char*, ...)>("Py_BuildValue")(""); }

void* Host::enter_next() {
  const auto swap = function<void*(void*)>("PyThreadState_Swap");
  void* const before = function<void*()>("PyThreadState_Get")();
  void* const next = states[*plan++ - 'A'];
  if (next != before) swap(next);
  void* const module = function<void*(const char*)>("PyImport_AddModule")("__main__");
  void* const step = function<void*(void*, const char*)>("PyObject_GetAttrString")(module, "step");
  void* const result = function<void*(void*, void*)>("PyObject_CallObject")(step, nullptr);
  if (result == nullptr) {
    function<void()>("PyErr_Print")();
    exit(2);
  }
  function<void(void*)>("Py_DecRef")(step);
  function<void(void*)>("Py_DecRef")(result);
  if (next != before) swap(before);
  return none();
}

Host* host_of(void* capsule) {
  return static_cast<Host*>(function<void*(void*, const char*)>("PyCapsule_GetPointer")(capsule, nullptr));
}

void* call_from_host(void* host, void* callable) { return host_of(host)->call(callable); }

void* begin(void* capsule, void* plan) {
  static char copy[16];
  void* const bytes = function<void*(void*)>("PyUnicode_AsUTF8String")(plan);
  snprintf(copy, sizeof copy, "%s", function<const char*(void*)>("PyBytes_AsString")(bytes));
  function<void(void*)>("Py_DecRef")(bytes);
  Host* const host = host_of(capsule);
  host->plan = copy;
  return host->enter_next();
}

void* enter(void* capsule, void*) { return host_of(capsule)->enter_next(); }

void* more(void* capsule, void*) { return function<void*(long)>("PyBool_FromLong")(*host_of(capsule)->plan != '\0'); }

struct MethodDefinition {  // PyMethodDef
  const char* name;
  void* (*function)(void*, void*);
  int flags;
  const char* doc;
};
constexpr int kNoArguments = 4, kOneArgument = 8;  // METH_NOARGS, METH_O
MethodDefinition g_definitions[] = {{"call_from_host", call_from_host, kOneArgument, nullptr},
                                    {"begin", begin, kOneArgument, nullptr},
                                    {"enter", enter, kNoArguments, nullptr},
                                    {"more", more, kNoArguments, nullptr}};

/// Adds the functions to the builtins of the current interpreter.
bool add_functions(Host& host) {
  void* const builtins = function<void*(const char*)>("PyImport_ImportModule")("builtins");
  for (MethodDefinition& definition : g_definitions) {
    void* const capsule = function<void*(void*, const char*, void*)>("PyCapsule_New")(&host, nullptr, nullptr);
    void* const callable =
        function<void*(MethodDefinition*, void*, void*)>("PyCFunction_NewEx")(&definition, capsule, nullptr);
    if (function<int(void*, const char*, void*)>("PyObject_SetAttrString")(builtins, definition.name, callable) != 0)
      return false;
  }
  return true;
}

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
  const auto swap = function<void*(void*)>("PyThreadState_Swap");
  const auto execute = function<int(const char*, void*)>("PyRun_SimpleStringFlags");
  host.states[0] = function<void*()>("PyThreadState_Get")();
  if (!add_functions(host)) return 2;
  host.states[1] = function<void*()>("Py_NewInterpreter")();
  if (!add_functions(host) || execute("def step():\n    enter()", nullptr) != 0) return 2;
  swap(host.states[0]);
  const int failed = execute(argv[2], nullptr);
  swap(host.states[1]);
  function<void(void*)>("Py_EndInterpreter")(host.states[1]);
  swap(host.states[0]);
  return function<int()>("Py_FinalizeEx")() != 0 || failed != 0;
}
