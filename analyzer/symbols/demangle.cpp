// libiberty's demanglers, with a limit on the length of their output.
//
// A short mangled name can expand to an enormous one (each substitution may double the length), and the names come
// from untrusted files. The callback interface of the demanglers allocates nothing, so that longjmp can leave them
// when the limit is reached.
#include "analyzer/symbols/demangle.h"

#include <csetjmp>
#include <cstddef>

// Without it, libiberty's headers declare basename() in a way that contradicts <string.h>.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

namespace heapprof::symbols {

namespace {

constexpr std::size_t kMaxMangledBytes = 1 << 20;
constexpr std::size_t kMaxDemangledBytes = 1 << 16;

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
bool run(Demangler demangler, const char* mangled, Output& output) {
  output.text.clear();
  if (setjmp(output.too_long) != 0) return false;
  return demangler(mangled, DMGL_PARAMS | DMGL_ANSI, append, &output) != 0 && !output.text.empty();
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
  if (run(rust_demangle_callback, mangled.c_str(), output)) return output.text;
  if (run(cplus_demangle_v3_callback, mangled.c_str(), output)) return output.text;
  return mangled;
}

}  // namespace heapprof::symbols
