// A progress line on standard error.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/replay/progress.h"

namespace heapprof::cli {

/// Prints the share done, the number of events read, their rate and the time left, from one second after its
/// construction on and at most five times a second. Prints nothing if standard error is no terminal. The line is
/// erased by end() and by the destructor.
class ProgressLine {
 public:
  /// `what` is what is being done: "Reading trace.heapprof".
  explicit ProgressLine(const std::string& what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const replay::Done& done);
  void end();

 private:
  std::string what_;
  std::uint64_t started_ns_;
  std::uint64_t next_ns_;
  bool terminal_;
  bool shown_ = false;
};

}  // namespace heapprof::cli
