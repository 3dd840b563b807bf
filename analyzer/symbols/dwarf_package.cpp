#include "analyzer/symbols/dwarf_package.h"

#include <dwarf.h>
#include <fcntl.h>
#include <gelf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace heapprof::symbols {

namespace {

// DW_SECT_ numbers of DWARF 5.
enum { kInfo = 1, kAbbrev = 3, kLine = 4, kStrOffsets = 6, kRnglists = 8, kColumns = 9 };

struct SectionName {
  int column;
  std::string_view in_package;
  const char* plain;
};
constexpr SectionName kSections[] = {
    {kInfo, ".debug_info.dwo", ".debug_info"},
    {kAbbrev, ".debug_abbrev.dwo", ".debug_abbrev"},
    {kLine, ".debug_line.dwo", ".debug_line"},
    {kStrOffsets, ".debug_str_offsets.dwo", ".debug_str_offsets"},
    {kRnglists, ".debug_rnglists.dwo", ".debug_rnglists"},
};
constexpr std::size_t kMaxUnits = 1 << 20;
constexpr std::size_t kMaxAddresses = 16u << 20;

std::uint32_t u32_at(const std::vector<unsigned char>& bytes, std::uint64_t offset) {
  std::uint32_t value = 0;
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof value)
    std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::uint64_t u64_at(const std::vector<unsigned char>& bytes, std::uint64_t offset) {
  return u32_at(bytes, offset) | std::uint64_t{u32_at(bytes, offset + 4)} << 32;
}

/// What the unit's address forms refer to: its contribution to .debug_addr, from its base on.
std::vector<unsigned char> addresses_of(Dwarf* main, Dwarf_Die& skeleton) {
  Dwarf_Attribute attribute;
  Dwarf_Word base = 0;
  if (dwarf_formudata(dwarf_attr(&skeleton, DW_AT_addr_base, &attribute), &base) != 0 || base < 8) return {};
  Elf* const elf = dwarf_getelf(main);
  std::size_t names = 0;
  if (elf == nullptr || elf_getshdrstrndx(elf, &names) != 0) return {};
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || (header.sh_flags & SHF_COMPRESSED) != 0) continue;
    const char* const name = elf_strptr(elf, names, header.sh_name);
    if (name == nullptr || std::strcmp(name, ".debug_addr") != 0) continue;
    const Elf_Data* const data = elf_rawdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr || base > data->d_size) return {};
    const auto* const bytes = static_cast<const unsigned char*>(data->d_buf);
    // Before the base stand the length of all behind itself, version, address size and segment size.
    std::uint32_t length = 0;
    std::memcpy(&length, bytes + base - 8, sizeof length);
    const std::uint64_t size =
        std::min<std::uint64_t>({length < 4 ? 0 : length - 4, data->d_size - base, kMaxAddresses});
    return {bytes + base, bytes + base + size};
  }
  return {};
}

}  // namespace

/// A unit as an ELF file: a page or more of headers and addresses, then the package as it is.
struct DwarfPackage::Unit {
  void* memory = MAP_FAILED;
  std::size_t bytes = 0;
  Elf* elf = nullptr;
  Dwarf* dwarf = nullptr;
  Dwarf_Die die{};

  Unit() = default;
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;
  ~Unit() {
    if (dwarf != nullptr) dwarf_end(dwarf);
    if (elf != nullptr) elf_end(elf);
    if (memory != MAP_FAILED) munmap(memory, bytes);
  }

