// Functions by ELF symbol table: .symtab (of the file, its debug file, or .gnu_debugdata), else .dynsym.
//
// A symbol with a size covers its bytes. A symbol without a size, as hand-written assembly often has, extends to the
// next symbol, to the next function with unwind information (in a stripped library the next symbol may be far), or to
// the end of its section, whichever is first, but never into the bytes of a symbol with a size.
//
// In a stripped file, local functions have no symbols. A local function gets a name from the exported functions that
// end in a jump to it (a tail call): libc's localtime and setenv are implemented in such functions.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/symbols/eh_frame_functions.h"
#include "analyzer/symbols/interval_map.h"

namespace heapprof::symbols {

/// All addresses are those of the Dwfl_Module.
class ElfSymbolTable {
 public:
  /// `module` must outlive the object.
  explicit ElfSymbolTable(Dwfl_Module* module);

  /// The mangled name of the function at `address`, without a symbol version; empty: there is no symbol.
  std::string name_at(std::uint64_t address) const;

  /// Whether the function at `address` has exported names (global or weak), but `name` is none of them: the name that
  /// its source gives it is private, and name_at() is exported.
  bool has_only_other_exported_names(std::uint64_t address, std::string_view name) const;

  /// A name for the function at `address`, which has no symbol, from exported functions with a tail call to it:
  /// kTailCallPrefix, their names, and "]". Empty: there are none, or too many.
  std::string tail_call_name_at(std::uint64_t address) const;

  /// First address of the function at `address`, by its unwind information; 0: unknown.
  std::uint64_t function_begin(std::uint64_t address) const { return eh_frame_.begin_of(address); }

  /// False: local functions may have no symbols, so that an address without a name can be in a function.
  bool has_local() const noexcept { return has_local_; }

 private:
  struct Symbol {
    std::uint64_t begin;
    std::uint64_t end;          ///< equals begin: the symbol has no size
    std::uint64_t section_end;  ///< 0: unknown
    const char* name;           ///< valid as long as the module
    bool local;
  };

  struct Name {
    const char* text;
    bool local;
    bool is_alias;  ///< it has the same range as the name before
  };

  static bool is_better_name(const Symbol& a, const Symbol& b);
  void add_sized(std::vector<Symbol>& sized);
  void add_unsized(std::vector<Symbol>& unsized, const std::vector<std::uint64_t>& all_begins);
  void add_tail_calls(Dwfl_Module* module, const std::vector<Symbol>& sized);

  EhFrameFunctions eh_frame_;
  std::vector<Name> names_;
  std::vector<std::string> tail_call_names_;
  IntervalMap sized_;       ///< index into names_
  IntervalMap unsized_;     ///< index into names_
  IntervalMap tail_calls_;  ///< index into tail_call_names_
  bool has_local_ = false;
};

}  // namespace heapprof::symbols
