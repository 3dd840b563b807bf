// What a whole recording allocated, by stack: an index and a compacted trace have it, so that the analysis of a part
// of the recording finds the same helpers as one of all of it (findings/helpers.h).
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/profile.h"
#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::replay {

/// By dense index; may be shorter than the call tree.
struct RecordingTotals {
  std::vector<model::StackTotals> heap;
  std::vector<model::StackTotals> mmap;  ///< those that allocators requested, too

  /// Precondition: `index` < size().
  model::StackTotals of(model::Kind kind, std::size_t index) const;
  std::size_t size() const noexcept { return heap.size() > mmap.size() ? heap.size() : mmap.size(); }
};

void save(const RecordingTotals& totals, trace::ByteWriter& out);
/// Throws trace::FormatError, also when there are more than `node_count`.
RecordingTotals load_recording_totals(trace::ByteReader& in, std::uint32_t node_count);

}  // namespace heapprof::replay
