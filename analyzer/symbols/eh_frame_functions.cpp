#include "analyzer/symbols/eh_frame_functions.h"

#include <dwarf.h>
#include <gelf.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace heapprof::symbols {

namespace {

/// A signed 32-bit distance as an unsigned addend.
std::uint64_t distance_at(const unsigned char* bytes) {
  std::int32_t distance;
  std::memcpy(&distance, bytes, sizeof distance);
  return static_cast<std::uint64_t>(std::int64_t{distance});
}

}  // namespace

EhFrameFunctions::EhFrameFunctions(Dwfl_Module* module) {
  Dwarf_Addr bias = 0;
  Elf* const elf = dwfl_module_getelf(module, &bias);
  std::size_t names = 0;
  if (elf == nullptr || elf_getshdrstrndx(elf, &names) != 0) return;
  Section table;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
    const char* const name = elf_strptr(elf, names, header.sh_name);
    if (name == nullptr) continue;
    const bool is_table = name == std::string_view(".eh_frame_hdr");
    if (!is_table && name != std::string_view(".eh_frame")) continue;
    const Elf_Data* const data = elf_rawdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) continue;
    (is_table ? table : frames_) = {static_cast<const unsigned char*>(data->d_buf), data->d_size,
                                    header.sh_addr + bias};
  }

  constexpr unsigned char kUsual[4] = {1, DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_udata4,
                                       DW_EH_PE_datarel | DW_EH_PE_sdata4};
  constexpr std::size_t kHeader = 12, kRow = 8;
  if (table.size < kHeader || std::memcmp(table.bytes, kUsual, sizeof kUsual) != 0) return;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> rows;
  for (std::size_t at = kHeader; at + kRow <= table.size; at += kRow)
    rows.emplace_back(table.address + distance_at(table.bytes + at), table.address + distance_at(table.bytes + at + 4));
  std::sort(rows.begin(), rows.end());
  for (const auto& [begin, entry] : rows) {
    begins_.push_back(begin);
    entries_.push_back(entry);
  }
}

std::uint64_t EhFrameFunctions::begin_at(std::uint64_t address) const {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), address);
  if (next == begins_.begin()) return 0;
  const std::uint64_t begin = *(next - 1);
  // The entry: length, way to its CIE, begin relative to this field, length of the function; 4 bytes each. How the
  // begin is written stands in the CIE; it is the usual way if it gives the begin that is known.
  constexpr std::size_t kBegin = 8, kBytes = 12, kEnd = 16;
  const std::uint64_t entry = entries_[static_cast<std::size_t>(next - 1 - begins_.begin())];
  const std::uint64_t at = entry - frames_.address;
  if (entry < frames_.address || frames_.size < kEnd || at > frames_.size - kEnd) return 0;
  if (entry + kBegin + distance_at(frames_.bytes + at + kBegin) != begin) return 0;
  std::uint32_t bytes;
  std::memcpy(&bytes, frames_.bytes + at + kBytes, sizeof bytes);
  return address - begin < bytes ? begin : 0;
}

}  // namespace heapprof::symbols
