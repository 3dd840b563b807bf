// Names that the user gives as an extended regular expression (POSIX) or as a part of the name.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace heapprof::cli {

class NamePattern {
 public:
  /// Throws std::invalid_argument with a sentence if `text` is not a regular expression.
  explicit NamePattern(const std::string& text);
  ~NamePattern();
  NamePattern(NamePattern&&) noexcept;

  /// Whether the expression matches anywhere in `name`, or `name` contains the text itself: users paste names from
  /// reports, and `git+0x2896c0` or `parse(char*)` mean something else as expressions.
  bool matches(const std::string& name) const;

 private:
  struct Expression;
  std::string text_;
  std::unique_ptr<Expression> expression_;
};

/// Throws std::invalid_argument with a sentence for the first that is not a regular expression.
std::vector<NamePattern> name_patterns(const std::vector<std::string>& texts);

}  // namespace heapprof::cli
