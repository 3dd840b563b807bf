// Where the frames and staging blocks of a recording are while its program runs: the index of a TraceFile that grows.
//
// update() adds what was committed since the last one. Its order is that of TraceFile, for the same reason:
//
//   1. the caller takes the time of the cut,
//   2. find new extents and copy the staging blocks that have changed,
//   3. find extents again: the recorder completes a frame, and the extent for it, before the next block of its stream
//      begins. So the frames before each copied block are in extents that are found here,
//   4. index new frames, up to the copied block of their stream.
//
// What is indexed then contains every event up to the cut on which another one depends (docs/concepts/ordering.md).
// An update costs one read for each stream and each open extent of frames.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "analyzer/trace/events/damage.h"
#include "analyzer/trace/files/input_file.h"
#include "analyzer/trace/trace_file.h"
#include "common/trace_format.h"

namespace heapprof::trace {

class GrowingIndex {
 public:
  /// `input` and `header` must outlive this. `header` is that of a recording, with a right checksum.
  GrowingIndex(const InputFile& input, const FileHeader& header);

  /// Adds what is new. Frames are added at the ends of the streams' indexes; streams are never removed. `ended`: the
  /// program writes no more, so that every frame counts.
  void update(bool ended);

  /// In the order in which they were found. A stream stays where it is.
  std::deque<StreamIndex>& streams() noexcept { return streams_; }
  /// Positions in streams() of those for which the last update has found something, ascending.
  const std::vector<std::size_t>& changed() const noexcept { return changed_; }
  const Damage& damage() const noexcept { return damage_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }  ///< up to which extents were searched

 private:
  struct Staging {
    ExtentHeader extent;
    std::size_t stream;    // in streams_
    std::uint64_t commit;  // the commit word when it was last copied
  };
  struct Frames {
    std::uint64_t at;  // of the next frame
    std::uint64_t end;
    std::size_t stream;  // in streams_
    std::uint32_t ordinal;
    bool over = false;
  };

  void find_extents();
  bool claim(std::uint64_t at);
  void copy_staging(Staging& staging);
  bool index_frames(Frames& frames, bool ended);
  std::size_t stream(StreamId id);

  const InputFile& input_;
  const FileHeader& header_;
  std::deque<StreamIndex> streams_;
  std::map<StreamId, std::size_t> by_id_;
  std::vector<std::size_t> changed_;
  std::vector<Staging> staging_;
  std::vector<Frames> frames_;               // of extents that may get further frames
  std::vector<std::uint32_t> last_ordinal_;  // by stream: of its last extent of frames
  std::set<std::uint64_t> unclaimed_;  // units in no extent: one whose header is not complete yet may begin there
  std::uint64_t searched_ = 0;         // offset up to which units were visited
  std::uint64_t file_bytes_ = 0;
  Damage damage_;
};

}  // namespace heapprof::trace
