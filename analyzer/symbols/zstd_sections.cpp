#include "analyzer/symbols/zstd_sections.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace heapprof::symbols {

namespace {

constexpr std::uint32_t kElfCompressZstd = 2;  // not in Debian 12's elf.h; gABI, "Section Compression"
constexpr std::uint64_t kMaxDecompressedBytes = std::uint64_t{4} << 30;

bool read_at(int fd, std::uint64_t offset, void* out, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t bytes = pread(fd, static_cast<char*>(out) + done, size - done, static_cast<off_t>(offset + done));
    if (bytes <= 0) return false;
    done += static_cast<std::size_t>(bytes);
  }
  return true;
}

bool write_at(int fd, std::uint64_t offset, const void* in, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t bytes =
        pwrite(fd, static_cast<const char*>(in) + done, size - done, static_cast<off_t>(offset + done));
    if (bytes <= 0) return false;
    done += static_cast<std::size_t>(bytes);
  }
  return true;
}

/// Decompresses [from, from + size) of file `in` to offset `to` of file `out`. False: it is damaged, or the result is
/// not of `expected` bytes.
bool decompress_section(int in, std::uint64_t from, std::uint64_t size, int out, std::uint64_t to,
                        std::uint64_t expected) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(), ZSTD_freeDStream);
  if (stream == nullptr) return false;
  std::vector<char> compressed(ZSTD_DStreamInSize()), plain(ZSTD_DStreamOutSize());
  std::uint64_t done = 0;
  while (size > 0) {
    const std::size_t part = std::min<std::uint64_t>(compressed.size(), size);
    if (!read_at(in, from, compressed.data(), part)) return false;
    from += part;
    size -= part;
    ZSTD_inBuffer source{compressed.data(), part, 0};
    for (bool full = true; source.pos < source.size || full;) {
      ZSTD_outBuffer target{plain.data(), plain.size(), 0};
      if (ZSTD_isError(ZSTD_decompressStream(stream.get(), &target, &source)) != 0) return false;
      full = target.pos == target.size;
      if (target.pos > expected - done || !write_at(out, to + done, plain.data(), target.pos)) return false;
      done += target.pos;
    }
  }
  return done == expected;
}

}  // namespace

FileDescriptor with_decompressed_sections(FileDescriptor file) {
  Elf64_Ehdr header;
  struct stat status {};
  if (!file.is_open() || fstat(file.get(), &status) != 0 || !read_at(file.get(), 0, &header, sizeof header))
    return file;
  constexpr unsigned char kOwnOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != kOwnOrder || header.e_shentsize != sizeof(Elf64_Shdr))
    return file;

  std::vector<Elf64_Shdr> sections(header.e_shnum);
  if (sections.empty() || !read_at(file.get(), header.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr)))
    return file;
  FileDescriptor copy;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t end = (size + 15) / 16 * 16;
  std::uint64_t bytes_left = kMaxDecompressedBytes;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    Elf64_Shdr& section = sections[i];
    Elf64_Chdr compressed;
    if ((section.sh_flags & SHF_COMPRESSED) == 0 || section.sh_type == SHT_NOBITS ||
        section.sh_size < sizeof compressed || section.sh_offset > size ||
        section.sh_size > size - section.sh_offset ||
        !read_at(file.get(), section.sh_offset, &compressed, sizeof compressed) ||
        compressed.ch_type != kElfCompressZstd || compressed.ch_size > bytes_left)
      continue;
    if (!copy.is_open()) {
      copy = FileDescriptor(memfd_create("decompressed", MFD_CLOEXEC));
      off_t at = 0;
      while (copy.is_open() && at < status.st_size)
        if (sendfile(copy.get(), file.get(), &at, static_cast<std::size_t>(status.st_size - at)) <= 0) return file;
      if (!copy.is_open()) return file;
    }
    if (!decompress_section(file.get(), section.sh_offset + sizeof compressed, section.sh_size - sizeof compressed,
                            copy.get(), end, compressed.ch_size))
      continue;
    section.sh_flags &= ~static_cast<Elf64_Xword>(SHF_COMPRESSED);
    section.sh_offset = end;
    section.sh_size = compressed.ch_size;
    section.sh_addralign = compressed.ch_addralign;
    if (!write_at(copy.get(), header.e_shoff + i * sizeof section, &section, sizeof section)) return file;
    bytes_left -= compressed.ch_size;
    end = (end + compressed.ch_size + 15) / 16 * 16;
  }
  return copy.is_open() ? std::move(copy) : std::move(file);
}

}  // namespace heapprof::symbols
