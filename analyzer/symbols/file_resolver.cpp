#include "analyzer/symbols/file_resolver.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "analyzer/symbols/demangle.h"
#include "analyzer/symbols/untrusted_text.h"

namespace heapprof::symbols {

namespace {

/// Whether the demangled ELF symbol `symbol` can be the function that its source calls `name`. It is another function
/// where the linker folded functions with identical code.
bool is_same_function(const std::string& symbol, const std::string& name) {
  std::string_view base(name);
  if (const std::size_t at = base.find("operator"); at != std::string_view::npos) {
    base = "operator";
  } else {
    base = base.substr(0, base.find('<'));
    if (const std::size_t colons = base.rfind("::"); colons != std::string_view::npos) base = base.substr(colons + 2);
  }
  return symbol.find(base) != std::string::npos;
}

/// Whether `symbol` is the public name of a C function that its library calls `name`: the source of libc calls malloc
/// `__libc_malloc`. A symbol with a dot is a part that the compiler split off a function.
bool is_public_name(const std::string& symbol, const std::string& name) {
  const auto underscores = [](const std::string& text) { return std::min(text.find_first_not_of('_'), text.size()); };
  return !symbol.empty() && symbol.find('.') == std::string::npos && underscores(symbol) < underscores(name);
}

/// Whether `symbol` can be another name for the C function that its source calls `name`. It is the same name, with
/// what the compiler of another language added, if it begins with `name` (Fortran: `name_`), or if `name` has scopes.
bool is_c_alias(const std::string& symbol, const std::string& name) {
  return symbol.find('.') == std::string::npos && name.find("::") == std::string::npos && !symbol.starts_with(name);
}

}  // namespace

FileResolver::FileResolver(const Module& module, const Options& options, const RecordedProcess& process)
    : module_(module), file_(module, options, process, warnings_), open_warnings_(warnings_.size()) {}

std::vector<std::string> FileResolver::resolve_warnings() const {
  return {warnings_.begin() + static_cast<std::ptrdiff_t>(open_warnings_), warnings_.end()};
}

void FileResolver::resolve(const std::vector<std::uint64_t>& addresses, std::vector<std::vector<SourceFrame>>& frames,
                           std::size_t first, std::size_t last) {
  if (!symbols_opened_) open_symbols();
  const std::vector<std::uint64_t> requested(addresses.begin() + static_cast<std::ptrdiff_t>(first),
                                             addresses.begin() + static_cast<std::ptrdiff_t>(last));
  std::vector<std::vector<SourceFrame>> found(requested.size());
  std::vector<bool> plain_name(requested.size(), true);
  if (debug_frames_) {
    std::vector<std::uint64_t> in_dwarf = requested;
    for (std::uint64_t& address : in_dwarf) address -= bias_;
    // DwarfFrames needs sorted addresses; a bias that wraps around breaks the order.
    if (std::is_sorted(in_dwarf.begin(), in_dwarf.end())) debug_frames_->resolve(in_dwarf, found, plain_name);
    if (debug_frames_->is_damaged())
      warnings_.push_back(module_.path + ": damaged debug information; some functions or source lines are missing");
  }
  for (std::size_t i = 0; i < requested.size(); ++i) {
    if (found[i].empty()) found[i].emplace_back();
    name_by_symbol(requested[i], found[i].back(), plain_name[i]);
    for (SourceFrame& frame : found[i]) {
      replace_control_characters(frame.function);
      replace_control_characters(frame.file);
      replace_control_characters(frame.definition_file);
    }
    frames[first + i] = std::move(found[i]);
  }
}

void FileResolver::open_symbols() {
  symbols_opened_ = true;
  // The debug information is opened before the symbol table: libdwfl then uses the table of the separate debug file.
  if (Dwarf* const dwarf = file_.dwarf(bias_); dwarf != nullptr)
    debug_frames_.emplace(
        dwarf, [this](std::uint64_t address) { return file_.is_code(address + bias_); },
        [this](std::uint64_t address) {
          return !symbol_table_->has_local() || !symbol_table_->name_at(address + bias_).empty();
        },
        file_.package_paths());
  symbol_table_.emplace(file_.dwfl_module());
}

void FileResolver::name_by_symbol(std::uint64_t address, SourceFrame& outermost, bool is_plain_name) const {
  if (!outermost.function.empty() && !is_plain_name) return;
  const std::string symbol = symbol_table_->name_at(address);
  std::string name = demangle(symbol);
  if (outermost.function.empty()) {
    outermost.function = symbol.empty() ? symbol_table_->tail_call_name_at(address) : std::move(name);
    if (outermost.function.empty() && outermost.file.empty())
      outermost.function_begin = symbol_table_->function_begin(address);
  } else if (name != symbol && is_same_function(name, outermost.function)) {
    // A suffix such as " [clone .isra.0]" is not a part of the function's name.
    outermost.function = name.substr(0, name.find(" [clone "));
  } else if (name == symbol && (is_public_name(symbol, outermost.function) ||
                                (is_c_alias(symbol, outermost.function) &&
                                 symbol_table_->has_only_other_exported_names(address, outermost.function)))) {
    outermost.function = std::move(name);
  }
}

}  // namespace heapprof::symbols
