// A demangled name is scanned once, from the left, outside of brackets:
//
//   * A space ends a part of the return type: the name begins after the last space before its parameters.
//   * "(anonymous namespace)" and "decltype (...)" are parts of a name or type, like an identifier.
//   * " (*", " (&" or " (Class::*" opens a declarator, which contains the name.
//   * The parameter list ends the name, unless "::" follows: then the function is the scope of a local one.
//
// Operators are recognized first everywhere, because their symbols look like brackets.
#include "analyzer/symbols/return_type.h"

#include <array>
#include <cstddef>
#include <string>

#include "analyzer/symbols/identifier.h"

namespace heapprof::symbols {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

/// Depth of nested declarators: a function that returns a function that returns a function, and so on.
constexpr int kMaxDeclaratorDepth = 16;

/// Symbols of operators; a longer one precedes its prefixes.
constexpr std::array<std::string_view, 41> kOperators = {"<=>", "->*", "<<=", ">>=", "()", "[]", "\"\"", "<<", ">>",
                                                         "<=",  ">=",  "->",  "==",  "!=", "&&", "||",   "++", "--",
                                                         "+=",  "-=",  "*=",  "/=",  "%=", "^=", "&=",   "|=", "<",
                                                         ">",   "+",   "-",   "*",   "/",  "%",  "^",    "&",  "|",
                                                         "~",   "!",   "=",   ",",   "?"};

/// Prefixes of special names, which have no return type (libiberty, cp-demangle.c).
constexpr std::array<std::string_view, 17> kSpecialPrefixes = {"vtable for ",
                                                               "VTT for ",
                                                               "construction vtable for ",
                                                               "typeinfo for ",
                                                               "typeinfo name for ",
                                                               "typeinfo fn for ",
                                                               "guard variable for ",
                                                               "reference temporary ",
                                                               "TLS init function for ",
                                                               "TLS wrapper function for ",
                                                               "non-virtual thunk to ",
                                                               "virtual thunk to ",
                                                               "covariant return thunk to ",
                                                               "transaction clone for ",
                                                               "non-transaction clone for ",
                                                               "hidden alias for ",
                                                               "template parameter object for "};

/// Whether `word` is at `at`, and is not a part of a longer identifier.
bool is_word(std::string_view name, std::size_t at, std::string_view word) noexcept {
  return name.substr(at).starts_with(word) && (at == 0 || !is_identifier(name[at - 1])) &&
         (at + word.size() == name.size() || !is_identifier(name[at + word.size()]));
}

/// Whether "decltype" precedes `at`, with or without a space between.
bool follows_decltype(std::string_view name, std::size_t at) noexcept {
  const std::size_t end = at > 0 && name[at - 1] == ' ' ? at - 1 : at;
  return end >= 8 && is_word(name, end - 8, "decltype");
}

/// The position after "operator" and its symbol at `at`. An operator that is a word or a type (new, casts) has no
/// symbol: then the position after "operator".
std::size_t after_operator(std::string_view name, std::size_t at) noexcept {
  at += std::string_view("operator").size();
  for (const std::string_view symbol : kOperators) {
    if (!name.substr(at).starts_with(symbol)) continue;
    at += symbol.size();
    // libiberty prints a space in "operator< <int>" and in `operator"" _km`.
    if (at + 1 < name.size() && name[at] == ' ' && (name[at + 1] == '<' || symbol == "\"\"")) ++at;
    break;
  }
  return at;
}

/// The position after the bracket that closes the one at `open`; kNone: there is none. Comparison operators occur
/// only inside round brackets: a closing round bracket discards every '<' since its opening one.
std::size_t after_closing(std::string_view name, std::size_t open) {
  std::string closing;  // the closing brackets of all open ones, the innermost last
  for (std::size_t at = open; at < name.size();) {
    if (is_word(name, at, "operator")) {
      at = after_operator(name, at);
      continue;
    }
    const char c = name[at];
    if (c == '<') closing += '>';
    else if (c == '(') closing += ')';
    else if (c == '[') closing += ']';
    else if (c == '{') closing += '}';
    else if (c == '>') {
      if (name[at - 1] != '-' && closing.back() == '>') closing.pop_back();
    } else if (c == ')' || c == ']' || c == '}') {
      const std::size_t own = closing.rfind(c);
      if (own == std::string::npos) return kNone;
      closing.resize(own);
    }
    ++at;
    if (closing.empty()) return at;
  }
  return kNone;
}

/// The position after the qualifiers at `at`, which follow a parameter list; `at` itself if there are none.
std::size_t after_qualifiers(std::string_view name, std::size_t at) noexcept {
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view qualifier : {" const", " volatile", " noexcept", " &&", " &"})
      if (name.substr(at).starts_with(qualifier)) {
        at += qualifier.size();
        found = true;
      }
  }
  return at;
}

