#include "analyzer/symbols/dwarf_frames.h"

#include <dwarf.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "analyzer/symbols/demangle.h"

namespace heapprof::symbols {

namespace {

/// Deeper nesting than any compiler writes; the walk recurses this deep.
constexpr int kMaxDepth = 400;
/// Ranges of one module, all entries together: more than the largest programs have, and 1.5 GB at most.
constexpr std::size_t kMaxRanges = 64u << 20;

constexpr std::string_view kUnnamedType = "{unnamed type}";

/// "around::name", where the unnamed type that holds an operator() is taken for a lambda's.
std::string joined(std::string around, const std::string& name) {
  if (around.empty()) return name;
  if (around.ends_with(kUnnamedType) && name.starts_with("operator()"))
    around.replace(around.size() - kUnnamedType.size(), std::string::npos, "{lambda}");
  return around + "::" + name;
}

std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : std::string(text); }

/// `file` of a unit compiled in `folder`, without "." and "..". Builds outside of the source tree name every
/// file "../something"; that a symbolic link turns such a path elsewhere is possible and rare.
std::string absolute(const char* file, const char* folder) {
  if (file == nullptr || *file == '\0') return {};
  const std::filesystem::path path(file);
  if (path.is_absolute() || folder == nullptr || *folder != '/') return path.lexically_normal();
  return (std::filesystem::path(folder) / path).lexically_normal();
}

/// The entry that holds the declaration of a function: where its names and its surroundings are.
Dwarf_Die declaration_of(const Dwarf_Die& function) {
  Dwarf_Die die = function;
  for (int steps = 0; steps < 16; ++steps) {
    Dwarf_Attribute attribute;
    Dwarf_Die next;
    if (dwarf_attr(&die, DW_AT_abstract_origin, &attribute) == nullptr &&
        dwarf_attr(&die, DW_AT_specification, &attribute) == nullptr)
      break;
    if (dwarf_formref_die(&attribute, &next) == nullptr) break;
    die = next;
  }
  return die;
}

bool has_scopes(int language) {
  switch (language) {
    case DW_LANG_C89:
    case DW_LANG_C:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case DW_LANG_Mips_Assembler:
      return false;
    default:
      return true;
  }
}

}  // namespace

DwarfFrames::DwarfFrames(Dwarf* dwarf, std::function<bool(std::uint64_t)> is_code,
                               std::function<bool(std::uint64_t)> in_function, std::vector<std::string> packages)
    : dwarf_(dwarf),
      is_code_(std::move(is_code)),
      in_function_(std::move(in_function)),
      package_paths_(std::move(packages)),
      ranges_left_(kMaxRanges) {
  list_units();
}

/// The address ranges of an entry that lie in code.
std::vector<DwarfFrames::Range> DwarfFrames::ranges_of(Dwarf_Die& die) {
  std::vector<Range> ranges;
  Dwarf_Addr base = 0, low = 0, high = 0;
  for (std::ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &low, &high)) > 0;) {
    if (ranges_left_ == 0) {
      damaged_ = true;
      break;
    }
    --ranges_left_;
    if (lacking_base_ != 0 && units_by_address_.find(low) != based_unit_ &&
        units_by_address_.find(low + lacking_base_) == based_unit_) {
      low += lacking_base_;
      high += lacking_base_;
    }
    // Functions that the linker dropped begin at 0 or another address where no code is.
    if (low < high && is_code_(low)) ranges.push_back({low, high});
  }
  return ranges;
}

