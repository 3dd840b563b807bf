// Resolves code addresses of a trace to functions and source lines.
//
// The sources of symbols, in this order: the symbols embedded in the trace (`heapprof bundle`), the symbol cache,
// then the files of each module: its ELF file, a separate debug file, .gnu_debugdata. A file is used only if its
// build ID is the recorded one. The network is used only if Options::debuginfod is set.
//
// Resolve all addresses of a trace in one call: each module's files are opened once per call, and several modules, or
// parts of a module with many addresses, are resolved in parallel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/symbols/source_frame.h"
#include "analyzer/symbols/symbolizer_input.h"

namespace heapprof::symbols {

class ModuleResolver;

class Symbolizer {
 public:
  Symbolizer(std::vector<Module> modules, Options options, RecordedProcess process = {});

  /// The frames of each address, in the order of `addresses`, which may repeat.
  ///
  /// The innermost frame is the first: inlined functions, then the function that contains them. File and line are the
  /// position of execution in that frame. The result is never empty: an unresolved address, and one whose module does
  /// not exist, has one frame with an empty function, and warnings() gives the reason.
  ///
  /// A function has its demangled DWARF linkage name, else the name of the ELF symbol that covers the address. Among
  /// several symbols at one address, a global one precedes a local one, then the one with fewer leading underscores,
  /// then the shorter one: `malloc`, not `__libc_malloc`. If the symbol of a C function has fewer leading underscores
  /// than its DWARF name, the symbol is used. C++ functions without a linkage name, such as inlined functions of an
  /// anonymous namespace, get their scopes but no parameters: `space::(anonymous namespace)::helper`.
  std::vector<std::vector<SourceFrame>> resolve(const std::vector<CodeAddress>& addresses);

  /// The same frames by module, with each address once, for storage.
  std::vector<ModuleSymbols> resolve_by_module(const std::vector<CodeAddress>& addresses);

  /// Problems of all calls so far, one sentence each, in the order of modules. Files with the same problem share a
  /// sentence.
  std::vector<std::string> warnings() const;

 private:
  std::vector<std::unique_ptr<ModuleResolver>> resolve_modules(const std::vector<CodeAddress>& addresses);

  std::vector<Module> modules_;
  Options options_;
  RecordedProcess process_;
  std::vector<std::vector<std::string>> warnings_;  ///< by module
};

}  // namespace heapprof::symbols
