// Checks that a command rejects wrong command lines.
#pragma once

#include <string>
#include <vector>

namespace heapprof::test {

struct WrongCommandLine {
  std::vector<std::string> arguments;
  std::string named;  ///< part of the message
};

/// Runs `heapprof COMMAND... ARGUMENT...` for each of `wrong`. The exit status must be 2, standard output empty, and
/// the message must name the error.
void check_rejected(const std::vector<std::string>& command, const std::vector<WrongCommandLine>& wrong);

}  // namespace heapprof::test