  bool make(int fd, std::uint64_t file_bytes, const Part (&parts)[9], const Part& strings,
            const std::vector<unsigned char>& addresses) {
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
    constexpr std::size_t kTables = 2048;  // the header, eight section headers and their names
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t front = (kTables + addresses.size() + page - 1) / page * page;
    for (const SectionName& section : kSections)
      if (const Part& part = parts[section.column]; part.size != 0)
        add(section.plain, SHT_PROGBITS, front + part.offset, part.size);
    if (strings.size != 0) add(".debug_str", SHT_PROGBITS, front + strings.offset, strings.size);
    if (!addresses.empty()) add(".debug_addr", SHT_PROGBITS, kTables, addresses.size());
    add(".shstrtab", SHT_STRTAB, sizeof(Elf64_Ehdr) + (headers.size() + 1) * sizeof(Elf64_Shdr), 0);
    headers.back().sh_size = names.size();

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
    header.e_shnum = static_cast<Elf64_Half>(headers.size());
    header.e_shstrndx = static_cast<Elf64_Half>(headers.size() - 1);

    bytes = front + file_bytes;
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    auto* const at = static_cast<unsigned char*>(memory);
    if (mmap(at + front, file_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
      return false;
    std::memcpy(at, &header, sizeof header);
    std::memcpy(at + sizeof header, headers.data(), headers.size() * sizeof(Elf64_Shdr));
    std::memcpy(at + sizeof header + headers.size() * sizeof(Elf64_Shdr), names.data(), names.size());
    std::copy(addresses.begin(), addresses.end(), at + kTables);

    elf = elf_memory(static_cast<char*>(memory), bytes);
    dwarf = elf == nullptr ? nullptr : dwarf_begin_elf(elf, DWARF_C_READ, nullptr);
    Dwarf_CU* cu = nullptr;
    return dwarf != nullptr && dwarf_get_units(dwarf, nullptr, &cu, nullptr, nullptr, &die, nullptr) == 0 &&
           dwarf_tag(&die) == DW_TAG_compile_unit;
  }
};

DwarfPackage::DwarfPackage() = default;

DwarfPackage::~DwarfPackage() {
  if (fd_ >= 0) close(fd_);
}

std::unique_ptr<DwarfPackage> DwarfPackage::open(const std::string& path) {
  std::unique_ptr<DwarfPackage> package(new DwarfPackage);
  package->fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status {};
  if (package->fd_ < 0 || fstat(package->fd_, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
    return nullptr;
  package->file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  return package->read(package->fd_) ? std::move(package) : nullptr;
}

bool DwarfPackage::read(int fd) {
  const std::unique_ptr<Elf, int (*)(Elf*)> elf(elf_begin(fd, ELF_C_READ, nullptr), elf_end);
  GElf_Ehdr header;
  std::size_t names = 0;
  if (elf == nullptr || gelf_getehdr(elf.get(), &header) == nullptr || elf_getshdrstrndx(elf.get(), &names) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    return false;
  Part sections[kColumns];
  std::vector<unsigned char> index;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf.get(), section)) != nullptr;) {
    GElf_Shdr at;
    if (gelf_getshdr(section, &at) == nullptr || at.sh_type == SHT_NOBITS || (at.sh_flags & SHF_COMPRESSED) != 0)
      continue;
    if (at.sh_offset > file_bytes_ || at.sh_size > file_bytes_ - at.sh_offset) continue;
    const char* const text = elf_strptr(elf.get(), names, at.sh_name);
    if (text == nullptr) continue;
    const std::string_view name(text);
    for (const SectionName& known : kSections)
      if (name == known.in_package) sections[known.column] = {at.sh_offset, at.sh_size};
    if (name == ".debug_str.dwo") strings_ = {at.sh_offset, at.sh_size};
    if (name == ".debug_cu_index")
      if (const Elf_Data* data = elf_rawdata(section, nullptr); data != nullptr && data->d_buf != nullptr)
        index.assign(static_cast<const unsigned char*>(data->d_buf),
                     static_cast<const unsigned char*>(data->d_buf) + data->d_size);
  }
  return read_index(index, sections);
}

bool DwarfPackage::read_index(const std::vector<unsigned char>& index, const Part (&sections)[9]) {
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
      if (kind >= kColumns) continue;
      const std::uint64_t cell = ((row - 1) * columns + column) * 4;
      const std::uint64_t offset = u32_at(index, offsets_at + cell), size = u32_at(index, sizes_at + cell);
      const Part& whole = sections[kind];
      if (offset <= whole.size && size <= whole.size - offset) found.parts[kind] = {whole.offset + offset, size};
    }
  }
  return !rows_.empty();
}

bool DwarfPackage::find(Dwarf* main, Dwarf_Die& skeleton, std::uint64_t unit_id, Dwarf_Die& die) {
  const auto row = rows_.find(unit_id);
  if (row == rows_.end()) return false;
  if (!row->second.tried) {
    row->second.tried = true;
    auto unit = std::make_unique<Unit>();
    if (unit->make(fd_, file_bytes_, row->second.parts, strings_, addresses_of(main, skeleton)))
      row->second.unit = std::move(unit);
  }
  if (row->second.unit == nullptr) return false;
  die = row->second.unit->die;
  return true;
}

}  // namespace heapprof::symbols
