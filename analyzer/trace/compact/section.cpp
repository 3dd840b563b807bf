#include "analyzer/trace/compact/section.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <zstd.h>

#include "analyzer/trace/files/byte_stream.h"
#include "common/checksum.h"

namespace heapprof::trace {

bool read_section(const InputFile& input, std::uint64_t file_id, std::uint64_t offset, std::uint64_t end,
                  Section& section) {
  SectionHeader& header = section.header;
  section.offset = offset;
  return input.read_all(offset, &header, sizeof header) && header.magic == kSectionMagic &&
         header.file_id == file_id &&
         header.header_checksum == checksum(&header, offsetof(SectionHeader, header_checksum)) &&
         header.raw_bytes <= kMaxSectionBytes && header.payload_bytes <= kMaxSectionBytes &&
         offset + sizeof header + header.payload_bytes <= end;
}

SectionTable walk_sections(const InputFile& input, std::uint64_t file_id, std::uint64_t begin, std::uint64_t end) {
  SectionTable table;
  Section section;
  for (table.end = begin; read_section(input, file_id, table.end, end, section); table.end = next_section(section)) {
    switch (section.header.kind) {
      case SectionKind::kSummary: table.summaries.push_back(section); break;
      case SectionKind::kOrigin: table.origins.push_back(section); break;
      case SectionKind::kChunk: table.chunks.push_back(section); break;
      case SectionKind::kSnapshot: table.snapshots.push_back(section); break;
      case SectionKind::kPinned: table.pinned.push_back(section); break;
      case SectionKind::kSums: table.sums.push_back(section); break;
      case SectionKind::kBlocks: table.blocks.push_back(section); break;
      case SectionKind::kState: table.states.push_back(section); break;
      case SectionKind::kHistory: table.histories.push_back(section); break;
      case SectionKind::kFrames: table.frame_lists.push_back(section); break;
      case SectionKind::kPython: table.python.push_back(section); break;
      case SectionKind::kTotals: table.totals.push_back(section); break;
      case SectionKind::kLives: table.lives.push_back(section); break;
      case SectionKind::kPadding: break;
      default: break;  // written by a later minor version
    }
  }
  return table;
}

std::vector<std::uint8_t> read_contents(const InputFile& input, const Section& section) {
  const SectionHeader& header = section.header;
  if (header.raw_bytes > max_contents_bytes(header.payload_bytes))
    throw FormatError("a section of " + std::to_string(header.payload_bytes) + " bytes claims " +
                      std::to_string(header.raw_bytes) + " decompressed bytes, more than the limit");
  std::vector<std::uint8_t> payload(header.payload_bytes);
  if (!input.read_all(section.offset + sizeof header, payload.data(), payload.size()))
    throw FormatError("a section cannot be read");
  if (checksum(payload.data(), payload.size()) != header.payload_checksum)
    throw FormatError("a section has a wrong checksum");
  // The size is compared before memory is allocated.
  if (ZSTD_getFrameContentSize(payload.data(), payload.size()) != header.raw_bytes)
    throw FormatError("a section has a wrong length");
  std::vector<std::uint8_t> contents(header.raw_bytes);
  const std::size_t got = ZSTD_decompress(contents.data(), contents.size(), payload.data(), payload.size());
  if (ZSTD_isError(got) || got != contents.size()) throw FormatError("a section cannot be decompressed");
  return contents;
}

namespace {

/// Fills in lengths and checksums of a section whose payload is already in `bytes`, and pads it.
void seal(SectionHeader header, std::size_t raw_bytes, std::size_t payload_bytes, std::vector<std::uint8_t>& bytes) {
  header.magic = kSectionMagic;
  header.raw_bytes = raw_bytes;
  header.payload_bytes = payload_bytes;
  header.payload_checksum = checksum(bytes.data() + sizeof header, payload_bytes);
  header.header_checksum = checksum(&header, offsetof(SectionHeader, header_checksum));
  std::memcpy(bytes.data(), &header, sizeof header);
  bytes.resize((sizeof header + payload_bytes + 7) / 8 * 8, 0);
}

}  // namespace

std::vector<std::uint8_t> make_padding(SectionHeader header, std::uint64_t bytes) {
  const auto payload_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, std::uint64_t{64} << 20));
  std::vector<std::uint8_t> section(sizeof header + payload_bytes, 0);
  header.kind = SectionKind::kPadding;
  seal(header, 0, payload_bytes, section);
  return section;
}

std::vector<std::uint8_t> make_section(SectionHeader header, std::span<const std::uint8_t> contents, int level,
                                       std::uint64_t min_payload_bytes) {
  std::vector<std::uint8_t> bytes(sizeof header + ZSTD_compressBound(contents.size()));
  std::size_t got = ZSTD_compress(bytes.data() + sizeof header, bytes.size() - sizeof header, contents.data(),
                                  contents.size(), level);
  if (ZSTD_isError(got)) throw std::bad_alloc();
  if (contents.size() > max_contents_bytes(got) || got < min_payload_bytes) {
    constexpr std::uint32_t kSkippableMagic = ZSTD_MAGIC_SKIPPABLE_START;
    const std::uint64_t with_empty_frame = got + sizeof kSkippableMagic + sizeof(std::uint32_t);
    const std::uint64_t for_contents =
        contents.size() - std::min<std::uint64_t>(contents.size(), max_contents_bytes(got));
    const auto missing = static_cast<std::uint32_t>(
        std::max((for_contents + 15) / 16, min_payload_bytes - std::min(min_payload_bytes, with_empty_frame)));
    bytes.resize(sizeof header + got);
    bytes.resize(bytes.size() + sizeof kSkippableMagic + sizeof missing + missing, 0);
    std::memcpy(bytes.data() + sizeof header + got, &kSkippableMagic, sizeof kSkippableMagic);
    std::memcpy(bytes.data() + sizeof header + got + sizeof kSkippableMagic, &missing, sizeof missing);
    got = bytes.size() - sizeof header;
  }
  seal(header, contents.size(), got, bytes);
  return bytes;
}

}  // namespace heapprof::trace
