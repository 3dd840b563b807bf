#include "analyzer/symbols/elf_symbol_table.h"

#include <gelf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "analyzer/symbols/tail_call_name.h"

namespace heapprof::symbols {

namespace {

/// `name` without "@VERSION" and "@@VERSION", which linkers add in .symtab.
std::string_view without_version(const char* name) {
  const std::string_view text(name);
  return text.substr(0, std::min(text.find('@'), text.size()));
}

bool is_function(const GElf_Sym& symbol, const char* name) {
  const int type = GELF_ST_TYPE(symbol.st_info);
  if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) return false;
  // "$x", "$d" and the like mark code and data on Arm (ELF for the Arm Architecture, "Mapping symbols").
  return name != nullptr && *name != '\0' && *name != '$' && *name != '@';
}

/// Targets of the unconditional jumps in `code`, relative to its start. On x86-64, whose instructions vary in length,
/// the code is not decoded: the result has only jumps with a 32-bit displacement, and also every operand that looks
/// like one. Bytes that look like a jump with an 8-bit displacement are too frequent.
std::vector<std::uint64_t> jump_targets(const unsigned char* code, std::uint64_t bytes, unsigned machine) {
  std::vector<std::uint64_t> targets;
  if (machine == EM_X86_64) {
    constexpr std::uint64_t kJumpBytes = 5;  // e9, and the displacement from the end of the instruction
    for (std::uint64_t at = 0; at + kJumpBytes <= bytes; ++at) {
      if (code[at] != 0xe9) continue;
      std::int32_t distance;
      std::memcpy(&distance, code + at + 1, sizeof distance);
      targets.push_back(at + kJumpBytes + static_cast<std::uint64_t>(std::int64_t{distance}));
    }
  } else if (machine == EM_AARCH64) {
    for (std::uint64_t at = 0; at + 4 <= bytes; at += 4) {
      std::uint32_t word;
      std::memcpy(&word, code + at, sizeof word);
      if (word >> 26 != 0b000101) continue;
      const std::int32_t words = static_cast<std::int32_t>(word << 6) >> 6;
      targets.push_back(at + static_cast<std::uint64_t>(std::int64_t{words} * 4));
    }
  }
  return targets;
}

}  // namespace

/// Whether `a` is the better name of two symbols at the same address.
bool ElfSymbolTable::is_better_name(const Symbol& a, const Symbol& b) {
  if (a.local != b.local) return b.local;
  const std::string_view name_a = without_version(a.name), name_b = without_version(b.name);
  const auto underscores = [](std::string_view name) { return std::min(name.find_first_not_of('_'), name.size()); };
  if (underscores(name_a) != underscores(name_b)) return underscores(name_a) < underscores(name_b);
  if (name_a.size() != name_b.size()) return name_a.size() < name_b.size();
  return name_a < name_b;
}

ElfSymbolTable::ElfSymbolTable(Dwfl_Module* module) : eh_frame_(module) {
  std::vector<Symbol> sized, unsized;
  std::vector<std::uint64_t> begins;
  const int count = dwfl_module_getsymtab(module);
  for (int i = 1; i < count; ++i) {  // 0 is the null symbol
    GElf_Sym symbol;
    GElf_Addr address = 0;
    GElf_Word section_index = 0;
    Elf* elf = nullptr;
    Dwarf_Addr bias = 0;
    const char* name = dwfl_module_getsym_info(module, i, &symbol, &address, &section_index, &elf, &bias);
    if (name == nullptr || !is_function(symbol, name) || section_index == SHN_UNDEF) continue;
    // Absolute symbols are not functions.
    if (section_index >= SHN_LORESERVE && section_index < SHN_XINDEX) continue;
    std::uint64_t section_end = 0;
    GElf_Shdr header;
    if (gelf_getshdr(elf_getscn(elf, section_index), &header) != nullptr) {
      if ((header.sh_flags & SHF_EXECINSTR) == 0) continue;
      section_end = header.sh_addr + header.sh_size + (address - symbol.st_value);
    }
    const bool local = GELF_ST_BIND(symbol.st_info) == STB_LOCAL;
    has_local_ |= local;
    const std::uint64_t end = address + symbol.st_size;
    begins.push_back(address);
    if (symbol.st_size == 0) {
      unsized.push_back({address, address, section_end, name, local});
    } else if (end > address) {
      sized.push_back({address, end, section_end, name, local});
    }
  }
  if (!unsized.empty()) begins.insert(begins.end(), eh_frame_.begins().begin(), eh_frame_.begins().end());
  std::sort(begins.begin(), begins.end());
  add_sized(sized);
  add_unsized(unsized, begins);
  if (!has_local_) add_tail_calls(module, sized);
}

