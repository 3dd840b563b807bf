// How much memory a file may make its reader ask for.
//
// Compression makes repetition nearly free: one byte of LZ4 stands for 255, four bytes of zstd for 128 KB. So a
// length or a count in a file is believed only up to what a recorder or `heapprof compact` can have written into a
// file of that size. Three limits hold at all times:
//
//   slots of a block              <= kMaxBlockSlots
//   decoded blocks at one moment  <= max_decoded_bytes(file)   each stream has extents of more than its block
//   texts kept, all together      <= max_text_bytes(file)      threads, marks, modules
//
// A section of the analyzer's own files has its own limit: max_contents_bytes() in section.h.
#pragma once

#include <cstdint>

#include "common/trace_format.h"

namespace heapprof::trace {

/// HEAPPROF_BLOCK_BYTES can be no larger (preload/recorder/settings.cpp).
inline constexpr std::uint32_t kMaxBlockBytes = 64u << 10;
inline constexpr std::uint32_t kMaxBlockSlots = (kMaxBlockBytes - sizeof(StagingHeader)) / sizeof(Slot);

/// Every stream with a staging block or a frame has an extent of its block's size in the file; its texts take at most
/// twice that. The constant serves small files that were put together otherwise.
constexpr std::uint64_t max_decoded_bytes(std::uint64_t file_bytes) noexcept {
  return (std::uint64_t{64} << 20) + 2 * file_bytes;
}

/// What it costs to keep a text: the entry of a thread, a mark or a module, in models and reports.
constexpr std::uint64_t text_cost_bytes(std::uint64_t text_bytes) noexcept { return 512 + 4 * text_bytes; }
/// A thread with its events takes more than 16 bytes of a frame, packed.
constexpr std::uint64_t max_text_bytes(std::uint64_t file_bytes) noexcept {
  return (std::uint64_t{64} << 20) + 512 / 16 * file_bytes;
}

}  // namespace heapprof::trace
