// Functions by the ELF symbol table: .symtab (of the file or its debug file, or from .gnu_debugdata), else
// .dynsym.
//
// A symbol with a size covers its bytes. Hand-written assembly often gives none: such a symbol reaches to
// the next symbol, the next function that has unwind information (in a stripped library the next symbol may be far),
// or the end of its section, but never into the bytes of a symbol that has a size.
//
// In a stripped file local functions have no names. Of those that exported functions jump to (compilers end a
// function in a jump where it could call and return), this is said: in libc, localtime's and setenv's work is done
// there.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/symbols/interval_map.h"
#include "analyzer/symbols/eh_frame_functions.h"

namespace heapprof::symbols {

class ElfSymbolTable {
 public:
  explicit ElfSymbolTable(Dwfl_Module* module);

  /// The mangled name of the function at `address` (of the ELF file), without a symbol version; empty: none.
  std::string name_at(std::uint64_t address) const;

  /// The function at `address` has no symbol, but exported ones jump to it: the name with kTailCallPrefix. Not where they are
  /// many. Empty: nothing is known.
  std::string tail_at(std::uint64_t address) const;

  /// Where the function at `address` begins, by its unwind information, whether it has a name or not; 0: unknown.
  std::uint64_t begin_at(std::uint64_t address) const { return unwind_functions_.begin_at(address); }

  /// False: the file's local functions may not be in the table, so that nothing follows from an address without name.
  bool has_local() const noexcept { return has_local_; }

 private:
  struct Symbol {
    std::uint64_t begin;
    std::uint64_t end;          ///< of what it covers
    std::uint64_t section_end;  ///< 0: unknown
    const char* name;           ///< lives as long as the module
    bool local;
  };

  static bool better(const Symbol& a, const Symbol& b);
  void add_sized(std::vector<Symbol>& sized);
  void add_unsized(std::vector<Symbol>& unsized, const std::vector<std::uint64_t>& all_begins);
  void add_tails(Dwfl_Module* module, const std::vector<Symbol>& sized, const std::vector<std::uint64_t>& begins);

  EhFrameFunctions unwind_functions_;
  std::vector<const char*> names_;
  std::vector<std::string> tail_names_;
  IntervalMap sized_;
  IntervalMap unsized_;
  IntervalMap tails_;
  bool has_local_ = false;
};

}  // namespace heapprof::symbols