// --- units ---------------------------------------------------------------------------------------------

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
    std::uint64_t id = 0;
    if (lacks_split) dwarf_cu_info(cu, nullptr, nullptr, nullptr, nullptr, &id, nullptr, nullptr);
    units_.push_back({die, has_split ? split : die, lacks_split, id});
    const std::vector<Range> ranges = ranges_of(die);
    if (ranges.empty()) without_ranges.push_back(index);
    for (const Range& range : ranges) units_by_address_.add(range.low, range.high, index);
  }
  if (!without_ranges.empty()) {
    // Compilers that leave a unit's own ranges out write .debug_aranges.
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

// --- walking a unit ------------------------------------------------------------------------------------

/// Calls visit(child) until it returns false. Returns false when it did, or when the entries are broken, so
/// that nothing after here should be visited.
template <typename Visit>
bool DwarfFrames::each_child(Dwarf_Die& parent, Dwarf_Off& last_offset, int depth, Visit&& visit) {
  if (depth == kMaxDepth) {
    damaged_ = true;
    return true;
  }
  Dwarf_Die die;
  if (dwarf_haschildren(&parent) <= 0 || dwarf_child(&parent, &die) != 0) return true;
  for (int more = 0; more == 0; more = dwarf_siblingof(&die, &die)) {
    // Entries come in the order of the section. A sibling reference that leads back would have some visited
    // again and again.
    const Dwarf_Off offset = dwarf_dieoffset(&die);
    if (offset <= last_offset) {
      damaged_ = true;
      return false;
    }
    last_offset = offset;
    if (!visit(die)) return false;
  }
  return true;
}

/// One pass over the entries of a unit, which collects the scopes around wanted addresses.
class DwarfFrames::Walk {
 public:
  /// `wanted`: sorted addresses. `thorough`: leave nothing out.
  Walk(DwarfFrames& owner, const std::vector<std::uint64_t>& wanted, bool thorough)
      : owner_(owner), wanted_(wanted), thorough_(thorough) {}

  void run(Dwarf_Die& unit) {
    last_offset_ = dwarf_dieoffset(&unit);
    children(unit, IntervalMap::kNone, 0);
    map_.build();
  }

  /// The innermost scope around `address`, or null.
  const Scope* find(std::uint64_t address) const {
    const std::uint32_t scope = map_.find(address);
    return scope == IntervalMap::kNone ? nullptr : &scopes_[scope];
  }
  const Scope* parent(const Scope& scope) const {
    return scope.parent == IntervalMap::kNone ? nullptr : &scopes_[scope.parent];
  }

 private:
  bool any_wanted(const std::vector<Range>& ranges) const {
    return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
      const auto at = std::lower_bound(wanted_.begin(), wanted_.end(), range.low);
      return at != wanted_.end() && *at < range.high;
    });
  }

  bool children(Dwarf_Die& parent, std::uint32_t scope, int depth) {
    return owner_.each_child(parent, last_offset_, depth, [&](Dwarf_Die& die) { return visit(die, scope, depth); });
  }

  bool visit(Dwarf_Die& die, std::uint32_t scope, int depth) {
    const bool inside_function = scope != IntervalMap::kNone;
    switch (dwarf_tag(&die)) {
      case DW_TAG_subprogram:
      case DW_TAG_inlined_subroutine: {
        const std::vector<Range> ranges = owner_.ranges_of(die);
        if (any_wanted(ranges)) {
          const auto index = static_cast<std::uint32_t>(scopes_.size());
          scopes_.push_back({die, scope, dwarf_tag(&die) == DW_TAG_inlined_subroutine});
          for (const Range& range : ranges) map_.add(range.low, range.high, index);
          return children(die, index, depth + 1);
        }
        return !thorough_ || children(die, scope, depth + 1);
      }
      case DW_TAG_lexical_block:
      case DW_TAG_try_block:
      case DW_TAG_catch_block:
      case DW_TAG_with_stmt: {
        if (!thorough_) {
          const std::vector<Range> ranges = owner_.ranges_of(die);
          if (!ranges.empty() && !any_wanted(ranges)) return true;
        }
        return children(die, scope, depth + 1);
      }
      case DW_TAG_namespace:
      case DW_TAG_module:
        return children(die, scope, depth + 1);
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
      case DW_TAG_interface_type:
        return !(thorough_ || inside_function) || children(die, scope, depth + 1);
      default:
        return true;
    }
  }

  DwarfFrames& owner_;
  const std::vector<std::uint64_t>& wanted_;
  const bool thorough_;
  Dwarf_Off last_offset_ = 0;
  std::vector<Scope> scopes_;
  IntervalMap map_;
};

// --- names ---------------------------------------------------------------------------------------------

/// Demangled; empty: there is none. C functions have one when the source renames them (`asm("name")`), which is
/// not mangled.
std::string DwarfFrames::linkage_name(Dwarf_Die& die, bool& mangled) {
  // dwarf_attr_integrate follows abstract_origin and specification, 16 steps at most.
  Dwarf_Attribute attribute;
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (dwarf_attr_integrate(&die, name, &attribute) == nullptr) continue;
    const char* linkage = dwarf_formstring(&attribute);
    if (linkage == nullptr || *linkage == '\0') continue;
    const auto [known, added] = demangled_.try_emplace(linkage);
    if (added) known->second = demangle(linkage);
    mangled = known->second != linkage;
    return known->second;
  }
  return {};
}

bool DwarfFrames::collect_scope_names(Dwarf_Die& parent, std::uint32_t scope, int depth, Dwarf_Off& last_offset,
                                         ScopeNames& result) {
  return each_child(parent, last_offset, depth, [&](Dwarf_Die& die) {
    const int tag = dwarf_tag(&die);
    std::string name = text_or_empty(dwarf_diename(&die));
    switch (tag) {
      case DW_TAG_namespace:
        if (name.empty()) name = "(anonymous namespace)";
        break;
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
      case DW_TAG_interface_type:
        if (name.empty()) name = kUnnamedType;
        break;
      case DW_TAG_subprogram:
        result.of_function[dwarf_dieoffset(&die)] = scope;
        break;
      case DW_TAG_module:
      case DW_TAG_lexical_block:
        return collect_scope_names(die, scope, depth + 1, last_offset, result);
      default:
        return true;
    }
    if (dwarf_haschildren(&die) <= 0) return true;
    // What is inside a function stands below its full name.
    bool mangled = false;
    const std::string linkage = tag == DW_TAG_subprogram ? linkage_name(die, mangled) : std::string();
    result.names.push_back(linkage.empty() ? joined(result.names[scope], name) : linkage);
    const auto inner = static_cast<std::uint32_t>(result.names.size() - 1);
    return collect_scope_names(die, inner, depth + 1, last_offset, result);
  });
}