void ElfSymbolTable::add_sized(std::vector<Symbol>& sized) {
  // The best of several aliases is the last one: a later range takes precedence in the map.
  std::stable_sort(sized.begin(), sized.end(), [](const Symbol& a, const Symbol& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.end != b.end) return a.end > b.end;
    return is_better_name(b, a);
  });
  for (const Symbol& symbol : sized) {
    const bool is_alias =
        &symbol != sized.data() && (&symbol)[-1].begin == symbol.begin && (&symbol)[-1].end == symbol.end;
    sized_.add(symbol.begin, symbol.end, static_cast<std::uint32_t>(names_.size()));
    names_.push_back({symbol.name, symbol.local, is_alias});
  }
  sized_.build();
}

void ElfSymbolTable::add_unsized(std::vector<Symbol>& unsized, const std::vector<std::uint64_t>& all_begins) {
  std::stable_sort(unsized.begin(), unsized.end(), [](const Symbol& a, const Symbol& b) {
    return a.begin != b.begin ? a.begin < b.begin : is_better_name(b, a);
  });
  for (const Symbol& symbol : unsized) {
    const auto next = std::upper_bound(all_begins.begin(), all_begins.end(), symbol.begin);
    // Without section headers, the end of the last function is unknown, and its range empty.
    std::uint64_t end = symbol.section_end;
    if (next != all_begins.end() && (end == 0 || *next < end)) end = *next;
    unsized_.add(symbol.begin, end, static_cast<std::uint32_t>(names_.size()));
    names_.push_back({symbol.name, symbol.local, false});
  }
  unsized_.build();
}

/// `sized` must be in the order of add_sized(). An operand that looks like a jump does no harm: that its target is
/// exactly the start of another function happens once in millions.
void ElfSymbolTable::add_tail_calls(Dwfl_Module* module, const std::vector<Symbol>& sized) {
  constexpr std::size_t kMaxCallers = 8;
  const std::vector<std::uint64_t>& begins = eh_frame_.begins();
  Dwarf_Addr bias = 0;
  Elf* const elf = dwfl_module_getelf(module, &bias);
  GElf_Ehdr file;
  if (begins.empty() || elf == nullptr || gelf_getehdr(elf, &file) == nullptr) return;
  std::map<std::uint64_t, std::set<std::string>> callers_by_target;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_PROGBITS) continue;
    if ((header.sh_flags & SHF_EXECINSTR) == 0) continue;
    const Elf_Data* const data = elf_rawdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) continue;
    const std::uint64_t low = header.sh_addr + bias;
    for (std::size_t i = 0; i < sized.size(); ++i) {
      const Symbol& symbol = sized[i];
      if (symbol.begin < low || symbol.end > low + data->d_size || symbol.end < symbol.begin) continue;
      if (i + 1 < sized.size() && sized[i + 1].begin == symbol.begin) continue;  // the best alias is the last one
      const std::string name(without_version(symbol.name));
      if (name.starts_with("_Z") || name.starts_with("_R")) continue;
      const auto* const code = static_cast<const unsigned char*>(data->d_buf) + (symbol.begin - low);
      for (const std::uint64_t offset : jump_targets(code, symbol.end - symbol.begin, file.e_machine)) {
        const std::uint64_t target = symbol.begin + offset;
        if (target >= symbol.begin && target < symbol.end) continue;
        if (std::binary_search(begins.begin(), begins.end(), target) && name_at(target).empty())
          callers_by_target[target].insert(name);
      }
    }
  }
  for (const auto& [begin, callers] : callers_by_target) {
    const auto next = std::upper_bound(begins.begin(), begins.end(), begin);
    if (next == begins.end() || callers.size() > kMaxCallers) continue;
    std::string text(kTailCallPrefix);
    for (const std::string& caller : callers) text += (text.size() == kTailCallPrefix.size() ? "" : ", ") + caller;
    tail_calls_.add(begin, *next, static_cast<std::uint32_t>(tail_call_names_.size()));
    tail_call_names_.push_back(text + ']');
  }
  tail_calls_.build();
}

std::string ElfSymbolTable::tail_call_name_at(std::uint64_t address) const {
  const std::uint32_t index = tail_calls_.find(address);
  return index == IntervalMap::kNone ? std::string() : tail_call_names_[index];
}

bool ElfSymbolTable::has_only_other_exported_names(std::uint64_t address, std::string_view name) const {
  std::uint32_t index = sized_.find(address);
  // The best of several aliases is the last one; local ones come first.
  if (index == IntervalMap::kNone || names_[index].local) return false;
  for (;; --index) {
    if (!names_[index].local && without_version(names_[index].text) == name) return false;
    if (!names_[index].is_alias) return true;
  }
}

std::string ElfSymbolTable::name_at(std::uint64_t address) const {
  std::uint32_t index = sized_.find(address);
  if (index == IntervalMap::kNone) index = unsized_.find(address);
  return index == IntervalMap::kNone ? std::string() : std::string(without_version(names_[index].text));
}

}  // namespace heapprof::symbols
