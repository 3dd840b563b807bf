// Warnings of several modules as a short list.
#pragma once

#include <string>
#include <vector>

#include "analyzer/symbols/symbolizer_input.h"

namespace heapprof::symbols {

/// The warnings in the order of modules, each once. A warning about the file of a module begins with "PATH: ".
/// Several files with the same warning share one, which begins with their names: "a.so, b.so and c.so: ...".
std::vector<std::string> merge_warnings(const std::vector<Module>& modules,
                                        const std::vector<std::vector<std::string>>& warnings_by_module);

}  // namespace heapprof::symbols
