// Functions that a user names on the command line as a report prints them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/cli/text/findings.h"

namespace heapprof::cli {

/// The functions that the user means, and what they are called.
struct NamedFunctions {
  std::vector<std::uint32_t> functions;  ///< in CodeFrames::functions(), ascending; empty: there are none
  std::string name;
};

/// The functions with this name: the whole one, else that of tables, else the part after the last scope.
NamedFunctions functions_named(const Findings& findings, const std::string& wanted);

/// For the end of a message that nothing is called `wanted`: suggested_names() of the functions' names and `more`. If
/// none is near, and not all functions have names, how many have none.
std::string suggested_names(const Findings& findings, const std::string& wanted,
                            const std::vector<std::string>& more = {});

}  // namespace heapprof::cli
