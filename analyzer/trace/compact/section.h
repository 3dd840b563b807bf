// Sections: the parts of compacted traces (after the file header) and of index files. Sections follow each other at
// multiples of 8. Each has a header with its kind, lengths and checksums, so that a reader detects damage and a
// truncated file (docs/concepts/trace-format.md, "Section header").
//
// The payload is one zstd frame (RFC 8878). Where raw_bytes would exceed max_contents_bytes(), the writer appends a
// skippable frame of zeros (RFC 8878, 3.1.2), so that readers can refuse every section that exceeds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/trace/files/input_file.h"

namespace heapprof::trace {

enum class SectionKind : std::uint32_t {
  kSummary = 1,   ///< trace_summary.h; number: records; last_time: end of the recording
  kOrigin = 2,    ///< origin.h; only in compacted traces
  kChunk = 3,     ///< chunk_codec.h; only in compacted traces. number: records; events: those with is_event()
  kSnapshot = 4,  ///< state of a replay; number: records before it; last_time: of the last of them
  kPadding = 5,   ///< zeros, never read: they enlarge the file, and with it the limits in limits.h
  kPinned = 6,    ///< pinned_table.h; number: moment, ns; events: number of the snapshot, 0: the end of the recording
  kSums = 7,      ///< replay/interval_sums.h: of the interval with this number; only in indexes
  kBlocks = 8,    ///< replay/stored_blocks.h: live at the end of the interval with this number; only in indexes
  kHistory = 9,   ///< live_history.h: of the whole recording; number: records; only in indexes
  kFrames = 10,   ///< frame_list.h; number: 0; only in indexes
  kPython = 11,   ///< python_code.h: a part of the summary, absent without Python; number: 0
  kTotals = 12,   ///< replay/recording_totals.h; number: records
  kLives = 13,    ///< replay/stack_lives.h; number: records; only in indexes
  kState = 14,    ///< replay/index/interval_state.h; number: records up to its end; events: flags; only in indexes
};

struct SectionHeader {
  std::uint32_t magic;
  SectionKind kind;
  std::uint64_t file_id;  ///< of the trace to which the section belongs
  // The meaning of the next three depends on the kind. Readers need them before they decompress the payload.
  std::uint64_t number;
  std::uint64_t events;
  std::uint64_t last_time;      ///< ticks
  std::uint64_t raw_bytes;      ///< of the decompressed payload
  std::uint64_t payload_bytes;  ///< without the padding to a multiple of 8, which follows
  std::uint64_t payload_checksum;
  std::uint64_t header_checksum;  ///< of all bytes before it
};
static_assert(sizeof(SectionHeader) == 72);

/// Of compacted traces. 1 added kPinned, 2 kPython and kTotals; sections of an unknown kind are skipped.
inline constexpr std::uint16_t kCompactedVersionMinor = 2;
inline constexpr std::uint16_t kPinnedSinceMinor = 1;

inline constexpr std::uint32_t kSectionMagic = 0x43455348;  // "HSEC"
/// No writer exceeds this, so a damaged length cannot make a reader allocate more.
inline constexpr std::uint64_t kMaxSectionBytes = std::uint64_t{1} << 30;

/// The greatest raw_bytes that a reader accepts for a payload: a few bytes of zstd could stand for a gigabyte.
constexpr std::uint64_t max_contents_bytes(std::uint64_t payload_bytes) noexcept {
  return (std::uint64_t{16} << 20) + 16 * payload_bytes;
}

/// False: written by a later minor version.
constexpr bool is_known(SectionKind kind) noexcept {
  return kind >= SectionKind::kSummary && kind <= SectionKind::kState;
}

/// A section found in a file.
struct Section {
  SectionHeader header{};
  std::uint64_t offset = 0;  ///< of its header
};

/// Reads the header at `offset` into `section`. False: it is not a valid header of this trace, or its payload ends
/// after `end`.
bool read_section(const InputFile& input, std::uint64_t file_id, std::uint64_t offset, std::uint64_t end,
                  Section& section);
/// File offset of the section that follows.
constexpr std::uint64_t next_section(const Section& section) noexcept {
  return section.offset + (sizeof(SectionHeader) + section.header.payload_bytes + 7) / 8 * 8;
}

/// The sections of a trace in one file, each kind in file order.
struct SectionTable {
  std::vector<Section> summaries;
  std::vector<Section> origins;
  std::vector<Section> chunks;
  std::vector<Section> snapshots;
  std::vector<Section> pinned;
  std::vector<Section> sums;
  std::vector<Section> blocks;
  std::vector<Section> states;
  std::vector<Section> histories;
  std::vector<Section> frame_lists;
  std::vector<Section> python;
  std::vector<Section> totals;
  std::vector<Section> lives;
  std::uint64_t end = 0;  ///< offset after the last valid section
};
/// Reads the headers of the sections in [begin, end), up to the first invalid one.
SectionTable walk_sections(const InputFile& input, std::uint64_t file_id, std::uint64_t begin, std::uint64_t end);

/// Reads and decompresses the payload. Throws FormatError when a checksum, a length or the compression is wrong.
std::vector<std::uint8_t> read_contents(const InputFile& input, const Section& section);

/// A section of kind kPadding with about `bytes` bytes, at most 64 MiB.
std::vector<std::uint8_t> make_padding(SectionHeader header, std::uint64_t bytes);

/// Header, compressed payload and padding, to be appended to a file at a multiple of 8. `level`: compression level of
/// zstd. `header` has kind, file_id, number, events and last_time; the rest is filled in. A payload that is shorter
/// than `min_payload_bytes` is extended like one that exceeds max_contents_bytes().
std::vector<std::uint8_t> make_section(SectionHeader header, std::span<const std::uint8_t> contents, int level,
                                       std::uint64_t min_payload_bytes = 0);

}  // namespace heapprof::trace
