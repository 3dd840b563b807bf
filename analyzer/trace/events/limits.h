// How much memory a file may make its reader ask for.
//
// Compression makes repetition nearly free: one byte of LZ4 stands for 255, four bytes of zstd for 128 KB. So a
// length or a count in a file is believed only up to what a recorder or `heapprof compact` can have written into a
// file of that size. These limits hold at all times:
//
//   slots of a block              <= kMaxBlockSlots
//   decoded blocks at one moment  <= max_decoded_bytes(file)   each stream has extents of more than its block
//   modules, all together         <= max_text_bytes(file)
//   texts of one batch            <= kMaxBatchTextBytes and one text
//   threads of a replay           <= max_threads(file)         and one for all others
//   their names, all together     <= max_name_bytes(file)      those of more than kUncountedNameBytes
//
// No event is lost to the last three: a thread or a name that exceeds its limit is merged or left empty.
//
// A section of the analyzer's own files has its own limit: max_contents_bytes() in section.h.
#pragma once

#include <cstdint>

#include "common/trace_format.h"

namespace heapprof::trace {

/// HEAPPROF_BLOCK_BYTES can be no larger (preload/recorder/process/settings.cpp).
inline constexpr std::uint32_t kMaxBlockBytes = 64u << 10;
inline constexpr std::uint32_t kMaxBlockSlots = (kMaxBlockBytes - sizeof(StagingHeader)) / sizeof(Slot);

/// Every stream with a staging block or a frame has an extent of its block's size in the file; its texts take at most
/// twice that. The constant serves small files that were put together otherwise.
constexpr std::uint64_t max_decoded_bytes(std::uint64_t file_bytes) noexcept {
  return (std::uint64_t{64} << 20) + 2 * file_bytes;
}

/// What it costs to keep a module in models and reports.
constexpr std::uint64_t text_cost_bytes(std::uint64_t text_bytes) noexcept { return 512 + 4 * text_bytes; }
/// A dlopen that maps a module takes more than 16 bytes of a frame, packed, for each 512 that it costs.
constexpr std::uint64_t max_text_bytes(std::uint64_t file_bytes) noexcept {
  return (std::uint64_t{64} << 20) + 512 / 16 * file_bytes;
}

/// A batch ends early when its texts exceed this: a text of 16 KB may cost a byte of the file.
inline constexpr std::uint64_t kMaxBatchTextBytes = 4u << 20;

/// A short-lived thread with one allocation takes about 9 bytes of a recording. A compacted trace has padding where
/// it packs its threads better (min_bytes_for_threads). A thread costs a JSON report about 1 KB of memory.
inline constexpr std::uint64_t kUncountedThreads = 128u << 10;
inline constexpr std::uint64_t kFileBytesPerThread = 8;
constexpr std::uint64_t max_threads(std::uint64_t file_bytes) noexcept {
  return kUncountedThreads + file_bytes / kFileBytesPerThread;
}
/// The smallest size of a file for which max_threads() allows so many.
constexpr std::uint64_t min_bytes_for_threads(std::uint64_t threads) noexcept {
  return threads <= kUncountedThreads ? 0 : (threads - kUncountedThreads) * kFileBytesPerThread;
}

/// The kernel's limit for a thread's name. Longer ones are not a recorder's.
inline constexpr std::uint64_t kUncountedNameBytes = 15;
constexpr std::uint64_t max_name_bytes(std::uint64_t file_bytes) noexcept {
  return (std::uint64_t{16} << 20) + 8 * file_bytes;
}

}  // namespace heapprof::trace
