// Resolves addresses to functions, inlined functions and source lines by DWARF.
//
// libdw resolves one address by walking its whole compilation unit (dwarf_getscopes). Here each unit is walked once
// for all of its requested addresses. The first walk skips the contents of types, and of functions without a
// requested address. A second walk, which skips nothing, follows only if an address is still without a function: the
// bodies of local classes and lambdas are inside the entries of other functions.
//
// Damaged or hostile debug information: walks only move forward in the section (dwarf_children.h), with limits on
// depth and number of ranges, so that the time is bounded by the size of the file.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/symbols/dwarf_function_names.h"
#include "analyzer/symbols/dwarf_package.h"
#include "analyzer/symbols/interval_map.h"
#include "analyzer/symbols/source_frame.h"

namespace heapprof::symbols {

/// All addresses are those of the debug information. Not thread safe.
class DwarfFrames {
 public:
  /// `is_code` returns whether an address is in the module's code; `in_function`, whether it can be in a function,
  /// which saves the second walk for addresses between functions. `package_paths`: where packages of split DWARF may
  /// be; the first one that contains a unit is used. `dwarf` must outlive the object.
  DwarfFrames(Dwarf* dwarf, std::function<bool(std::uint64_t)> is_code,
              std::function<bool(std::uint64_t)> in_function, std::vector<std::string> package_paths = {});

  /// Appends the frames of addresses[i] (sorted, distinct) to frames[i]: none; or one with a source line but no
  /// function; or inlined functions, then the function that contains them, whose name may be empty. Sets
  /// is_plain_name[i] if that name is not a demangled one, so that the ELF symbol may be better.
  void resolve(const std::vector<std::uint64_t>& addresses, std::vector<std::vector<SourceFrame>>& frames,
               std::vector<bool>& is_plain_name);

  /// False: the split DWARF of a requested unit (-gsplit-dwarf) was not found.
  bool is_complete() const { return complete_; }

  /// True: something was skipped because the debug information is damaged or exceeds the limits.
  bool is_damaged() const { return damaged_ || names_.is_damaged(); }

 private:
  struct Unit {
    Dwarf_Die die;     ///< has the line table
    Dwarf_Die split;   ///< has the functions: the split unit (.dwo), or `die` itself
    bool lacks_split;  ///< the split unit was not found
    std::uint64_t dwo_id;
  };
  /// A function or an inlined function.
  struct Scope {
    Dwarf_Die die;
    std::uint32_t parent;  ///< index of the enclosing scope, or IntervalMap::kNone
    bool inlined;
  };
  struct Range {
    std::uint64_t low, high;
  };
  class Walk;

  void list_units();
  std::vector<Range> code_ranges(Dwarf_Die& die);
  void find_in_packages(Unit& unit);
  void resolve_in_unit(std::uint32_t unit_index, const std::vector<std::uint64_t>& addresses,
                       const std::vector<std::size_t>& requested, std::vector<std::vector<SourceFrame>>& frames,
                       std::vector<bool>& is_plain_name);

  Dwarf* dwarf_;
  std::function<bool(std::uint64_t)> is_code_;
  std::function<bool(std::uint64_t)> in_function_;
  std::vector<Unit> units_;
  IntervalMap units_by_address_;
  DwarfFunctionNames names_;
  std::vector<std::string> package_paths_;
  std::vector<std::unique_ptr<DwarfPackage>> packages_;
  bool packages_opened_ = false;
  /// While a unit of a package is walked: its base address, which its relative ranges lack (dwarf_package.h).
  std::uint64_t missing_base_ = 0;
  std::uint32_t missing_base_unit_ = 0;
  std::size_t ranges_left_;
  bool damaged_ = false;
  bool complete_ = true;
};

}  // namespace heapprof::symbols
