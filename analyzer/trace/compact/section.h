// Sections: what the analyzer's own files consist of, compacted traces behind their header and indexes. One behind
// the other, at multiples of 8, each with a header that tells its kind, its lengths and its checksums, so that a
// reader walks from section to section and notices damage and cuts.
//
//      0      4  magic "HSEC"
//      4      4  kind
//      8      8  file_id           of the trace that it belongs to
//     16      8  number            by kind: what a reader must know without uncompressing it
//     24      8  events            likewise
//     32      8  last_time         likewise, ticks
//     40      8  raw_bytes
//     48      8  payload_bytes     padding to a multiple of 8 follows the payload
//     56      8  payload_checksum
//     64      8  header_checksum   of bytes 0 to 63
//
// The payload is one zstd frame of raw_bytes bytes. Where that packs better than max_contents_bytes() allows, a
// skippable frame of zeros follows (RFC 8878, 3.1.2), so that every reader can refuse what is packed better.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/trace/files/input_file.h"

namespace heapprof::trace {

enum class SectionKind : std::uint32_t {
  kWhole = 1,   ///< analyzer/trace/compact/trace_summary.h
  kOrigin = 2,  ///< of a compacted trace: what of the file it came from is not in its header
  kChunk =
      3,  ///< of a compacted trace: compact_codec.h; number: records; events: how many of them are events (is_event)
  kSnapshot = 4,  ///< the state of a replay; number: records before it; last_time: of the latest of them
  kPadding = 5,   ///< zeros that are never read: a reader's limits go with the file's size (limits.h)
};

struct SectionHeader {
  std::uint32_t magic;
  SectionKind kind;
  std::uint64_t file_id;
  std::uint64_t number;
  std::uint64_t events;
  std::uint64_t last_time;
  std::uint64_t raw_bytes;
  std::uint64_t payload_bytes;
  std::uint64_t payload_checksum;
  std::uint64_t header_checksum;
};
static_assert(sizeof(SectionHeader) == 72);

inline constexpr std::uint32_t kSectionMagic = 0x43455348;  // "HSEC"
/// No writer exceeds this, so a damaged length cannot ask for more.
inline constexpr std::uint64_t kMaxSectionBytes = std::uint64_t{1} << 30;

/// Contents are at most this long for a payload of so many bytes: a few bytes of zstd could stand for a gigabyte.
constexpr std::uint64_t max_contents_bytes(std::uint64_t payload_bytes) noexcept {
  return (std::uint64_t{16} << 20) + 16 * payload_bytes;
}

/// A section found in a file.
struct Section {
  SectionHeader header{};
  std::uint64_t offset = 0;  ///< of its header
};

/// The section at `offset`, if a sound header stands there and its payload lies before `end`.
bool read_section(const InputFile& input, std::uint64_t file_id, std::uint64_t offset, std::uint64_t end,
                  Section& section);
/// Where the next one begins.
constexpr std::uint64_t next_section(const Section& section) noexcept {
  return section.offset + (sizeof(SectionHeader) + section.header.payload_bytes + 7) / 8 * 8;
}

/// The sections of one file that belong to one trace.
struct SectionTable {
  std::vector<Section> wholes;      ///< by place in the file, all of them
  std::vector<Section> origins;
  std::vector<Section> chunks;
  std::vector<Section> snapshots;
  std::uint64_t end = 0;            ///< where no further section stood: the end of the file, a cut or damage
};
/// Walks from section to section in [begin, end).
SectionTable walk_sections(const InputFile& input, std::uint64_t file_id, std::uint64_t begin, std::uint64_t end);

/// Its contents. Throws FormatError when checksum, compression or lengths are wrong.
std::vector<std::uint8_t> read_contents(const InputFile& input, const Section& section);

/// A section of kind kPadding, of about `bytes`.
std::vector<std::uint8_t> make_padding(SectionHeader header, std::uint64_t bytes);

/// Header, compressed payload and padding, ready to be appended to a file at a multiple of 8. `level`: of zstd.
std::vector<std::uint8_t> make_section(SectionHeader header, std::span<const std::uint8_t> contents, int level);

}  // namespace heapprof::trace
