#include "preload/intercept/python_mimalloc.h"

#include <sys/auxv.h>
#include <unistd.h>

#include "common/c_string.h"
#include "preload/python/runtime_description.h"
#include "preload/real/dynamic_symbols.h"
#include "preload/recorder/process/settings.h"

namespace heapprof::intercept {

bool python_leaves_mimalloc_unused(const link_map& map, sys::GuardedReader& reader) noexcept {
  real::DynamicSymbols symbols;
  ElfW(Sym) runtime;
  if (!real::read_dynamic_symbols(map, reader, symbols) ||
      !real::find_symbol(symbols, "_PyRuntime", reader, runtime, real::kFunctionsAndObjects))
    return false;
  using python::RuntimeDescription;
  RuntimeDescription description;
  const auto* const begin = reinterpret_cast<const RuntimeDescription*>(symbols.load_bias + runtime.st_value);
  if (!reader.read(begin, description) || !description.exists() || description.free_threaded != 0) return false;
  // In a privileged program, no variable decides what the recorder does.
  const bool reads_environment = environ != nullptr && getauxval(AT_SECURE) == 0;
  const char* const chosen = reads_environment ? recorder::environment_value(environ, "PYTHONMALLOC") : nullptr;
  return chosen == nullptr || after_prefix(chosen, "mimalloc") == nullptr;  // also mimalloc_debug
}

}  // namespace heapprof::intercept
