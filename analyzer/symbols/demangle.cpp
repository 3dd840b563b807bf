// libiberty's demanglers, with a limit on the length of their output.
//
// A short mangled name can expand to an enormous one (each substitution may double the length), and the names come
// from untrusted files. The callback interface of the demanglers allocates nothing, so that longjmp can leave them
// when the limit is reached.
#include "analyzer/symbols/demangle.h"

#include <pthread.h>

#include <csetjmp>
#include <cstddef>
#include <new>

// Without it, libiberty's headers declare basename() in a way that contradicts <string.h>.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

namespace heapprof::symbols {

namespace {

constexpr std::size_t kMaxMangledBytes = 1 << 20;
constexpr std::size_t kMaxDemangledBytes = 1 << 16;

/// libiberty refuses a C++ name of more than DEMANGLE_RECURSION_LIMIT / 2 bytes, to protect the stack, on which it
/// recurses and has arrays. One has 64 bytes for each byte of the name, another one 16 bytes for each pair of a
/// template and a reference to a template parameter, which may both count twice: 72 MB for the worst name of 8 KiB
/// (cp-demangle.c, d_print_init). Names in programs have a few KB at most.
constexpr std::size_t kMaxLongNameBytes = 8 << 10;
constexpr std::size_t kLongNameStackBytes = std::size_t{128} << 20;

struct Output {
  std::string text;
  std::jmp_buf too_long;
};

void append(const char* bytes, std::size_t size, void* opaque) {
  auto& output = *static_cast<Output*>(opaque);
  if (output.text.size() + size > kMaxDemangledBytes) std::longjmp(output.too_long, 1);
  output.text.append(bytes, size);
}

using Demangler = int (*)(const char* mangled, int options, demangle_callbackref callback, void* opaque);

/// Runs one demangler. No object of this function has a destructor, because longjmp may return into it.
bool run(Demangler demangler, const char* mangled, int options, Output& output) {
  output.text.clear();
  if (setjmp(output.too_long) != 0) return false;
  return demangler(mangled, DMGL_PARAMS | DMGL_ANSI | options, append, &output) != 0 && !output.text.empty();
}

struct LongName {
  const char* mangled;
  Output& output;
  bool is_demangled = false;
};

void* demangle_long_name(void* opaque) {
  auto& name = *static_cast<LongName*>(opaque);
  try {
    name.is_demangled = run(cplus_demangle_v3_callback, name.mangled, DMGL_NO_RECURSE_LIMIT, name.output);
  } catch (const std::bad_alloc&) {  // the name stays mangled
  }
  return nullptr;
}

/// Demangles a long C++ name in a thread of its own, since the stack of the calling one may have only 2 MiB. False
/// also if the thread cannot be started. The stack takes memory only where it is used.
bool run_on_large_stack(const char* mangled, Output& output) {
  LongName name{mangled, output};
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_t thread{};
  const bool is_started = pthread_attr_setstacksize(&attributes, kLongNameStackBytes) == 0 &&
                          pthread_create(&thread, &attributes, demangle_long_name, &name) == 0;
  pthread_attr_destroy(&attributes);
  if (is_started) pthread_join(thread, nullptr);
  return name.is_demangled;
}

/// `name` without the suffix ".llvm.1234", which ThinLTO adds to local functions that it promotes to global ones.
std::string_view without_llvm_suffix(std::string_view name) {
  const std::size_t dot = name.rfind(".llvm.");
  if (dot == std::string_view::npos || name.find_first_not_of("0123456789", dot + 6) != std::string_view::npos)
    return name;
  return name.substr(0, dot);
}

}  // namespace

std::string demangle(std::string_view name) {
  std::string mangled(without_llvm_suffix(name));
  const bool may_be_mangled = mangled.starts_with("_Z") || mangled.starts_with("_R") || mangled.starts_with("__R") ||
                              mangled.starts_with("_GLOBAL_");
  if (!may_be_mangled || mangled.size() > kMaxMangledBytes) return mangled;
  Output output;
  // Rust first: a legacy Rust name is also a valid C++ name, whose demangled form would keep the hash.
  if (run(rust_demangle_callback, mangled.c_str(), 0, output)) return output.text;
  if (run(cplus_demangle_v3_callback, mangled.c_str(), 0, output)) return output.text;
  const bool is_long = mangled.size() > DEMANGLE_RECURSION_LIMIT / 2 && mangled.size() <= kMaxLongNameBytes;
  if (is_long && run_on_large_stack(mangled.c_str(), output)) return output.text;
  return mangled;
}

}  // namespace heapprof::symbols
