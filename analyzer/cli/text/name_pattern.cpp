#include "analyzer/cli/text/name_pattern.h"

#include <regex.h>

#include <stdexcept>
#include <string_view>

#include "analyzer/cli/text/frame_text.h"

namespace heapprof::cli {
namespace {

/// The expression that matches `text` itself.
std::string escaped(const std::string& text) {
  std::string expression;
  for (const char one : text) {
    if (std::string_view("\\^$.[]|()*+?{}").find(one) != std::string_view::npos) expression += '\\';
    expression += one;
  }
  return expression;
}

}  // namespace

/// Of libc: the regular expressions of the standard library recurse, and a long template name could overflow the
/// stack.
struct NamePattern::Expression {
  explicit Expression(const std::string& text) {
    int error = ::regcomp(&compiled, text.c_str(), REG_EXTENDED | REG_NOSUB);
    // The names of lambdas and closures have braces.
    if (error != 0 && text.find('{') != std::string::npos)
      error = ::regcomp(&compiled, escaped(text).c_str(), REG_EXTENDED | REG_NOSUB);
    if (error == 0) return;
    char reason[128] = "";
    ::regerror(error, &compiled, reason, sizeof reason);
    throw std::invalid_argument("invalid regular expression '" + text + "': " + reason);
  }
  ~Expression() { ::regfree(&compiled); }
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;

  regex_t compiled;
};

NamePattern::NamePattern(const std::string& text) : text_(text), expression_(std::make_unique<Expression>(text)) {}
NamePattern::~NamePattern() = default;
NamePattern::NamePattern(NamePattern&&) noexcept = default;

bool NamePattern::matches(const std::string& name) const {
  if (::regexec(&expression_->compiled, name.c_str(), 0, nullptr, 0) == 0 || name.find(text_) != std::string::npos)
    return true;
  // Tables print std::vector<…>::push_back.
  return text_.find("…") != std::string::npos && function_name(name).find(text_) != std::string::npos;
}

std::vector<NamePattern> name_patterns(const std::vector<std::string>& texts) {
  std::vector<NamePattern> patterns;
  for (const std::string& text : texts) patterns.emplace_back(text);
  return patterns;
}

}  // namespace heapprof::cli
