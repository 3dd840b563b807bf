// libiberty's demanglers, held in by a limit on their output.
//
// A short mangled name can stand for an enormous one (each substitution may double the length), and the
// names come from files that anybody may have written. The callback forms of the demanglers build nothing
// themselves, so leaving them by longjmp, when enough has come out, costs nothing but the limit.
#include "analyzer/symbols/demangle.h"

#include <csetjmp>
#include <cstddef>

#include <libiberty/demangle.h>

namespace heapprof::symbols {

namespace {

constexpr std::size_t kMaxMangledBytes = 1 << 20;
constexpr std::size_t kMaxDemangledBytes = 1 << 16;

struct Output {
  std::string text;
  std::jmp_buf too_long;
};

void append(const char* bytes, std::size_t size, void* opaque) {
  auto& output = *static_cast<Output*>(opaque);
  if (output.text.size() + size > kMaxDemangledBytes) std::longjmp(output.too_long, 1);
  output.text.append(bytes, size);
}

using Demangler = int (*)(const char* mangled, int options, demangle_callbackref callback, void* opaque);

/// Runs one demangler. Nothing with a destructor lives in this frame, because longjmp may end in it.
bool run(Demangler demangler, const char* mangled, Output& output) {
  output.text.clear();
  if (setjmp(output.too_long) != 0) return false;
  return demangler(mangled, DMGL_PARAMS | DMGL_ANSI, append, &output) != 0 && !output.text.empty();
}

/// `name` without the ".llvm.1234" that ThinLTO adds to local functions it makes visible.
std::string_view without_llvm_suffix(std::string_view name) {
  const std::size_t dot = name.rfind(".llvm.");
  if (dot == std::string_view::npos || name.find_first_not_of("0123456789", dot + 6) != std::string_view::npos)
    return name;
  return name.substr(0, dot);
}

}  // namespace

std::string demangle(std::string_view name) {
  const std::string mangled(without_llvm_suffix(name));
  const bool may_be_mangled = mangled.starts_with("_Z") || mangled.starts_with("_R") ||
                              mangled.starts_with("__R") || mangled.starts_with("_GLOBAL_");
  if (!may_be_mangled || mangled.size() > kMaxMangledBytes) return mangled;
  Output output;
  // Rust first: its legacy names are C++ names too, and would keep their hash.
  if (run(rust_demangle_callback, mangled.c_str(), output)) return output.text;
  if (run(cplus_demangle_v3_callback, mangled.c_str(), output)) return output.text;
  return mangled;
}

namespace {

/// Operators whose names hold brackets, the longer ones first.
constexpr std::string_view kBracketOperators[] = {"operator<=>", "operator->*", "operator<<=", "operator>>=",
                                                  "operator<<",  "operator>>",  "operator<=",  "operator>=",
                                                  "operator->",  "operator()",  "operator<",   "operator>"};

std::string_view bracket_operator(std::string_view rest) {
  for (const std::string_view name : kBracketOperators)
    if (rest.starts_with(name)) return name;
  return {};
}

bool is_name_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// The position of the bracket that closes the one at `open`; npos: none does.
std::size_t closing(std::string_view name, std::size_t open) {
  std::size_t depth = 0;
  std::string stack;
  for (std::size_t at = open; at < name.size(); ++at) {
    if (name[at] == 'o' && (at == 0 || !is_name_byte(name[at - 1])))
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
      default:
        break;
    }
  }
  return std::string_view::npos;
}

/// Appends `name` to `result` with its brackets emptied; false: they don't match.
bool shorten_into(std::string_view name, std::string& result, int depth) {
  std::size_t after_operator = std::string_view::npos;
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (name[at] == 'o' && (at == 0 || !is_name_byte(name[at - 1])))
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
    const std::size_t end = closing(name, at);
    if (end == std::string_view::npos) return false;
    const std::string_view inside = name.substr(at + 1, end - at - 1);
    // Rust's "<Type as Trait>", which is the scope itself, begins a name; "::<T>" and "name<T>" follow one.
    // Demanglers write a blank between "operator<<" and its arguments.
    const bool of_operator = at == after_operator || (at > 0 && at - 1 == after_operator && name[at - 1] == ' ');
    const bool qualifies = name[at] == '<' && !of_operator &&
                           (at == 0 || !(is_name_byte(name[at - 1]) || name[at - 1] == ':'));
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
  if (name.size() <= kShortEnough) return std::string(name);
  std::string result;
  if (!shorten_into(name, result, 0)) return std::string(name);
  return result;
}

}  // namespace heapprof::symbols
