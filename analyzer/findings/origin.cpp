#include "analyzer/findings/origin.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <utility>

#include "analyzer/findings/interpreter.h"
#include "analyzer/symbols/identifier.h"
#include "analyzer/symbols/return_type.h"

namespace heapprof::findings {
namespace {

bool starts_with_any(std::string_view text, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

bool is_any(std::string_view text, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool contains_any(std::string_view text, std::span<const std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

std::string_view base_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// Whether `file` is a shared library named `stem`: stem.so, stem.so.6, stem-2.36.so.
bool is_library(std::string_view file, std::string_view stem) {
  if (!file.starts_with(stem)) return false;
  file.remove_prefix(stem.size());
  if (file.starts_with('-')) file.remove_prefix(std::min(file.find(".so"), file.size()));
  return file.starts_with(".so");
}

bool is_library_of(std::string_view file, std::span<const std::string_view> stems) {
  return std::any_of(stems.begin(), stems.end(), [&](std::string_view stem) { return is_library(file, stem); });
}

constexpr std::array<std::string_view, 18> kRuntimeLibraries = {
    "libc",         "libpthread", "libm",        "libdl",       "librt",        "libresolv",
    "libutil",      "libanl",     "libnsl",      "libnss_dns",  "libnss_files", "libnss_compat",
    "libthread_db", "libmvec",    "libjemalloc", "libmimalloc", "libheapprof",  "ld"};
constexpr std::array<std::string_view, 6> kRuntimePrefixes = {"ld-linux",      "ld-musl-", "libtcmalloc",
                                                              "linux-vdso.so", "[vdso]",   "linux-gate.so"};
constexpr std::array<std::string_view, 9> kStandardLibraries = {
    "libstdc++", "libc++", "libc++abi", "libgcc_s", "libunwind", "libgfortran", "libgomp", "libobjc", "libstd"};

/// Folders of the system's libraries and programs. What is in one of them need not belong to what is beside it.
constexpr std::array<std::string_view, 14> kSystemFolders = {
    "/bin/",      "/sbin/",    "/lib/",       "/lib32/",     "/lib64/",         "/libx32/",        "/usr/bin/",
    "/usr/sbin/", "/usr/lib/", "/usr/lib32/", "/usr/lib64/", "/usr/local/bin/", "/usr/local/lib/", "/usr/libexec/"};
/// Folders that package managers fill, each package in a folder of its own.
constexpr std::array<std::string_view, 12> kPackageFolders = {
    "/site-packages/", "/dist-packages/", "/node_modules/", "/third_party/", "/third-party/",     "/3rdparty/",
    "/thirdparty/",    "/vendor/",        "/external/",     "/_deps/",       "/.cargo/registry/", "/.cargo/git/"};
constexpr std::array<std::string_view, 2> kCargoFolders = {"/.cargo/registry/", "/.cargo/git/"};
constexpr std::array<std::string_view, 5> kPackageRoots = {"/nix/store/", "/gnu/store/", "/snap/", "/usr/include/",
                                                           "/usr/local/include/"};
constexpr std::array<std::string_view, 2> kStandardSources = {"/include/c++/", "/rustc/"};

constexpr std::array<std::string_view, 4> kRustPaths = {"alloc::", "core::", "hashbrown::", "std::"};

/// The type and the trait of a Rust method: `<Type as Trait>::method`; the trait is empty in `<Type>::method`.
std::pair<std::string_view, std::string_view> type_and_trait(std::string_view name) {
  std::string_view type;
  std::size_t begin = 1;
  unsigned depth = 0;
  for (std::size_t at = begin; at < name.size(); ++at) {
    const char c = name[at];
    if (c == '<' || c == '(' || c == '[') ++depth;
    if (depth == 0 && type.empty() && name.substr(at).starts_with(" as ")) {
      type = name.substr(begin, at - begin);
      begin = at + std::string_view(" as ").size();
    }
    const bool closes = c == ')' || c == ']' || (c == '>' && name[at - 1] != '-');  // "->" precedes a result
    if (closes && depth == 0) {
      const std::string_view last = name.substr(begin, at - begin);
      return type.empty() ? std::pair(last, type) : std::pair(type, last);
    }
    if (closes) --depth;
  }
  return {};
}

/// Whether a type is one of Rust's standard libraries, a primitive one, one that is composed of others, or a type
/// parameter; of a reference, what it refers to counts.
bool is_rust_type(std::string_view type) {
  while (type.starts_with('&') || type.starts_with('<')) type.remove_prefix(1);
  for (const std::string_view word : {"mut ", "dyn "})
    if (type.starts_with(word)) type.remove_prefix(word.size());
  static constexpr std::array<std::string_view, 4> kComposed = {"[", "(", "*", "fn("};
  if (starts_with_any(type, kRustPaths) || starts_with_any(type, kComposed)) return true;
  const auto end = std::find_if_not(type.begin(), type.end(), symbols::is_identifier);
  const std::string_view word = type.substr(0, static_cast<std::size_t>(end - type.begin()));
  if (type.substr(word.size()).starts_with("::")) return false;
  static constexpr std::array<std::string_view, 17> kPrimitive = {"str", "bool", "char",  "u8",  "u16", "u32",
                                                                  "u64", "u128", "usize", "i8",  "i16", "i32",
                                                                  "i64", "i128", "isize", "f32", "f64"};
  return (word.size() == 1 && std::isupper(static_cast<unsigned char>(word.front())) != 0) ||
         is_any(word, kPrimitive);
}

/// Whether `name` belongs to Rust's standard libraries: a path into one, or a method of one of their types, of a
/// primitive type or of a type parameter (`<T as alloc::slice::hack::ConvertVec>::to_vec`). A method of the program's
/// type (`<mine::Type as core::clone::Clone>::clone`) does not, nor does one of the program's trait
/// (`<u8 as mine::Encode>::encode`): Rust lets only the crate of a type or of a trait implement the trait.
bool is_of_rust_libraries(std::string_view name) {
  if (starts_with_any(name, kRustPaths)) return true;
  if (!name.starts_with('<')) return false;
  auto [type, trait] = type_and_trait(name);
  while (trait.starts_with('<')) trait.remove_prefix(1);
  return is_rust_type(type) && (trait.empty() || starts_with_any(trait, kRustPaths));
}

/// Whether `function` is of a Rust crate: a path into it, or a method of one of its types or traits.
bool is_of_crate(std::string_view function, std::string_view crate) {
  const auto begins_with_crate = [&](std::string_view path) {
    while (path.starts_with('&') || path.starts_with('<')) path.remove_prefix(1);
    return path.starts_with(crate) && path.substr(crate.size()).starts_with("::");
  };
  const auto [type, trait] =
      function.starts_with('<') ? type_and_trait(function) : std::pair(function, std::string_view());
  return begins_with_crate(type) || begins_with_crate(trait);
}

/// Whether `function` is a part of what a macro of Rust's standard libraries expands to: the initializer of a
/// thread_local!, which has the name of the variable, and a line of the libraries.
bool is_expanded_rust_macro(std::string_view function, std::string_view file) {
  static constexpr std::array<std::string_view, 2> kConstants = {"::{{constant}}::", "::{K#"};  // both manglings
  return file.find("/rustc/") != std::string_view::npos && contains_any(function, kConstants);
}

bool is_plain_c_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](char c) { return symbols::is_identifier(c) || c == '.' || c == '@'; });
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

/// Names that C reserves, as libc uses them. In a static program libc is no module of its own.
bool is_of_libc(std::string_view name) {
  static constexpr std::array<std::string_view, 7> kPrefixes = {"_dl_",    "__libc_",    "_IO_",  "__nss_",
                                                                "__gconv", "__pthread_", "__cxa_"};
  return starts_with_any(name, kPrefixes);
}

/// Of a line of Python. Code without a file is that of exec and eval: "<string>".
Origin of_python(std::string_view file) {
  if (contains_any(file, kPackageFolders)) return Origin::kThirdParty;
  if (file.starts_with("<frozen ")) return Origin::kStandard;
  for (const std::string_view folder : {"/lib/python3", "/lib64/python3"})
    if (const std::size_t at = file.find(folder); at != std::string_view::npos) {
      file.remove_prefix(at + folder.size());
      // python3.11, python3.13t; also python311.zip.
      const std::size_t end = std::min(file.find_first_not_of(".0123456789t"), file.size());
      if ((file.starts_with('.') && file.substr(end).starts_with('/')) || file.substr(end).starts_with("zip/"))
        return Origin::kStandard;
    }
  return Origin::kOwn;
}

/// The folder of `path` with a slash at its end; empty if it is one of the system's.
std::string own_folder_of(const std::string& path) {
  std::string folder = path.substr(0, path.rfind('/') + 1);
  // Libraries are often in a folder beside that of the program: PREFIX/bin, PREFIX/lib.
  for (const std::string_view last : {"/bin/", "/sbin/", "/libexec/"})
    if (folder.ends_with(last)) folder.resize(folder.size() - last.size() + 1);
  static constexpr std::array<std::string_view, 6> kShared = {"", "/", "/usr/", "/usr/local/", "/opt/", "/tmp/"};
  if (is_any(folder, kShared) || is_any(folder, kSystemFolders)) return {};
  return folder;
}

}  // namespace

const char* name_of(Origin origin) noexcept {
  switch (origin) {
    case Origin::kOwn: return "own";
    case Origin::kThirdParty: return "third_party";
    case Origin::kStandard: return "standard";
    case Origin::kRuntime: return "runtime";
    case Origin::kUnresolved: break;
  }
  return "unknown";
}

bool is_allocation_function(std::string_view function) {
  static constexpr std::array<std::string_view, 22> kExact = {"malloc",
                                                              "calloc",
                                                              "realloc",
                                                              "reallocarray",
                                                              "memalign",
                                                              "posix_memalign",
                                                              "aligned_alloc",
                                                              "valloc",
                                                              "pvalloc",
                                                              "strdup",
                                                              "__strdup",
                                                              "strndup",
                                                              "__strndup",
                                                              "__libc_malloc",
                                                              "__libc_calloc",
                                                              "wcsdup",
                                                              "__libc_realloc",
                                                              "__rust_alloc",
                                                              "__rust_alloc_zeroed",
                                                              "__rust_realloc",
                                                              "asprintf",
                                                              "vasprintf"};
  static constexpr std::array<std::string_view, 3> kPrefixes = {"operator new", "__rdl_", "__rg_"};
  // Since Rust 1.86 these are in a namespace: __rustc::__rdl_alloc, or __rustc[hash]::__rdl_alloc.
  if (function.starts_with("__rustc"))
    if (const std::size_t scope = function.find("::"); scope != std::string_view::npos)
      function.remove_prefix(scope + 2);
  return is_any(function, kExact) || starts_with_any(function, kPrefixes);
}

bool is_of_standard_library(std::string_view function) {
  const std::string_view name = symbols::without_return_type(function);
  if (is_of_rust_libraries(name)) return true;
  static constexpr std::array<std::string_view, 3> kNamespaces = {"std::", "__gnu_cxx::", "__cxxabiv1::"};
  return starts_with_any(name, kNamespaces);
}

bool is_named_like_allocator(std::string_view function) {
  const std::string_view plain = function.substr(0, function.find('('));
  if (is_plain_c_name(plain)) {
    static constexpr std::array<std::string_view, 6> kParts = {"malloc", "calloc",  "realloc",
                                                               "strdup", "strndup", "memdup"};
    static constexpr std::array<std::string_view, 3> kEnds = {"alloc", "alloc0", "allocate"};
    const std::string lower = lower_case(plain);
    return contains_any(lower, kParts) || lower == "allocateheap" || lower == "reallocateheap" ||
           std::any_of(kEnds.begin(), kEnds.end(), [&](std::string_view end) { return lower.ends_with(end); });
  }
  // An embedded allocator of Rust: "<app::Counting as core::alloc::global::GlobalAlloc>::alloc_zeroed".
  if (function.find("::GlobalAlloc>::") != std::string_view::npos ||
      function.find("::Allocator>::") != std::string_view::npos)
    return true;
  // Methods with exactly these names (os::malloc), and wrappers of the JavaScript engine.
  if (plain.find('<') != std::string_view::npos) return false;
  const std::size_t scope = plain.rfind("::");
  if (scope == std::string_view::npos) return false;
  static constexpr std::array<std::string_view, 4> kNames = {"malloc", "calloc", "realloc", "AlignedAllocWithRetry"};
  return is_any(plain.substr(scope + 2), kNames);
}

bool is_start_up(std::string_view function) {
  static constexpr std::array<std::string_view, 17> kExact = {"_start",
                                                              "__libc_start_main",
                                                              "__libc_start_main_impl",
                                                              "__libc_start_call_main",
                                                              "__libc_csu_init",
                                                              "call_init",
                                                              "_dl_init",
                                                              "_dl_start",
                                                              "_dl_start_user",
                                                              "_dl_sysdep_start",
                                                              "dl_main",
                                                              "start_thread",
                                                              "clone",
                                                              "clone3",
                                                              "__clone",
                                                              "__clone_internal",
                                                              "execute_native_thread_routine"};
  if (is_any(function, kExact) || function.starts_with("std::rt::lang_start")) return true;
  static constexpr std::array<std::string_view, 2> kOfRust = {"__rust_begin_short_backtrace", "thread_start"};
  return function.starts_with("std::sys") && contains_any(function, kOfRust);
}

bool is_callback_caller(std::string_view function) {
  static constexpr std::array<std::string_view, 7> kPrefixes = {
      "std::function<",         "std::_Function_handler<",   "std::__invoke",       "std::invoke",
      "std::thread::_Invoker<", "std::thread::_State_impl<", "std::__future_base::"};
  return starts_with_any(symbols::without_return_type(function), kPrefixes);
}

bool is_main(std::string_view function) {
  if (function == "main" || function.starts_with("main(")) return true;
  // Of a Rust crate: one path segment before it.
  const std::size_t scope = function.find("::");
  if (scope == std::string_view::npos || function.substr(scope) != "::main") return false;
  return std::all_of(function.begin(), function.begin() + static_cast<std::ptrdiff_t>(scope), symbols::is_identifier);
}

OriginRules::OriginRules(std::vector<std::string> programs, OriginPatterns patterns, bool has_python)
    : has_python_(has_python), programs_(std::move(programs)), patterns_(std::move(patterns)) {
  for (const std::string& program : programs_)
    if (std::string folder = own_folder_of(program); !folder.empty()) program_folders_.push_back(std::move(folder));
  for (const std::string& program : programs_) {
    std::string crate(base_of(program));
    std::ranges::replace(crate, '-', '_');
    if (!crate.empty()) crates_.push_back(std::move(crate));
  }
}

std::optional<Origin> OriginRules::of_patterns(const FrameFacts& frame) const {
  const std::pair<const std::vector<NamePattern>*, Origin> all[] = {{&patterns_.own, Origin::kOwn},
                                                                    {&patterns_.third_party, Origin::kThirdParty},
                                                                    {&patterns_.standard, Origin::kStandard},
                                                                    {&patterns_.runtime, Origin::kRuntime}};
  for (const auto& [patterns, origin] : all)
    for (const NamePattern& matches : *patterns)
      for (const std::string_view text : {frame.function, frame.file, frame.module_path})
        if (!text.empty() && matches(std::string(text))) return origin;
  return std::nullopt;
}

/// nullopt: the program itself, a library beside it, or code without a file; names and sources decide.
std::optional<Origin> OriginRules::of_module(std::string_view path) const {
  if (has_python_) {
    if (is_python_interpreter(path)) return Origin::kRuntime;
    if (path.find("/lib-dynload/") != std::string_view::npos) return Origin::kStandard;
  }
  if (path.empty() || std::ranges::find(programs_, path) != programs_.end()) return std::nullopt;
  const std::string_view file = base_of(path);
  if (is_library_of(file, kRuntimeLibraries) || starts_with_any(file, kRuntimePrefixes)) return Origin::kRuntime;
  if (is_library_of(file, kStandardLibraries)) return Origin::kStandard;
  if (contains_any(path, kPackageFolders)) return Origin::kThirdParty;
  if (std::ranges::any_of(program_folders_, [&](const std::string& folder) { return path.starts_with(folder); }))
    return std::nullopt;
  if (starts_with_any(path, kSystemFolders) || starts_with_any(path, kPackageRoots)) return Origin::kThirdParty;
  return std::nullopt;
}

Origin OriginRules::of(const FrameFacts& frame) const {
  if (const std::optional<Origin> wanted = of_patterns(frame)) return *wanted;
  if (frame.is_python) return of_python(frame.file);
  const std::optional<Origin> module = of_module(frame.module_path);
  if (module == Origin::kRuntime || module == Origin::kStandard) return *module;
  if (frame.function.empty()) return module.value_or(Origin::kUnresolved);
  // A program may well have its own `clone`.
  if (is_allocation_function(frame.function) || is_of_libc(frame.function) ||
      (is_start_up(frame.function) && frame.function != "clone"))
    return Origin::kRuntime;
  if (is_of_standard_library(frame.function)) return Origin::kStandard;
  if (module) return *module;
  if (is_expanded_rust_macro(frame.function, frame.file)) return Origin::kStandard;
  // Its name is not of a standard library: the line is that of an inlined function.
  if (contains_any(frame.file, kStandardSources)) return Origin::kOwn;
  if (!contains_any(frame.file, kPackageFolders) && !starts_with_any(frame.file, kPackageRoots)) return Origin::kOwn;
  // `cargo install` builds a program in the folder of its package, which is one of many there.
  const bool is_of_program =
      std::ranges::any_of(crates_, [&](const std::string& crate) { return is_of_crate(frame.function, crate); });
  return is_of_program && contains_any(frame.file, kCargoFolders) ? Origin::kOwn : Origin::kThirdParty;
}

}  // namespace heapprof::findings
