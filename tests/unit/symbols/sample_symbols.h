// Symbols of a made-up module, for tests of their encoding and of the cache.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/symbols/module_symbols.h"

namespace heapprof::symbols {

inline std::vector<ModuleSymbols> sample(std::size_t addresses = 50) {
  ModuleSymbols module;
  module.path = "/usr/lib/libsample.so";
  module.build_id_hex = "00112233445566778899aabbccddeeff00112233";
  module.map_bytes = 0x5000;
  module.warnings = {"a warning", "another"};
  module.why_unnamed = "because";
  for (std::size_t i = 0; i < addresses; ++i) {
    module.addresses.push_back(0x1000 + i * i * 7);
    auto& frames = module.frames.emplace_back();
    for (std::size_t f = 0; f < i % 3; ++f)
      frames.push_back({"inlined_" + std::to_string(f), "/src/a.h", int(i), true});
    frames.push_back(
        {i % 5 == 0 ? "" : "function_" + std::to_string(i / 4), i % 7 == 0 ? "" : "/src/b.cpp", int(i * 3), false});
    if (i % 35 == 0) {
      frames.back() = SourceFrame{};
      if (i != 0) frames.back().function_begin = module.addresses.back() - (i - 35);
    }
  }
  ModuleSymbols empty;
  empty.path = "/nothing";
  return {module, empty};
}

/// The same; the functions whose lines are in a header are defined in another file.
inline std::vector<ModuleSymbols> sample_with_definitions() {
  std::vector<ModuleSymbols> modules = sample();
  for (auto& frames : modules[0].frames)
    for (SourceFrame& frame : frames)
      if (frame.file == "/src/a.h") frame.definition_file = "/src/c.cpp";
  return modules;
}

}  // namespace heapprof::symbols
