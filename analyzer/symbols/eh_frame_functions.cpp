#include "analyzer/symbols/eh_frame_functions.h"

#include <dwarf.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "analyzer/symbols/elf_file.h"

namespace heapprof::symbols {

namespace {

/// A signed 32-bit distance, converted so that it can be added to an address.
std::uint64_t distance_at(const unsigned char* bytes) {
  std::int32_t distance;
  std::memcpy(&distance, bytes, sizeof distance);
  return static_cast<std::uint64_t>(std::int64_t{distance});
}

}  // namespace

EhFrameFunctions::EhFrameFunctions(Dwfl_Module* module) {
  Dwarf_Addr bias = 0;
  Elf* const elf = dwfl_module_getelf(module, &bias);
  if (elf == nullptr) return;
  Section table;
  for_each_section(elf, [&](Elf_Scn* section, const GElf_Shdr& header, std::string_view name) {
    const bool is_table = name == ".eh_frame_hdr";
    if ((!is_table && name != ".eh_frame") || header.sh_type == SHT_NOBITS) return false;
    const Elf_Data* const data = elf_rawdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) return false;
    (is_table ? table : eh_frame_) = {static_cast<const unsigned char*>(data->d_buf), data->d_size,
                                      header.sh_addr + bias};
    return false;
  });

  // Version, and the encodings of the pointer to .eh_frame, of the row count and of the rows.
  constexpr unsigned char kUsualEncodings[4] = {1, DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_udata4,
                                                DW_EH_PE_datarel | DW_EH_PE_sdata4};
  constexpr std::size_t kHeaderBytes = 12, kRowBytes = 8;
  if (table.size < kHeaderBytes || std::memcmp(table.bytes, kUsualEncodings, sizeof kUsualEncodings) != 0) return;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> rows;  // start of a function, address of its FDE
  for (std::size_t at = kHeaderBytes; at + kRowBytes <= table.size; at += kRowBytes)
    rows.emplace_back(table.address + distance_at(table.bytes + at),
                      table.address + distance_at(table.bytes + at + 4));
  std::sort(rows.begin(), rows.end());
  for (const auto& [begin, fde] : rows) {
    begins_.push_back(begin);
    fde_addresses_.push_back(fde);
  }
}

std::uint64_t EhFrameFunctions::begin_of(std::uint64_t address) const {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), address);
  if (next == begins_.begin()) return 0;
  const std::uint64_t begin = *(next - 1);
  // An FDE begins with four fields of 4 bytes: length, distance to the CIE, start of the function relative to this
  // field, length of the function. The CIE gives the encoding of the last two. Instead of reading the CIE, the start
  // is compared with the one in the table: if they are equal, the FDE has the usual encoding.
  constexpr std::size_t kBeginOffset = 8, kLengthOffset = 12, kBytes = 16;
  const std::uint64_t fde = fde_addresses_[static_cast<std::size_t>(next - 1 - begins_.begin())];
  const std::uint64_t at = fde - eh_frame_.address;
  if (fde < eh_frame_.address || eh_frame_.size < kBytes || at > eh_frame_.size - kBytes) return 0;
  if (fde + kBeginOffset + distance_at(eh_frame_.bytes + at + kBeginOffset) != begin) return 0;
  std::uint32_t length;
  std::memcpy(&length, eh_frame_.bytes + at + kLengthOffset, sizeof length);
  return address - begin < length ? begin : 0;
}

}  // namespace heapprof::symbols
