#include "preload/intercept/python_mimalloc.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdint>

#include "common/c_string.h"
#include "preload/real/dynamic_symbols.h"
#include "preload/recorder/process/settings.h"

namespace heapprof::intercept {

namespace {

/// The beginning of _PyRuntime, from 3.13 on (_Py_DebugOffsets in pycore_debug_offsets.h).
struct Description {
  char cookie[8];
  std::uint64_t version;
  std::uint64_t free_threaded;
};

}  // namespace

bool python_leaves_mimalloc_unused(const link_map& map, sys::GuardedReader& reader) noexcept {
  real::DynamicSymbols symbols;
  ElfW(Sym) runtime;
  if (!real::read_dynamic_symbols(map, reader, symbols) ||
      !real::find_symbol(symbols, "_PyRuntime", reader, runtime, real::kFunctionsAndObjects))
    return false;
  Description description;
  if (!reader.read(reinterpret_cast<const Description*>(symbols.load_bias + runtime.st_value), description) ||
      __builtin_memcmp(description.cookie, "xdebugpy", sizeof description.cookie) != 0 ||
      description.free_threaded != 0)
    return false;
  // In a privileged program, no variable decides what the recorder does.
  const bool reads_environment = environ != nullptr && getauxval(AT_SECURE) == 0;
  const char* const chosen = reads_environment ? recorder::environment_value(environ, "PYTHONMALLOC") : nullptr;
  return chosen == nullptr || after_prefix(chosen, "mimalloc") == nullptr;  // also mimalloc_debug
}

}  // namespace heapprof::intercept