/// The position after the pointers and references at `at`, which open a declarator; `at` itself if there are none.
std::size_t after_pointers(std::string_view name, std::size_t at) {
  const std::size_t begin = at;
  for (bool found = true; found;) {
    found = false;
    if (at < name.size() && (name[at] == '*' || name[at] == '&')) {
      ++at;
      found = true;
    }
    if (at == begin) continue;
    for (const std::string_view qualifier : {" const", " volatile", " "})
      if (name.substr(at).starts_with(qualifier)) {
        at += qualifier.size();
        found = true;
        break;
      }
  }
  if (at != begin) return at;
  // A pointer to a member: a class name, which may contain brackets and scopes, then "::*".
  while (at < name.size() && name[at] != ')' && name[at] != ',') {
    if (name.substr(at).starts_with("::*")) return after_pointers(name, at + 2);
    if (name[at] == '(' && !name.substr(at).starts_with("(anonymous namespace)")) break;
    if (name[at] == '<' || name[at] == '{' || name[at] == '(' || name[at] == '[') {
      at = after_closing(name, at);
      if (at == kNone) return begin;
    } else {
      ++at;
    }
  }
  return begin;
}

/// The name in `text`. Sets `end` to the position after its parameters; kNone: `text` is not a function with
/// parameters.
std::string_view declared_name(std::string_view text, std::size_t& end, int depth = 0) {
  std::size_t begin = 0;
  end = kNone;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (is_word(text, at, "operator")) {
      const std::size_t after = after_operator(text, at);
      // The rest is a cast or `new`, which may contain spaces, and its parameters.
      if (after < text.size() && text[after] == ' ') {
        end = text.size();
        return text.substr(begin);
      }
      at = after;
    } else if (text.substr(at).starts_with("::*")) {
      at += 3;
      begin = at;  // the return type is a pointer to a member
    } else if (const std::size_t open = c == ' ' ? at + 1 : at;
               open < text.size() && text[open] == '(' && (open == 0 || c == ' ') && !follows_decltype(text, open) &&
               !text.substr(open).starts_with("(anonymous namespace)")) {
      const std::size_t inside = after_pointers(text, open + 1);
      const std::size_t close = after_closing(text, open);
      if (inside == open + 1 || close == kNone || depth == kMaxDeclaratorDepth) return text;
      // The declarator contains the name, or another declarator.
      std::size_t inner_end = kNone;
      const std::string_view name = declared_name(text.substr(inside, close - 1 - inside), inner_end, depth + 1);
      if (inner_end != kNone) {
        end = close;
        return name;
      }
      at = close;  // a function type inside a type
    } else if (c == ' ') {
      ++at;
      if (!follows_decltype(text, at)) begin = at;
    } else if (text.substr(at).starts_with("(anonymous namespace)")) {
      at += std::string_view("(anonymous namespace)").size();
    } else if (c == '(' || c == '<' || c == '[' || c == '{') {
      const bool is_decltype = follows_decltype(text, at);
      at = after_closing(text, at);
      if (at == kNone) return text;
      if (c != '(' || is_decltype) continue;
      const std::size_t qualified = after_qualifiers(text, at);
      if (text.substr(qualified).starts_with("::")) {
        at = qualified;
        continue;
      }
      end = at;
      return text.substr(begin);
    } else {
      ++at;
    }
  }
  return text;
}

}  // namespace

std::string_view without_return_type(std::string_view demangled) {
  for (const std::string_view special : kSpecialPrefixes)
    if (demangled.starts_with(special)) return demangled;
  std::size_t end = kNone;
  const std::string_view name = declared_name(demangled, end);
  return end == kNone || name.empty() ? demangled : name;
}

}  // namespace heapprof::symbols
