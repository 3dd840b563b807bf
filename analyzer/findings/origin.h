// Where a function comes from: the program's own code, a third party, a standard library, or the runtime.
//
// Decided by what is known of one frame, in this order: a pattern of the user (--own, project file), the module's
// path, the function's name without its return type, the source path. Names decide before source paths, because
// without information about inlined functions a line of a library's header may stand for a function of the program.
//
// Lines of Python are judged by their source path alone. In a recording that has them, the interpreter is part of the
// runtime, and extension modules of its standard library are standard.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heapprof::findings {

enum class Origin : std::uint8_t {
  kOwn,         ///< the program, and libraries beside it
  kThirdParty,  ///< other libraries, and vendored sources
  kStandard,    ///< standard libraries of C++ and Rust
  kRuntime,     ///< libc, the loader, start-up code, allocators (malloc, operator new)
  kUnresolved,  ///< no function name, in a module that is none of the runtime's
};

/// "own", "third_party", "standard", "runtime", "unknown": the values of "origin" in JSON.
const char* name_of(Origin origin) noexcept;

/// Whether a name or path matches a pattern of the user.
using NamePattern = std::function<bool(const std::string& name)>;

/// What is known of a frame.
struct FrameFacts {
  std::string_view function;     ///< demangled; empty: unresolved
  std::string_view file;         ///< source path; empty: unknown
  std::string_view module_path;  ///< empty: code outside every file
  bool is_python = false;        ///< a line of Python, in no module
};

/// Patterns of the user: a function, source path or module path that one of them matches (anywhere) is of that
/// origin. They are tried in this order.
struct OriginPatterns {
  std::vector<NamePattern> own, third_party, standard, runtime;
};

class OriginRules {
 public:
  /// `programs`: paths of the executables. `has_python`: the recording has lines of Python.
  explicit OriginRules(std::vector<std::string> programs, OriginPatterns patterns = {}, bool has_python = false);
  explicit OriginRules(std::string program = {}, OriginPatterns patterns = {}, bool has_python = false)
      : OriginRules(std::vector{std::move(program)}, std::move(patterns), has_python) {}

  Origin of(const FrameFacts& frame) const;
  /// Whether the module is the program, a library beside it, or another one that is not the system's.
  bool is_own_module(std::string_view path) const { return !of_module(path); }

 private:
  std::optional<Origin> of_patterns(const FrameFacts& frame) const;
  std::optional<Origin> of_module(std::string_view path) const;

  bool has_python_;
  std::vector<std::string> programs_;
  std::vector<std::string> program_folders_;  ///< with a slash at the end; those of the system are left out
  std::vector<std::string> crates_;           ///< the names that the programs have as Rust crates
  OriginPatterns patterns_;
};

/// Whether `function` allocates for every program: malloc and its family, operator new, Rust's allocation functions.
bool is_allocation_function(std::string_view function);

/// Whether `function` is of the standard library of C++ (std, __gnu_cxx) or Rust (std, core, alloc, hashbrown). The
/// methods of the program's types that implement a trait of these are not. A return type is ignored.
bool is_of_standard_library(std::string_view function);

/// Whether `function` has the name of an allocation wrapper: xmalloc, g_realloc_n, xstrdup, pool_alloc.
bool is_named_like_allocator(std::string_view function);

/// Whether `function` starts a program or a thread: _start, __libc_start_main, start_thread, std::rt::lang_start.
bool is_start_up(std::string_view function);

/// Whether `function` of a standard library calls back: std::function, std::invoke, a thread's _M_run. Without
/// information about inlined functions, the function that it calls may be a part of it.
bool is_callback_caller(std::string_view function);

/// Whether `function` is the program's main function: main, or main of a Rust crate.
bool is_main(std::string_view function);

}  // namespace heapprof::findings
