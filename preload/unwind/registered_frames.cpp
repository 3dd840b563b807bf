// A table of registrations, written and read without lock. A version guards each row: it is odd while the row is
// being written (a seqlock). A reader skips a row that changes while it is read. No frame is lost by this, because
// the host may deregister only code that is on no stack.
#include "preload/unwind/registered_frames.h"

#include <atomic>

#include "preload/sys/kernel.h"
#include "preload/unwind/cfi.h"
#include "preload/unwind/modules.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::unwind {

namespace {

struct Row {
  std::atomic<std::uint32_t> version;
  std::atomic<std::uint64_t> frames_begin;  ///< 0: free
  std::atomic<std::uint64_t> frames_end;
  std::atomic<std::uint64_t> code_begin;
  std::atomic<std::uint64_t> code_end;
  std::atomic<std::uint64_t> key;  ///< the key of deregister_frame()
};

constexpr std::uint32_t kChunkRows = 1024;
constexpr std::uint32_t kChunks = 64;
constinit std::atomic<Row*> g_chunks[kChunks] = {};
constinit std::atomic<std::uint32_t> g_rows{0};  ///< rows in use, or used before

Row& row_at(std::uint32_t index) noexcept {
  return g_chunks[index / kChunkRows].load(std::memory_order_acquire)[index % kChunkRows];
}

/// Claims a free row for writing. Returns null when there is none.
Row* claim() noexcept {
  for (std::uint32_t i = 0; i < kChunks * kChunkRows; ++i) {
    if (i == g_rows.load(std::memory_order_acquire)) {
      auto& chunk = g_chunks[i / kChunkRows];
      Row* none = nullptr;
      if (chunk.load(std::memory_order_acquire) == nullptr) {
        auto* fresh = static_cast<Row*>(sys::map_private(kChunkRows * sizeof(Row)));
        if (fresh == nullptr) return nullptr;
        if (!chunk.compare_exchange_strong(none, fresh, std::memory_order_acq_rel))
          sys::unmap_private(fresh, kChunkRows * sizeof(Row));
      }
      std::uint32_t rows = i;
      g_rows.compare_exchange_strong(rows, i + 1, std::memory_order_acq_rel);
    }
    Row& row = row_at(i);
    std::uint32_t version = row.version.load(std::memory_order_acquire);
    if (version % 2 == 0 && row.frames_begin.load(std::memory_order_relaxed) == 0 &&
        row.version.compare_exchange_strong(version, version + 1, std::memory_order_acq_rel))
      return &row;
  }
  return nullptr;
}

/// Writes a row whose version the caller has made odd. A reader that reads one of these values must find the odd
/// version, or a later one, when it reads the version again behind its fence. The caller's read-modify-write does not
/// order its store before those that follow (on aarch64 it may be a load and a store), hence the fence here.
void write(Row& row, Span frames, Span code, std::uint64_t key) noexcept {
  std::atomic_thread_fence(std::memory_order_release);
  row.key.store(key, std::memory_order_relaxed);
  row.frames_begin.store(frames.begin, std::memory_order_relaxed);
  row.frames_end.store(frames.end, std::memory_order_relaxed);
  row.code_begin.store(code.begin, std::memory_order_relaxed);
  row.code_end.store(code.end, std::memory_order_relaxed);
  row.version.fetch_add(1, std::memory_order_release);
}

}  // namespace

Span find_registered(std::uint64_t pc) noexcept {
  const std::uint32_t rows = g_rows.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < rows; ++i) {
    const Row& row = row_at(i);
    const std::uint32_t version = row.version.load(std::memory_order_acquire);
    const Span code{row.code_begin.load(std::memory_order_relaxed), row.code_end.load(std::memory_order_relaxed)};
    if (!code.contains(pc)) continue;
    const Span frames{row.frames_begin.load(std::memory_order_relaxed),
                      row.frames_end.load(std::memory_order_relaxed)};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version % 2 == 0 && version == row.version.load(std::memory_order_relaxed)) return frames;
  }
  return {};
}

void register_frame(const void* begin, const void* key) noexcept {
  // The host passes only the beginning of the entries; an entry of length 0 ends them.
  constexpr std::uint64_t kMaxBytes = 64u << 20;
  const auto address = reinterpret_cast<std::uint64_t>(begin);
  Span frames{address, address + kMaxBytes};
  Span code;
  if (begin == nullptr || !cfi_range(frames, code)) return;
  if (Row* row = claim()) write(*row, frames, code, reinterpret_cast<std::uint64_t>(key));
  raise_generation();
}

void deregister_frame(const void* key) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(key);
  if (address == 0) return;
  const std::uint32_t rows = g_rows.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < rows; ++i) {
    Row& row = row_at(i);
    std::uint32_t version = row.version.load(std::memory_order_acquire);
    const bool is_only_row = row.frames_begin.load(std::memory_order_relaxed) == address;
    if (row.key.load(std::memory_order_relaxed) != address || version % 2 != 0 ||
        !row.version.compare_exchange_strong(version, version + 1, std::memory_order_acq_rel))
      continue;
    write(row, {}, {}, 0);
    if (is_only_row) break;
  }
  raise_generation();
}

}  // namespace heapprof::unwind
