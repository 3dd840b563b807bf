#include "analyzer/symbols/dwarf_frames.h"

#include <dwarf.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "analyzer/symbols/dwarf_children.h"

namespace heapprof::symbols {

namespace {

/// Address ranges of all entries of a module: more than the largest programs have, and at most 1.5 GB of memory.
constexpr std::size_t kMaxRanges = 64u << 20;

/// The path of `file`, which a unit compiled in `directory` names, without "." and "..": the paths of a build outside
/// of the source tree contain them. After a symbolic link, removing ".." gives the path of another file, which is
/// rare.
std::string absolute_path(const char* file, const char* directory) {
  if (file == nullptr || *file == '\0') return {};
  const std::filesystem::path path(file);
  if (path.is_absolute() || directory == nullptr || *directory != '/') return path.lexically_normal();
  return (std::filesystem::path(directory) / path).lexically_normal();
}

}  // namespace

DwarfFrames::DwarfFrames(Dwarf* dwarf, std::function<bool(std::uint64_t)> is_code,
                         std::function<bool(std::uint64_t)> in_function, std::vector<std::string> package_paths)
    : dwarf_(dwarf), is_code_(std::move(is_code)), in_function_(std::move(in_function)),
      package_paths_(std::move(package_paths)), ranges_left_(kMaxRanges) {
  list_units();
}

/// The address ranges of an entry, without those outside of the code: the functions that the linker removed have
/// ranges that begin at 0 or another address without code.
std::vector<DwarfFrames::Range> DwarfFrames::code_ranges(Dwarf_Die& die) {
  std::vector<Range> ranges;
  Dwarf_Addr base = 0, low = 0, high = 0;
  for (std::ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &low, &high)) > 0;) {
    if (ranges_left_ == 0) {
      damaged_ = true;
      break;
    }
    --ranges_left_;
    if (missing_base_ != 0 && units_by_address_.find(low) != missing_base_unit_ &&
        units_by_address_.find(low + missing_base_) == missing_base_unit_) {
      low += missing_base_;
      high += missing_base_;
    }
    if (low < high && is_code_(low)) ranges.push_back({low, high});
  }
  return ranges;
}

void DwarfFrames::list_units() {
  std::vector<std::uint32_t> without_ranges;
  Dwarf_CU* cu = nullptr;
  Dwarf_Die die, split;
  std::uint8_t type = 0;
  Dwarf_Half version = 0;
  while (dwarf_get_units(dwarf_, cu, &cu, &version, &type, &die, &split) == 0) {
    if (type != DW_UT_compile && type != DW_UT_skeleton) continue;
    const auto index = static_cast<std::uint32_t>(units_.size());
    const bool has_split = type == DW_UT_skeleton && dwarf_tag(&split) == DW_TAG_compile_unit;
    const bool lacks_split = type == DW_UT_skeleton && !has_split;
    std::uint64_t dwo_id = 0;
    if (lacks_split) dwarf_cu_info(cu, nullptr, nullptr, nullptr, nullptr, &dwo_id, nullptr, nullptr);
    units_.push_back({die, has_split ? split : die, lacks_split, dwo_id});
    const std::vector<Range> ranges = code_ranges(die);
    if (ranges.empty()) without_ranges.push_back(index);
    for (const Range& range : ranges) units_by_address_.add(range.low, range.high, index);
  }
  if (!without_ranges.empty()) {
    // Compilers that omit the ranges of a unit write .debug_aranges.
    std::unordered_map<Dwarf_Off, std::uint32_t> by_offset;
    for (const std::uint32_t index : without_ranges) by_offset[dwarf_dieoffset(&units_[index].die)] = index;
    Dwarf_Aranges* aranges = nullptr;
    std::size_t count = 0;
    if (dwarf_getaranges(dwarf_, &aranges, &count) != 0) count = 0;
    for (std::size_t i = 0; i < count; ++i) {
      Dwarf_Addr begin = 0;
      Dwarf_Word length = 0;
      Dwarf_Off offset = 0;
      if (dwarf_getarangeinfo(dwarf_onearange(aranges, i), &begin, &length, &offset) != 0) continue;
      const auto unit = by_offset.find(offset);
      if (unit != by_offset.end() && begin + length > begin && is_code_(begin))
        units_by_address_.add(begin, begin + length, unit->second);
    }
  }
  units_by_address_.build();
}

