// How much memory a file can make its reader allocate.
//
// Compression makes repetition nearly free: one byte of LZ4 can stand for 255 bytes, four bytes of zstd for 128 KB. A
// length or count is therefore accepted only up to what a recorder or `heapprof compact` can have written into a file
// of that size. These limits always hold:
//
//   slots of a block               <= kMaxBlockSlots
//   decoded blocks at any moment   <= max_decoded_bytes(file)
//   all modules together           <= max_text_bytes(file)
//   all texts about Python         <= max_text_bytes(file)
//   numbers of nodes               <= max_nodes(file) in a recording, max_summary_nodes(file) in a trace summary
//   texts of one batch             <= kMaxBatchTextBytes, plus one text
//   a snapshot of resident pages   <= max_residency_bytes(file)
//   threads of a replay            <= max_threads(file), plus one for all others
//   their names together           <= max_name_bytes(file), counting those longer than kUncountedNameBytes
#pragma once

#include <cstdint>

#include "common/trace_format.h"

namespace heapprof::trace {

/// The greatest value of HEAPPROF_BLOCK_BYTES (preload/recorder/process/settings.cpp).
inline constexpr std::uint32_t kMaxBlockBytes = 64u << 10;
inline constexpr std::uint32_t kMaxBlockSlots = (kMaxBlockBytes - sizeof(StagingHeader)) / sizeof(Slot);

/// Every stream with a staging block or a frame has an extent at least as large as its block in the file, and its
/// texts take at most twice that. The constant admits small files that another program wrote.
constexpr std::uint64_t max_decoded_bytes(std::uint64_t file_bytes) noexcept {
  return (std::uint64_t{64} << 20) + 2 * file_bytes;
}

/// Memory of one module in models and reports, with a path of `text_bytes`; of a code object of Python.
constexpr std::uint64_t text_cost_bytes(std::uint64_t text_bytes) noexcept { return 512 + 4 * text_bytes; }
/// The record of a module takes more than 16 compressed bytes for each 512 bytes of text_cost_bytes().
constexpr std::uint64_t max_text_bytes(std::uint64_t file_bytes) noexcept {
  return (std::uint64_t{64} << 20) + 512 / 16 * file_bytes;
}

/// Nodes of a recording that are defined or used. A recorder needs at least kMinNodeBytes for the definition of each.
/// In models and reports a node takes some 200 bytes.
constexpr std::uint64_t max_nodes(std::uint64_t file_bytes) noexcept {
  return (std::uint64_t{256} << 10) + file_bytes / kMinNodeBytes;
}

/// Nodes of a trace summary that are kept: without the limit, a node that is not defined takes two bytes of zeros, of
/// which zstd leaves nothing. A node that is defined takes at least five bytes, so a file whose nodes compress 20:1
/// has no more. A compacted trace whose nodes compress better, as those of a recursion do, is padded
/// (min_bytes_for_nodes). Before that was done, heapprof wrote such traces without padding: the events of nodes
/// beyond the limit have no stack then, but none is lost. No limit separates such a trace from a hostile one: the
/// bytes are the same, a few KB for a million nodes of a recursion, and so is the memory of models and reports.
inline constexpr std::uint64_t kUncountedNodes = 256u << 10;
inline constexpr std::uint64_t kNodesPerFileByte = 4;
constexpr std::uint64_t max_summary_nodes(std::uint64_t file_bytes) noexcept {
  return kUncountedNodes + kNodesPerFileByte * file_bytes;
}
/// The size of the smallest file for which max_summary_nodes() is at least `nodes`.
constexpr std::uint64_t min_bytes_for_nodes(std::uint64_t nodes) noexcept {
  return nodes <= kUncountedNodes ? 0 : (nodes - kUncountedNodes + kNodesPerFileByte - 1) / kNodesPerFileByte;
}

/// A batch ends early when its texts exceed this: a text of 16 KB may take one byte in the file.
inline constexpr std::uint64_t kMaxBatchTextBytes = 4u << 20;

/// A group of a snapshot (common/residency_codec.h) takes at least 3 bytes before compression and 40 bytes of memory.
constexpr std::uint64_t max_residency_bytes(std::uint64_t file_bytes) noexcept {
  return (std::uint64_t{64} << 20) + 32 * file_bytes;
}

/// A short-lived thread with one allocation takes about 9 bytes in a recording, and about 1 KB of memory in a JSON
/// report. A compacted trace whose threads compress better is padded (min_bytes_for_threads). The events of threads
/// beyond the limit count for one thread named "(other threads)", so no event is lost.
inline constexpr std::uint64_t kUncountedThreads = 128u << 10;
inline constexpr std::uint64_t kFileBytesPerThread = 8;
constexpr std::uint64_t max_threads(std::uint64_t file_bytes) noexcept {
  return kUncountedThreads + file_bytes / kFileBytesPerThread;
}
/// The size of the smallest file for which max_threads() is at least `threads`.
constexpr std::uint64_t min_bytes_for_threads(std::uint64_t threads) noexcept {
  return threads <= kUncountedThreads ? 0 : (threads - kUncountedThreads) * kFileBytesPerThread;
}

/// The kernel's limit for the name of a thread: no recorder writes a longer one. Names beyond max_name_bytes() are
/// left empty.
inline constexpr std::uint64_t kUncountedNameBytes = 15;
constexpr std::uint64_t max_name_bytes(std::uint64_t file_bytes) noexcept {
  return (std::uint64_t{16} << 20) + 8 * file_bytes;
}

}  // namespace heapprof::trace
