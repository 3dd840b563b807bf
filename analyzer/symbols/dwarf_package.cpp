#include "analyzer/symbols/dwarf_package.h"

#include <dwarf.h>
#include <gelf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "analyzer/symbols/elf_file.h"

namespace heapprof::symbols {

namespace {

constexpr std::size_t kMaxUnits = 1 << 20;
constexpr std::size_t kMaxAddressBytes = 16u << 20;

std::uint32_t u32_at(const std::vector<unsigned char>& bytes, std::uint64_t offset) {
  std::uint32_t value = 0;
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof value)
    std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::uint64_t u64_at(const std::vector<unsigned char>& bytes, std::uint64_t offset) {
  return u32_at(bytes, offset) | std::uint64_t{u32_at(bytes, offset + 4)} << 32;
}

/// The unit's contribution to .debug_addr, from its base on, to which the unit's DW_FORM_addrx refer.
std::vector<unsigned char> debug_addr_of(Dwarf* main, Dwarf_Die& skeleton) {
  Dwarf_Attribute attribute;
  Dwarf_Word base = 0;
  if (dwarf_formudata(dwarf_attr(&skeleton, DW_AT_addr_base, &attribute), &base) != 0 || base < 8) return {};
  Elf* const elf = dwarf_getelf(main);
  std::vector<unsigned char> contribution;
  if (elf == nullptr) return contribution;
  for_each_section(elf, [&](Elf_Scn* section, const GElf_Shdr& header, std::string_view name) {
    if (name != ".debug_addr" || (header.sh_flags & SHF_COMPRESSED) != 0) return false;
    const Elf_Data* const data = elf_rawdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr || base > data->d_size) return true;
    const auto* const bytes = static_cast<const unsigned char*>(data->d_buf);
    // The 8 bytes before the base: length of the rest of the contribution, version, address size, segment size.
    std::uint32_t length = 0;
    std::memcpy(&length, bytes + base - 8, sizeof length);
    const std::uint64_t size =
        std::min<std::uint64_t>({length < 4 ? 0 : length - 4, data->d_size - base, kMaxAddressBytes});
    contribution.assign(bytes + base, bytes + base + size);
    return true;
  });
  return contribution;
}

}  // namespace

const DwarfPackage::PackagedSection DwarfPackage::kSections[5] = {
    {kInfo, ".debug_info.dwo", ".debug_info"},
    {kAbbrev, ".debug_abbrev.dwo", ".debug_abbrev"},
    {kLine, ".debug_line.dwo", ".debug_line"},
    {kStrOffsets, ".debug_str_offsets.dwo", ".debug_str_offsets"},
    {kRnglists, ".debug_rnglists.dwo", ".debug_rnglists"},
};

/// A unit as an ELF file in memory: pages with headers and addresses, then the mapped package.
class DwarfPackage::UnitFile {
 public:
  UnitFile() = default;
  UnitFile(const UnitFile&) = delete;
  UnitFile& operator=(const UnitFile&) = delete;
  ~UnitFile() {
    if (dwarf_ != nullptr) dwarf_end(dwarf_);
    if (elf_ != nullptr) elf_end(elf_);
    if (memory_ != MAP_FAILED) munmap(memory_, bytes_);
  }

  /// Call once. False: the unit is damaged, or out of memory.
  bool open(const FileDescriptor& package, std::uint64_t package_bytes, const Contribution (&contributions)[kKinds],
            const Contribution& strings, const std::vector<unsigned char>& debug_addr) {
    constexpr std::size_t kHeaderBytes = 2048;  // the ELF header, eight section headers and their names
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t front = (kHeaderBytes + debug_addr.size() + page - 1) / page * page;

    std::string names(1, '\0');
    std::vector<Elf64_Shdr> headers(1);
    const auto add = [&](const char* name, std::uint32_t type, std::uint64_t offset, std::uint64_t size) {
      Elf64_Shdr header{};
      header.sh_name = static_cast<Elf64_Word>(names.size());
      names.append(name).push_back('\0');
      header.sh_type = type;
      header.sh_offset = offset;
      header.sh_size = size;
      header.sh_addralign = 1;
      headers.push_back(header);
    };
    for (const PackagedSection& section : kSections)
      if (const Contribution& part = contributions[section.kind]; part.size != 0)
        add(section.name, SHT_PROGBITS, front + part.offset, part.size);
    if (strings.size != 0) add(".debug_str", SHT_PROGBITS, front + strings.offset, strings.size);
    if (!debug_addr.empty()) add(".debug_addr", SHT_PROGBITS, kHeaderBytes, debug_addr.size());
    add(".shstrtab", SHT_STRTAB, sizeof(Elf64_Ehdr) + (headers.size() + 1) * sizeof(Elf64_Shdr), 0);
    headers.back().sh_size = names.size();

    bytes_ = front + package_bytes;
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) return false;
    auto* const at = static_cast<unsigned char*>(memory_);
    if (mmap(at + front, package_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, package.get(), 0) ==
        MAP_FAILED)
      return false;
    const Elf64_Ehdr header = elf_header(headers.size());
    std::memcpy(at, &header, sizeof header);
    std::memcpy(at + sizeof header, headers.data(), headers.size() * sizeof(Elf64_Shdr));
    std::memcpy(at + sizeof header + headers.size() * sizeof(Elf64_Shdr), names.data(), names.size());
    std::copy(debug_addr.begin(), debug_addr.end(), at + kHeaderBytes);

