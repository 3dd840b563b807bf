// Names of functions in DWARF.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace heapprof::symbols {

/// Caches names by the addresses of libdw's data, and therefore must not outlive the Dwarf object.
class DwarfFunctionNames {
 public:
  /// The name of the function `die`: its demangled linkage name, else its name with the scopes around it. Sets
  /// `is_plain` unless the name was demangled.
  std::string name_of(Dwarf_Die& die, bool& is_plain);

  /// True when scopes were skipped because the debug information is damaged.
  bool is_damaged() const { return damaged_; }

 private:
  /// The scopes around the functions of a compilation unit, such as "space::Class".
  struct Scopes {
    std::vector<std::string> names;
    std::unordered_map<Dwarf_Off, std::uint32_t> by_function;  ///< index into names, by the function's offset
  };

  std::string linkage_name(Dwarf_Die& die, bool& is_mangled);
  std::string qualified_name(Dwarf_Die& die);
  bool collect_scopes(Dwarf_Die& parent, std::uint32_t scope, int depth, Dwarf_Off& last_offset, Scopes& result);

  std::unordered_map<const char*, std::string> demangled_;  ///< by linkage name
  std::unordered_map<const void*, std::string> qualified_;  ///< by declaration
  std::unordered_map<const void*, Scopes> scopes_of_unit_;  ///< by unit
  bool damaged_ = false;
};

}  // namespace heapprof::symbols