/// One pass over the entries of a unit, which collects the functions that contain requested addresses.
class DwarfFrames::Walk {
 public:
  /// `requested`: sorted addresses, which must outlive the object. `thorough`: skip nothing.
  Walk(DwarfFrames& owner, const std::vector<std::uint64_t>& requested, bool thorough)
      : owner_(owner), requested_(requested), thorough_(thorough) {}

  void run(Dwarf_Die& unit) {
    last_offset_ = dwarf_dieoffset(&unit);
    visit_children(unit, IntervalMap::kNone, 0);
    map_.build();
  }

  /// The innermost scope that contains `address`; null: there is none.
  const Scope* find(std::uint64_t address) const {
    const std::uint32_t scope = map_.find(address);
    return scope == IntervalMap::kNone ? nullptr : &scopes_[scope];
  }
  const Scope* parent(const Scope& scope) const {
    return scope.parent == IntervalMap::kNone ? nullptr : &scopes_[scope.parent];
  }

 private:
  bool any_requested(const std::vector<Range>& ranges) const {
    return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
      const auto at = std::lower_bound(requested_.begin(), requested_.end(), range.low);
      return at != requested_.end() && *at < range.high;
    });
  }

  bool visit_children(Dwarf_Die& parent, std::uint32_t scope, int depth) {
    return for_each_child(parent, last_offset_, depth, owner_.damaged_,
                          [&](Dwarf_Die& die) { return visit(die, scope, depth); });
  }

  bool visit(Dwarf_Die& die, std::uint32_t scope, int depth) {
    const bool inside_function = scope != IntervalMap::kNone;
    switch (dwarf_tag(&die)) {
      case DW_TAG_subprogram:
      case DW_TAG_inlined_subroutine: {
        const std::vector<Range> ranges = owner_.code_ranges(die);
        if (any_requested(ranges)) {
          const auto index = static_cast<std::uint32_t>(scopes_.size());
          scopes_.push_back({die, scope, dwarf_tag(&die) == DW_TAG_inlined_subroutine});
          for (const Range& range : ranges) map_.add(range.low, range.high, index);
          return visit_children(die, index, depth + 1);
        }
        return !thorough_ || visit_children(die, scope, depth + 1);
      }
      case DW_TAG_lexical_block:
      case DW_TAG_try_block:
      case DW_TAG_catch_block:
      case DW_TAG_with_stmt: {
        if (!thorough_) {
          const std::vector<Range> ranges = owner_.code_ranges(die);
          if (!ranges.empty() && !any_requested(ranges)) return true;
        }
        return visit_children(die, scope, depth + 1);
      }
      case DW_TAG_namespace:
      case DW_TAG_module: return visit_children(die, scope, depth + 1);
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
      case DW_TAG_interface_type: return !(thorough_ || inside_function) || visit_children(die, scope, depth + 1);
      default: return true;
    }
  }

  DwarfFrames& owner_;
  const std::vector<std::uint64_t>& requested_;
  const bool thorough_;
  Dwarf_Off last_offset_ = 0;
  std::vector<Scope> scopes_;
  IntervalMap map_;
};

void DwarfFrames::find_in_packages(Unit& unit) {
  if (!std::exchange(packages_opened_, true))
    for (const std::string& path : package_paths_)
      if (auto package = DwarfPackage::open(path); package != nullptr) packages_.push_back(std::move(package));
  for (const auto& package : packages_)
    if (package->find(dwarf_, unit.die, unit.dwo_id, unit.split)) {
      unit.lacks_split = false;
      return;
    }
}