/// "space::Class::name" of a function without linkage name: compilers give none to functions of anonymous
/// namespaces and to what templates make of local types.
std::string DwarfFrames::qualified_name(Dwarf_Die& die) {
  Dwarf_Die declaration = declaration_of(die);
  const auto [known, added] = qualified_.try_emplace(declaration.addr);
  if (!added) return known->second;
  known->second = text_or_empty(dwarf_diename(&die));
  Dwarf_Die unit;
  if (known->second.empty() || dwarf_diecu(&declaration, &unit, nullptr, nullptr) == nullptr) return known->second;
  if (!has_scopes(dwarf_srclang(&unit))) return known->second;
  const auto [names, first] = scope_names_.try_emplace(unit.addr);
  ScopeNames& scopes = names->second;
  if (first) {
    scopes.names.emplace_back();
    Dwarf_Off last_offset = dwarf_dieoffset(&unit);
    collect_scope_names(unit, 0, 0, last_offset, scopes);
  }
  const auto scope = scopes.of_function.find(dwarf_dieoffset(&declaration));
  if (scope == scopes.of_function.end() || scopes.names[scope->second].empty()) return known->second;
  return known->second = joined(scopes.names[scope->second], known->second);
}

std::string DwarfFrames::function_name(Dwarf_Die& die, bool& plain) {
  bool mangled = false;
  std::string name = linkage_name(die, mangled);
  plain = !mangled;
  if (mangled) return name;
  // A C function that its source renames ("__GI_" and so on in libc) goes by the name it is written with.
  const std::string written = qualified_name(die);
  return written.empty() ? name : written;
}

// --- addresses -----------------------------------------------------------------------------------------

void DwarfFrames::find_in_packages(Unit& unit) {
  if (!std::exchange(packages_opened_, true))
    for (const std::string& path : package_paths_)
      if (auto package = DwarfPackage::open(path); package != nullptr) packages_.push_back(std::move(package));
  for (const auto& package : packages_)
    if (package->find(dwarf_, unit.die, unit.id, unit.split)) {
      unit.lacks_split = false;
      return;
    }
}

void DwarfFrames::resolve_in_unit(std::uint32_t number, const std::vector<std::uint64_t>& addresses,
                                     const std::vector<std::size_t>& asked,
                                     std::vector<std::vector<SourceFrame>>& frames, std::vector<bool>& plain_name) {
  Unit& unit = units_[number];
  lacking_base_ = 0;
  if (unit.lacks_split) find_in_packages(unit);
  if (unit.lacks_split) whole_ = false;
  else if (unit.id != 0 && dwarf_lowpc(&unit.die, &lacking_base_) == 0) based_unit_ = number;
  std::vector<std::uint64_t> wanted;
  for (const std::size_t i : asked) wanted.push_back(addresses[i]);
  Walk quick(*this, wanted, false);
  quick.run(unit.split);
  std::erase_if(wanted,
                [&](std::uint64_t address) { return quick.find(address) != nullptr || !in_function_(address); });
  Walk thorough(*this, wanted, true);
  if (!wanted.empty()) thorough.run(unit.split);

  Dwarf_Files* files = nullptr;
  std::size_t file_count = 0;
  if (dwarf_getsrcfiles(&unit.split, &files, &file_count) != 0) file_count = 0;

  Dwarf_Attribute folder_attribute;
  const char* folder = dwarf_formstring(dwarf_attr(&unit.die, DW_AT_comp_dir, &folder_attribute));
  // A unit's few files are named by most of its addresses.
  std::unordered_map<const char*, std::string> paths;
  const auto path_of = [&](const char* file) -> const std::string& {
    const auto [known, fresh] = paths.try_emplace(file);
    if (fresh) known->second = absolute(file, folder);
    return known->second;
  };

  for (const std::size_t i : asked) {
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
    bool plain = true;
    while (scope != nullptr) {
      Dwarf_Die die = scope->die;
      frame.function = function_name(die, plain);
      frame.inlined = scope->inlined;
      const Scope* outer = walk->parent(*scope);
      // An inlined function outside of any other is broken; it then has to be the real one.
      if (!scope->inlined || outer == nullptr) break;
      frames[i].push_back(std::move(frame));
      // The next frame is executing the call that was inlined.
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
    plain_name[i] = plain;
  }
}

void DwarfFrames::resolve(const std::vector<std::uint64_t>& addresses,
                             std::vector<std::vector<SourceFrame>>& frames, std::vector<bool>& plain_name) {
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> by_unit;
  for (std::size_t i = 0; i < addresses.size(); ++i)
    if (const std::uint32_t unit = units_by_address_.find(addresses[i]); unit != IntervalMap::kNone)
      by_unit[unit].push_back(i);
  for (auto& [unit, asked] : by_unit) resolve_in_unit(unit, addresses, asked, frames, plain_name);
}

}  // namespace heapprof::symbols
