#include "analyzer/symbols/elf_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace heapprof::symbols {

namespace {

std::string hex(const void* bytes, std::size_t size) {
  std::string text;
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; ++i) {
    text += "0123456789abcdef"[at[i] >> 4];
    text += "0123456789abcdef"[at[i] & 15];
  }
  return text;
}

}  // namespace

FileDescriptor open_regular_file(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file.is_open()) return file;
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    errno = EINVAL;
    return FileDescriptor();
  }
  return file;
}

ElfHandle open_elf(const FileDescriptor& file) { return ElfHandle(elf_begin(file.get(), ELF_C_READ_MMAP, nullptr)); }

std::string build_id_of(Elf* elf) {
  const void* bytes = nullptr;
  const ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);
  return size > 0 ? hex(bytes, static_cast<std::size_t>(size)) : std::string();
}

/// The section is a file name, a NUL and the bytes of a build ID.
std::optional<AltLink> read_alt_link(Elf* elf) {
  std::string bytes;
  for_each_section(elf, [&](Elf_Scn* section, const GElf_Shdr& header, std::string_view name) {
    if (name != ".gnu_debugaltlink" || header.sh_type == SHT_NOBITS) return false;
    if (const Elf_Data* data = elf_rawdata(section, nullptr); data != nullptr && data->d_buf != nullptr)
      bytes.assign(static_cast<const char*>(data->d_buf), data->d_size);
    return true;
  });
  const std::size_t end = bytes.find('\0');
  if (end == std::string::npos) return std::nullopt;
  return AltLink{bytes.substr(0, end), hex(bytes.data() + end + 1, bytes.size() - end - 1)};
}

std::uint32_t crc32_of(const FileDescriptor& file) {
  std::array<unsigned char, 65536> buffer;
  uLong sum = crc32(0, nullptr, 0);
  off_t offset = 0;
  for (ssize_t size; (size = pread(file.get(), buffer.data(), buffer.size(), offset)) > 0; offset += size)
    sum = crc32(sum, buffer.data(), static_cast<uInt>(size));
  return static_cast<std::uint32_t>(sum);
}

std::string file_state(const FileDescriptor& file) {
  struct stat status {};
  if (!file.is_open() || fstat(file.get(), &status) != 0) return {};
  return std::to_string(status.st_dev) + ' ' + std::to_string(status.st_ino) + ' ' + std::to_string(status.st_size) +
         ' ' + std::to_string(status.st_mtim.tv_sec) + '.' + std::to_string(status.st_mtim.tv_nsec);
}

std::uint64_t mapped_bytes_of(Elf* elf) {
  std::uint64_t begin = UINT64_MAX, end = 0;
  for_each_load_segment(elf, [&](const GElf_Phdr& segment) {
    begin = std::min<std::uint64_t>(begin, segment.p_vaddr);
    end = std::max<std::uint64_t>(end, segment.p_vaddr + segment.p_memsz);
  });
  return end > begin ? end - begin : 0;
}

}  // namespace heapprof::symbols
