// Leaks that the user accepts, in the format of LeakSanitizer: lines `leak:PATTERN`, and comments with #. A pattern
// matches anywhere in the function, file or module of any frame of a stack; ^ and $ anchor it to the begin and the
// end, * is a wildcard.
//
// Built-in suppressions are for what the C and C++ runtimes keep until the process ends by design: the tables of the
// loader, buffers of stdio, thread-local storage, locales, time zones. They only match blocks that the runtime itself
// allocated: those whose innermost frames are in runtime libraries. The emergency pool of a statically linked
// libstdc++ is recognized by its size and by the caller of its constructor.
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"

namespace heapprof::cli {

class Suppressions {
 public:
  struct Hits {
    std::string name;  ///< the pattern, or what a built-in suppression is for
    bool built_in = false;
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
  };

  /// Adds the lines of `text`. Returns the first invalid line, or an empty string.
  std::string add(const std::string& text);
  void add_built_in();

  bool empty() const noexcept { return patterns_.empty() && !built_in_; }
  /// Returns whether a suppression matches. The first one that matches counts the bytes and blocks.
  bool match(const std::vector<Frame>& stack, std::uint64_t bytes, std::uint64_t blocks);
  /// The suppressions that matched, most bytes first.
  std::vector<Hits> hits() const;
  /// The patterns that matched nothing, or nothing that an earlier pattern had not matched.
  std::vector<std::string> unmatched() const;

 private:
  Hits* find(const std::vector<Frame>& stack, std::uint64_t bytes, std::uint64_t blocks);
  Hits& built_in(const char* name);

  std::vector<Hits> patterns_;
  std::vector<Hits> built_in_hits_;
  bool built_in_ = false;
};

/// Whether `pattern` matches `name`, as described above.
bool pattern_matches(const std::string& pattern, const std::string& name);

}  // namespace heapprof::cli
