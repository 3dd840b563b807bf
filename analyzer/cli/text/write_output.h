// Writes what a command prints to a file or to standard output.
#pragma once

#include <stdexcept>
#include <string>

namespace heapprof::cli {

/// An output that cannot be written. what() is a sentence that names the output.
class OutputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Writes `text` to the file `path`, or to standard output if `path` is "-". Throws OutputError.
void write_output(const std::string& path, const std::string& text);

/// Writes `text` to standard output. Returns the exit status: 1, with a message, if it cannot be written.
int print_text(const std::string& text);

}  // namespace heapprof::cli
