#include "analyzer/symbols/dwarf_function_names.h"

#include <dwarf.h>

#include <string_view>

#include "analyzer/symbols/demangle.h"
#include "analyzer/symbols/dwarf_children.h"

namespace heapprof::symbols {

namespace {

constexpr std::string_view kUnnamedType = "{unnamed type}";

std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : std::string(text); }

/// "scope::name". An unnamed type with an operator() is taken for that of a lambda.
std::string join(std::string scope, const std::string& name) {
  if (scope.empty()) return name;
  if (scope.ends_with(kUnnamedType) && name.starts_with("operator()"))
    scope.replace(scope.size() - kUnnamedType.size(), std::string::npos, "{lambda}");
  return scope + "::" + name;
}

/// The entry that declares a function: it has the name, and is inside the entries of its scopes.
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
    case DW_LANG_Mips_Assembler: return false;
    default: return true;
  }
}

}  // namespace

std::string DwarfFunctionNames::name_of(Dwarf_Die& die, bool& is_plain) {
  bool is_mangled = false;
  std::string name = linkage_name(die, is_mangled);
  is_plain = !is_mangled;
  if (is_mangled) return name;
  // A C function whose source renames it (libc's "__GI_" symbols) keeps the name in the source.
  const std::string in_source = qualified_name(die);
  return in_source.empty() ? name : in_source;
}

/// Demangled; empty: there is none. A C function has one, which is not mangled, if its source renames it
/// (`asm("name")`).
std::string DwarfFunctionNames::linkage_name(Dwarf_Die& die, bool& is_mangled) {
  // dwarf_attr_integrate follows DW_AT_abstract_origin and DW_AT_specification, at most 16 steps.
  Dwarf_Attribute attribute;
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (dwarf_attr_integrate(&die, name, &attribute) == nullptr) continue;
    const char* linkage = dwarf_formstring(&attribute);
    if (linkage == nullptr || *linkage == '\0') continue;
    const auto [known, added] = demangled_.try_emplace(linkage);
    if (added) known->second = demangle(linkage);
    is_mangled = known->second != linkage;
    return known->second;
  }
  return {};
}

/// "space::Class::name". Compilers write no linkage name for functions of anonymous namespaces and for template
/// instances of local types.
std::string DwarfFunctionNames::qualified_name(Dwarf_Die& die) {
  Dwarf_Die declaration = declaration_of(die);
  const auto [known, added] = qualified_.try_emplace(declaration.addr);
  if (!added) return known->second;
  known->second = text_or_empty(dwarf_diename(&die));
  Dwarf_Die unit;
  if (known->second.empty() || dwarf_diecu(&declaration, &unit, nullptr, nullptr) == nullptr) return known->second;
  if (!has_scopes(dwarf_srclang(&unit))) return known->second;
  const auto [of_unit, is_new] = scopes_of_unit_.try_emplace(unit.addr);
  Scopes& scopes = of_unit->second;
  if (is_new) {
    scopes.names.emplace_back();
    Dwarf_Off last_offset = dwarf_dieoffset(&unit);
    collect_scopes(unit, 0, 0, last_offset, scopes);
  }
  const auto scope = scopes.by_function.find(dwarf_dieoffset(&declaration));
  if (scope == scopes.by_function.end() || scopes.names[scope->second].empty()) return known->second;
  return known->second = join(scopes.names[scope->second], known->second);
}

bool DwarfFunctionNames::collect_scopes(Dwarf_Die& parent, std::uint32_t scope, int depth, Dwarf_Off& last_offset,
                                        Scopes& result) {
  return for_each_child(parent, last_offset, depth, damaged_, [&](Dwarf_Die& die) {
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
      case DW_TAG_subprogram: result.by_function[dwarf_dieoffset(&die)] = scope; break;
      case DW_TAG_module:
      case DW_TAG_lexical_block: return collect_scopes(die, scope, depth + 1, last_offset, result);
      default: return true;
    }
    if (dwarf_haschildren(&die) <= 0) return true;
    // The scope of a local function is the full name of the function around it.
    bool is_mangled = false;
    const std::string linkage = tag == DW_TAG_subprogram ? linkage_name(die, is_mangled) : std::string();
    result.names.push_back(linkage.empty() ? join(result.names[scope], name) : linkage);
    const auto inner = static_cast<std::uint32_t>(result.names.size() - 1);
    return collect_scopes(die, inner, depth + 1, last_offset, result);
  });
}

}  // namespace heapprof::symbols
