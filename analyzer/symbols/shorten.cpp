#include "analyzer/symbols/shorten.h"

#include <cstddef>

#include "analyzer/symbols/identifier.h"

namespace heapprof::symbols {

namespace {

/// Operators whose symbols are brackets; a longer one precedes its prefixes.
constexpr std::string_view kBracketOperators[] = {
    "operator<=>", "operator->*", "operator<<=", "operator>>=", "operator<<", "operator>>",
    "operator<=",  "operator>=",  "operator->",  "operator()",  "operator<",  "operator>"};

std::string_view bracket_operator(std::string_view rest) {
  for (const std::string_view name : kBracketOperators)
    if (rest.starts_with(name)) return name;
  return {};
}

/// The position of the bracket that closes the one at `open`; npos: there is none.
std::size_t closing_bracket(std::string_view name, std::size_t open) {
  std::size_t depth = 0;
  std::string stack;
  for (std::size_t at = open; at < name.size(); ++at) {
    if (name[at] == 'o' && (at == 0 || !is_identifier(name[at - 1])))
      if (const std::string_view op = bracket_operator(name.substr(at)); !op.empty()) {
        at += op.size() - 1;
        continue;
      }
    switch (name[at]) {
      case '<':
      case '(':
      case '[':
      case '{':
        stack.push_back(name[at]);
        ++depth;
        break;
      case '>':
        if (at > 0 && name[at - 1] == '-') break;  // "->" of a type or an expression
        [[fallthrough]];
      case ')':
      case ']':
      case '}': {
        const char opening = name[at] == '>' ? '<' : name[at] == ')' ? '(' : name[at] == ']' ? '[' : '{';
        if (stack.empty() || stack.back() != opening) return std::string_view::npos;
        stack.pop_back();
        if (--depth == 0) return at;
        break;
      }
      default: break;
    }
  }
  return std::string_view::npos;
}

/// Appends `name` to `result` without the contents of its brackets. False: the brackets do not match.
bool shorten_into(std::string_view name, std::string& result, int depth) {
  std::size_t after_operator = std::string_view::npos;
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (name[at] == 'o' && (at == 0 || !is_identifier(name[at - 1])))
      if (const std::string_view op = bracket_operator(name.substr(at)); !op.empty()) {
        result += op;
        at += op.size() - 1;
        after_operator = at + 1;
        continue;
      }
    if (name[at] == '>' && at > 0 && name[at - 1] == '-') {
      result += '>';
      continue;
    }
    if (name[at] == '>' || name[at] == ')') return false;
    if (name[at] != '<' && name[at] != '(') {
      result += name[at];
      continue;
    }
    const std::size_t end = closing_bracket(name, at);
    if (end == std::string_view::npos) return false;
    const std::string_view inside = name.substr(at + 1, end - at - 1);
    // Rust's "<Type as Trait>" is a scope and keeps its contents: no name precedes it, unlike "::<T>" and "name<T>".
    // Demanglers print a space between "operator<<" and its template arguments.
    const bool of_operator = at == after_operator || (at > 0 && at - 1 == after_operator && name[at - 1] == ' ');
    const bool qualifies =
        name[at] == '<' && !of_operator && (at == 0 || !(is_identifier(name[at - 1]) || name[at - 1] == ':'));
    if (inside.empty() || inside == "anonymous namespace") {
      result += name.substr(at, end - at + 1);
    } else if (qualifies && depth < 64) {
      result += '<';
      if (!shorten_into(inside, result, depth + 1)) return false;
      result += '>';
    } else {
      result += name[at];
      result += "...";
      result += name[end];
    }
    at = end;
  }
  return true;
}

}  // namespace

std::string shorten(std::string_view name) {
  if (name.size() <= kMaxUnshortenedBytes) return std::string(name);
  std::string result;
  if (!shorten_into(name, result, 0)) return std::string(name);
  return result;
}

}  // namespace heapprof::symbols
