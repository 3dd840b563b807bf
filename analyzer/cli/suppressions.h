// Leaks that are known and accepted, in LeakSanitizer's format: lines `leak:PATTERN`, comments with #. A
// pattern fits anywhere in the function, file or module of any frame of a stack; ^ and $ tie it to begin and
// end, * stands for anything.
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/names.h"

namespace heapprof::cli {

class Suppressions {
 public:
  /// Adds the lines of `text`. Returns the first line that is no suppression, or an empty string.
  std::string add(const std::string& text);

  bool empty() const noexcept { return patterns_.empty(); }
  bool fits(const std::vector<Frame>& stack) const;

 private:
  std::vector<std::string> patterns_;
};

/// Whether `pattern` fits `name`, as described above.
bool pattern_fits(const std::string& pattern, const std::string& name);

}  // namespace heapprof::cli
