// Functions, inlined ones too, and source lines by DWARF.
//
// libdw answers such questions for one address by walking the whole compilation unit (dwarf_getscopes).
// Here all addresses of a module are asked at once: they are shared out to compilation units, and each unit
// that has some is walked once. That walk leaves out the insides of functions without a wanted address
// and of types; only if an address was then in no function (the bodies of local classes and lambdas stand
// inside other functions) it is walked again, leaving out nothing.
//
// Broken or hostile debug information: a walk only ever moves forward in the section and has limits on depth
// and on the number of ranges, so its time is bounded by the size of the file.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/symbols/dwarf_package.h"
#include "analyzer/symbols/interval_map.h"
#include "analyzer/symbols/symbolizer.h"

namespace heapprof::symbols {

class DwarfFrames {
 public:
  /// `is_code` tells whether an address of the debug information lies in the module's code, `in_function` whether it
  /// may lie in a function: no for one between two, which would be looked for in vain, at length. `packages` are
  /// files in which units may stand that were split off (the first that has one counts).
  DwarfFrames(Dwarf* dwarf, std::function<bool(std::uint64_t)> is_code,
                 std::function<bool(std::uint64_t)> in_function, std::vector<std::string> packages = {});

  /// Appends to frames[i] what is known about addresses[i] (sorted, distinct, in terms of the debug
  /// information): nothing; or one frame with a line but no function; or the inlined functions and the real
  /// one. The real one's name may be empty; plain_name[i] tells that it is not a demangled one, in which case
  /// the ELF symbol of that function may know more.
  void resolve(const std::vector<std::uint64_t>& addresses, std::vector<std::vector<SourceFrame>>& frames,
               std::vector<bool>& plain_name);

  /// False when a unit's part in another file (-gsplit-dwarf) was asked for and not found: it may turn up.
  bool is_whole() const { return whole_; }

  /// True when something was left out because the debug information is broken or beyond the limits.
  bool damaged() const { return damaged_; }

 private:
  struct Unit {
    Dwarf_Die die;    ///< has the line table
    Dwarf_Die split;  ///< has the functions; the same, but for -gsplit-dwarf
    bool lacks_split; ///< its functions stand in a file that was not found
    std::uint64_t id; ///< of a split unit
  };
  /// A function or an inlined one.
  struct Scope {
    Dwarf_Die die;
    std::uint32_t parent;  ///< index of the enclosing scope, or IntervalMap::kNone
    bool inlined;
  };
  struct Range {
    std::uint64_t low, high;
  };
  /// The names around the declared functions of a unit, such as "space::Class", by a function's offset.
  struct ScopeNames {
    std::vector<std::string> names;
    std::unordered_map<Dwarf_Off, std::uint32_t> of_function;
  };
  class Walk;

  void list_units();
  std::vector<Range> ranges_of(Dwarf_Die& die);
  void find_in_packages(Unit& unit);
  void resolve_in_unit(std::uint32_t number, const std::vector<std::uint64_t>& addresses,
                       const std::vector<std::size_t>& asked, std::vector<std::vector<SourceFrame>>& frames,
                       std::vector<bool>& plain_name);
  template <typename Visit>
  bool each_child(Dwarf_Die& parent, Dwarf_Off& last_offset, int depth, Visit&& visit);
  std::string function_name(Dwarf_Die& die, bool& plain);
  std::string linkage_name(Dwarf_Die& die, bool& mangled);
  std::string qualified_name(Dwarf_Die& die);
  bool collect_scope_names(Dwarf_Die& parent, std::uint32_t scope, int depth, Dwarf_Off& last_offset,
                           ScopeNames& result);

  Dwarf* dwarf_;
  std::function<bool(std::uint64_t)> is_code_;
  std::function<bool(std::uint64_t)> in_function_;
  std::vector<Unit> units_;
  IntervalMap units_by_address_;
  /// Demangled names by the mangled name's place in memory: one function is inlined in many places.
  std::unordered_map<const char*, std::string> demangled_;
  /// Likewise for functions without a linkage name, by the place of their declaration.
  std::unordered_map<const void*, std::string> qualified_;
  std::unordered_map<const void*, ScopeNames> scope_names_;  ///< by the place of the unit's entry
  std::vector<std::string> package_paths_;
  std::vector<std::unique_ptr<DwarfPackage>> packages_;
  bool packages_opened_ = false;
  /// While a unit from a package is walked: ranges relative to the unit's base lack it.
  std::uint64_t lacking_base_ = 0;
  std::uint32_t based_unit_ = 0;
  std::size_t ranges_left_;
  bool damaged_ = false;
  bool whole_ = true;
};

}  // namespace heapprof::symbols
