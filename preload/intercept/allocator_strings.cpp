#include "preload/intercept/allocator_strings.h"

#include <cstddef>
#include <cstdint>

#include "common/c_string.h"
#include "preload/intercept/elf_file.h"
#include "preload/sys/kernel.h"

namespace heapprof::intercept {

namespace {

struct KnownString {
  const char* allocator;
  const char* text;
  std::size_t malloc_at;  ///< offset of "mal" in `text`, in either case
};

// Prefixes of messages and names of environment variables, which every build contains.
constexpr KnownString kKnownStrings[] = {{"jemalloc", "<jemalloc>: ", 3},
                                         {"mimalloc", "mimalloc: ", 2},
                                         {"tcmalloc", "TCMALLOC_SAMPLE_PARAMETER", 2},
                                         {"tcmalloc", "tcmalloc: large alloc", 2}};

/// The allocator of the first known string in these bytes, or null. Whole programs are searched, so the bytes are
/// first compared, sixteen at a time, with "mal", which all known strings contain and which is rare elsewhere.
const char* find_known_string(const char* begin, std::size_t bytes) noexcept {
  using Vector [[gnu::vector_size(16)]] = unsigned char;
  const auto load = [](const char* at) {
    Vector vector;
    __builtin_memcpy(&vector, at, sizeof vector);
    return vector | 0x20;  // lower case
  };
  for (std::size_t i = 0; i + sizeof(Vector) + 2 <= bytes; i += sizeof(Vector)) {
    const auto hits = (load(begin + i) == 'm') & (load(begin + i + 1) == 'a') & (load(begin + i + 2) == 'l');
    std::uint64_t any[2];
    __builtin_memcpy(any, &hits, sizeof any);
    if ((any[0] | any[1]) == 0) [[likely]]
      continue;
    for (std::size_t at = i; at < i + sizeof(Vector); ++at)
      for (const KnownString& known : kKnownStrings) {
        const std::size_t length = text_length(known.text);
        if (at >= known.malloc_at && at - known.malloc_at + length <= bytes &&
            __builtin_memcmp(begin + at - known.malloc_at, known.text, length) == 0)
          return known.allocator;
      }
  }
  return nullptr;
}

}  // namespace

const char* find_allocator_by_strings(const char* path) noexcept {
  constexpr std::size_t kPieceBytes = 32u << 10;  // stays in the cache
  constexpr std::size_t kOverlapBytes = 64;  // more than the longest known string and the bytes after the last vector
  const Buffer memory(sizeof(ElfFile));
  const Buffer piece(kPieceBytes);
  if (!memory || !piece) return nullptr;
  auto& file = *reinterpret_cast<ElfFile*>(memory.data());
  file.fd = sys::open(path, O_RDONLY | O_CLOEXEC);
  if (sys::failed(file.fd)) return nullptr;
  const char* found = nullptr;
  const unsigned segments = read_headers(file) ? file.segment_count : 0;
  for (unsigned i = 0; i < segments && found == nullptr; ++i) {
    const ElfW(Phdr)& segment = file.segments[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & (PF_X | PF_W)) != 0 || segment.p_filesz > kMaxTableBytes)
      continue;
    for (std::uint64_t at = 0; at < segment.p_filesz && found == nullptr; at += kPieceBytes - kOverlapBytes) {
      const long got = sys::pread(file.fd, piece.data(), kPieceBytes, segment.p_offset + at);
      if (got <= 0) break;
      found = find_known_string(piece.data(), static_cast<std::size_t>(got));
    }
  }
  sys::close(file.fd);
  return found;
}

}  // namespace heapprof::intercept
