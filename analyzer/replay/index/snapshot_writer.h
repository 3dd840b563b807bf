// Writes the snapshots of a compacted trace as sections of its file, while the trace is replayed.
//
// A snapshot is the position of the reader and the state of the replay. Snapshots are at least 2 million records
// apart, and at least 16 records for each live block, so that a large heap does not make them larger than the
// events.
#pragma once

#include <cstdint>

#include "analyzer/base/atomic_file.h"
#include "analyzer/replay/replay.h"
#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::replay {

/// Records between two snapshots, at least. Pass it to MergedReader::give_positions().
inline constexpr std::uint64_t kSnapshotInterval = 1 << 21;

class SnapshotWriter {
 public:
  /// Sections get `file_id`, the id of the trace. `file` must outlive this.
  SnapshotWriter(AtomicFile& file, std::uint64_t file_id) : file_(file), file_id_(file_id) {}
  /// Call it after each batch was replayed. Writes a snapshot when the batch has a position and enough records
  /// were read. Throws FileError.
  void after(const trace::Batch& batch, const Replay& replay);

 private:
  AtomicFile& file_;
  const std::uint64_t file_id_;
  std::uint64_t last_records_ = 0;
  trace::ByteWriter contents_;
};

}  // namespace heapprof::replay
