// Leaks that are known and accepted, in LeakSanitizer's format: lines `leak:PATTERN`, comments with #. A
// pattern fits anywhere in the function, file or module of any frame of a stack; ^ and $ tie it to begin and
// end, * stands for anything.
//
// Built-in ones are for what the C and C++ runtimes keep until the process ends by design: the loader's tables,
// stdio's buffers, thread-local storage, locales, time zones. They are about blocks that the runtime asked for
// itself, so they look at the frames of runtime libraries that stand innermost, and never hide what the program
// allocated above those. The emergency pool of a libstdc++ that was linked in is known by its size and by who
// calls its constructor.
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"

namespace heapprof::cli {

class Suppressions {
 public:
  struct Hits {
    std::string name;          ///< the pattern, or what a built-in one is about
    bool built_in = false;
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
  };

  /// Adds the lines of `text`. Returns the first line that is no suppression, or an empty string.
  std::string add(const std::string& text);
  void add_built_in();

  bool empty() const noexcept { return patterns_.empty() && !built_in_; }
  /// Whether one fits; it is the one that counts these bytes and blocks.
  bool take(const std::vector<Frame>& stack, std::uint64_t bytes, std::uint64_t blocks);
  /// Those that fitted something, by bytes.
  std::vector<Hits> hits() const;

 private:
  Hits* find(const std::vector<Frame>& stack, std::uint64_t bytes, std::uint64_t blocks);
  Hits& built_in(const char* name);

  std::vector<Hits> patterns_;
  std::vector<Hits> built_in_hits_;
  bool built_in_ = false;
};

/// Whether `pattern` fits `name`, as described above.
bool pattern_fits(const std::string& pattern, const std::string& name);

}  // namespace heapprof::cli