void DwarfFrames::resolve_in_unit(std::uint32_t unit_index, const std::vector<std::uint64_t>& addresses,
                                  const std::vector<std::size_t>& requested,
                                  std::vector<std::vector<SourceFrame>>& frames, std::vector<bool>& is_plain_name) {
  Unit& unit = units_[unit_index];
  missing_base_ = 0;
  if (unit.lacks_split) find_in_packages(unit);
  if (unit.lacks_split) complete_ = false;
  else if (unit.dwo_id != 0 && dwarf_lowpc(&unit.die, &missing_base_) == 0) missing_base_unit_ = unit_index;
  std::vector<std::uint64_t> wanted;
  for (const std::size_t i : requested) wanted.push_back(addresses[i]);
  Walk quick(*this, wanted, false);
  quick.run(unit.split);
  std::erase_if(wanted,
                [&](std::uint64_t address) { return quick.find(address) != nullptr || !in_function_(address); });
  Walk thorough(*this, wanted, true);
  if (!wanted.empty()) thorough.run(unit.split);

  Dwarf_Files* files = nullptr;
  std::size_t file_count = 0;
  if (dwarf_getsrcfiles(&unit.split, &files, &file_count) != 0) file_count = 0;

  Dwarf_Attribute directory_attribute;
  const char* directory = dwarf_formstring(dwarf_attr(&unit.die, DW_AT_comp_dir, &directory_attribute));
  // Most addresses of a unit share a few files.
  std::unordered_map<const char*, std::string> paths;
  const auto path_of = [&](const char* file) -> const std::string& {
    const auto [known, is_new] = paths.try_emplace(file);
    if (is_new) known->second = absolute_path(file, directory);
    return known->second;
  };

  Dwarf_Half version = 0;
  dwarf_cu_info(unit.split.cu, &version, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  // Null: unknown.
  const auto definition_file_of = [&](Dwarf_Die& function) -> const char* {
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    if (dwarf_formudata(dwarf_attr_integrate(&function, DW_AT_decl_file, &attribute), &value) != 0) return nullptr;
    // With link-time optimization, what is known of an inlined function can be in another unit.
    if (attribute.cu != unit.split.cu) return dwarf_decl_file(&function);
    // Files have numbers from 0 since DWARF 5.
    return value < file_count && (value != 0 || version >= 5) ? dwarf_filesrc(files, value, nullptr, nullptr)
                                                              : nullptr;
  };

  for (const std::size_t i : requested) {
    SourceFrame frame;
    if (Dwarf_Line* line = dwarf_getsrc_die(&unit.die, addresses[i]); line != nullptr) {
      frame.file = path_of(dwarf_linesrc(line, nullptr, nullptr));
      int number = 0;
      if (dwarf_lineno(line, &number) == 0 && number > 0) frame.line = number;
    }
    const Walk* walk = &quick;
    const Scope* scope = quick.find(addresses[i]);
    if (scope == nullptr) {
      walk = &thorough;
      scope = thorough.find(addresses[i]);
    }
    bool is_plain = true;
    while (scope != nullptr) {
      Dwarf_Die die = scope->die;
      frame.function = names_.name_of(die, is_plain);
      frame.inlined = scope->inlined;
      if (const char* const file = definition_file_of(die); file != nullptr && !frame.file.empty())
        if (const std::string& path = path_of(file); path != frame.file) frame.definition_file = path;
      const Scope* outer = walk->parent(*scope);
      // In damaged debug information an inlined function can be in no other one, and counts as not inlined.
      if (!scope->inlined || outer == nullptr) break;
      frames[i].push_back(std::move(frame));
      // The next frame executes the call that was inlined.
      frame = SourceFrame();
      Dwarf_Attribute attribute;
      Dwarf_Word value = 0;
      if (dwarf_formudata(dwarf_attr(&die, DW_AT_call_file, &attribute), &value) == 0 && value < file_count)
        frame.file = path_of(dwarf_filesrc(files, value, nullptr, nullptr));
      if (dwarf_formudata(dwarf_attr(&die, DW_AT_call_line, &attribute), &value) == 0 && value <= INT32_MAX)
        frame.line = static_cast<int>(value);
      scope = outer;
    }
    if (scope == nullptr && frame.file.empty()) continue;
    frame.inlined = false;
    frames[i].push_back(std::move(frame));
    is_plain_name[i] = is_plain;
  }
}

void DwarfFrames::resolve(const std::vector<std::uint64_t>& addresses, std::vector<std::vector<SourceFrame>>& frames,
                          std::vector<bool>& is_plain_name) {
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> by_unit;
  for (std::size_t i = 0; i < addresses.size(); ++i)
    if (const std::uint32_t unit = units_by_address_.find(addresses[i]); unit != IntervalMap::kNone)
      by_unit[unit].push_back(i);
  for (auto& [unit, requested] : by_unit) resolve_in_unit(unit, addresses, requested, frames, is_plain_name);
}

}  // namespace heapprof::symbols