    elf_ = elf_memory(static_cast<char*>(memory_), bytes_);
    dwarf_ = elf_ == nullptr ? nullptr : dwarf_begin_elf(elf_, DWARF_C_READ, nullptr);
    Dwarf_CU* cu = nullptr;
    return dwarf_ != nullptr && dwarf_get_units(dwarf_, nullptr, &cu, nullptr, nullptr, &die_, nullptr) == 0 &&
           dwarf_tag(&die_) == DW_TAG_compile_unit;
  }

  const Dwarf_Die& die() const { return die_; }

 private:
  /// The section headers follow the ELF header; the last one is that of their names.
  static Elf64_Ehdr elf_header(std::size_t sections) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_DYN;
    header.e_version = EV_CURRENT;
    header.e_ehsize = sizeof header;
    header.e_shoff = sizeof header;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<Elf64_Half>(sections);
    header.e_shstrndx = static_cast<Elf64_Half>(sections - 1);
    return header;
  }

  void* memory_ = MAP_FAILED;
  std::size_t bytes_ = 0;
  Elf* elf_ = nullptr;
  Dwarf* dwarf_ = nullptr;
  Dwarf_Die die_{};
};

DwarfPackage::DwarfPackage(FileDescriptor file, std::uint64_t file_bytes)
    : file_(std::move(file)), file_bytes_(file_bytes) {}

DwarfPackage::~DwarfPackage() = default;

std::unique_ptr<DwarfPackage> DwarfPackage::open(const std::string& path) {
  FileDescriptor file = open_regular_file(path);
  struct stat status {};
  if (!file.is_open() || fstat(file.get(), &status) != 0 || status.st_size == 0) return nullptr;
  std::unique_ptr<DwarfPackage> package(
      new DwarfPackage(std::move(file), static_cast<std::uint64_t>(status.st_size)));
  return package->read() ? std::move(package) : nullptr;
}

bool DwarfPackage::read() {
  const ElfHandle elf(elf_begin(file_.get(), ELF_C_READ, nullptr));
  GElf_Ehdr header;
  if (elf == nullptr || gelf_getehdr(elf.get(), &header) == nullptr || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB)
    return false;
  Contribution sections[kKinds];
  std::vector<unsigned char> index;
  for_each_section(elf.get(), [&](Elf_Scn* section, const GElf_Shdr& at, std::string_view name) {
    if (at.sh_type == SHT_NOBITS || (at.sh_flags & SHF_COMPRESSED) != 0) return false;
    if (at.sh_offset > file_bytes_ || at.sh_size > file_bytes_ - at.sh_offset) return false;
    for (const PackagedSection& known : kSections)
      if (name == known.name_in_package) sections[known.kind] = {at.sh_offset, at.sh_size};
    if (name == ".debug_str.dwo") strings_ = {at.sh_offset, at.sh_size};
    if (name == ".debug_cu_index")
      if (const Elf_Data* data = elf_rawdata(section, nullptr); data != nullptr && data->d_buf != nullptr)
        index.assign(static_cast<const unsigned char*>(data->d_buf),
                     static_cast<const unsigned char*>(data->d_buf) + data->d_size);
    return false;
  });
  return read_index(index, sections);
}

/// The index: a header of 16 bytes; a hash table of unit ids (8 bytes each) and one of row numbers (4 bytes each,
/// from 1); the section kind of each column; then two tables with offset and size, a row for each unit.
bool DwarfPackage::read_index(const std::vector<unsigned char>& index, const Contribution (&sections)[kKinds]) {
  const std::uint64_t columns = u32_at(index, 4), units = u32_at(index, 8), slots = u32_at(index, 12);
  if (index.size() < 16 || (u32_at(index, 0) & 0xffff) != 5 || columns > 16 || units > kMaxUnits ||
      slots > 4 * kMaxUnits)
    return false;
  const std::uint64_t rows_at = 16 + slots * 8, columns_at = rows_at + slots * 4,
                      offsets_at = columns_at + columns * 4, sizes_at = offsets_at + units * columns * 4;
  if (sizes_at + units * columns * 4 > index.size()) return false;
  for (std::uint64_t slot = 0; slot < slots; ++slot) {
    const std::uint64_t row = u32_at(index, rows_at + slot * 4);
    if (row == 0 || row > units) continue;
    Row& found = rows_[u64_at(index, 16 + slot * 8)];
    for (std::uint64_t column = 0; column < columns; ++column) {
      const std::uint32_t kind = u32_at(index, columns_at + column * 4);
      if (kind >= kKinds) continue;
      const std::uint64_t cell = ((row - 1) * columns + column) * 4;
      const std::uint64_t offset = u32_at(index, offsets_at + cell), size = u32_at(index, sizes_at + cell);
      const Contribution& section = sections[kind];
      if (offset <= section.size && size <= section.size - offset)
        found.contributions[kind] = {section.offset + offset, size};
    }
  }
  return !rows_.empty();
}

bool DwarfPackage::find(Dwarf* main, Dwarf_Die& skeleton, std::uint64_t dwo_id, Dwarf_Die& die) {
  const auto found = rows_.find(dwo_id);
  if (found == rows_.end()) return false;
  Row& row = found->second;
  if (!std::exchange(row.opened, true)) {
    auto unit = std::make_unique<UnitFile>();
    if (unit->open(file_, file_bytes_, row.contributions, strings_, debug_addr_of(main, skeleton)))
      row.unit = std::move(unit);
  }
  if (row.unit == nullptr) return false;
  die = row.unit->die();
  return true;
}

}  // namespace heapprof::symbols
