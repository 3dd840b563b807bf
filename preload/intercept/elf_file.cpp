#include "preload/intercept/elf_file.h"

#include "preload/sys/kernel.h"

namespace heapprof::intercept {

Buffer::Buffer(std::uint64_t bytes) noexcept : bytes_(bytes) {
  if (bytes != 0 && bytes <= kMaxTableBytes) memory_ = static_cast<char*>(sys::map_private(bytes));
}

Buffer::~Buffer() {
  if (memory_ != nullptr) sys::unmap_private(memory_, bytes_);
}

char* Scratch::reserve(std::uint64_t bytes) noexcept {
  if (bytes <= bytes_ && memory_ != nullptr) return memory_;
  release();
  constexpr std::uint64_t kMinBytes = 64u << 10;
  if (bytes == 0 || bytes > kMaxTableBytes) return nullptr;
  bytes_ = bytes < kMinBytes ? kMinBytes : bytes;
  memory_ = static_cast<char*>(sys::map_private(bytes_));
  return memory_;
}

void Scratch::release() noexcept {
  if (memory_ != nullptr) sys::unmap_private(memory_, bytes_);
  memory_ = nullptr;
}

bool read_at(int fd, void* to, std::uint64_t bytes, std::uint64_t offset) noexcept {
  auto* at = static_cast<char*>(to);
  while (bytes != 0) {
    const long got = sys::pread(fd, at, bytes, offset);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::uint64_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

bool read_headers(ElfFile& file) noexcept {
  const long got = sys::pread(file.fd, &file.header, sizeof file.header + sizeof file.segments, 0);
  const std::uint64_t read_bytes = got < 0 ? 0 : static_cast<std::uint64_t>(got);
  if (read_bytes < sizeof file.header && !read_at(file.fd, &file.header, sizeof file.header, 0)) return false;
  const ElfW(Ehdr)& header = file.header;
  if (__builtin_memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(ElfW(Phdr)))
    return false;
  file.segment_count = header.e_phnum < 32 ? header.e_phnum : 32;
  const std::uint64_t bytes = file.segment_count * sizeof(ElfW(Phdr));
  return (header.e_phoff == sizeof header && read_bytes >= sizeof header + bytes) ||
         read_at(file.fd, file.segments, bytes, header.e_phoff);
}

}  // namespace heapprof::intercept
