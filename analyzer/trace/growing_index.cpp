#include "analyzer/trace/growing_index.h"

#include <algorithm>
#include <cstddef>

#include "analyzer/trace/align.h"

namespace heapprof::trace {
namespace {

/// Units that are remembered because an extent may begin there later. The recorder's threads make extents at the same
/// time, so some can be incomplete when a later one is complete: with 256 MiB, of 4,000 threads that start at once.
/// More are there only in a damaged file, and each costs a read in each update.
constexpr std::size_t kMaxUnclaimed = 1 << 16;

}  // namespace

GrowingIndex::GrowingIndex(const InputFile& input, const FileHeader& header)
    : input_(input), header_(header), searched_(header.header_bytes) {}

void GrowingIndex::update(bool ended) {
  changed_.clear();
  find_extents();
  for (Staging& staging : staging_) copy_staging(staging);
  // The copied blocks can be later than extents that were made after the search: those have the frames in between.
  find_extents();
  // An extent that has a successor was full before the successor was made.
  for (Frames& frames : frames_)
    frames.over = index_frames(frames, ended) && frames.ordinal < last_ordinal_[frames.stream];
  std::erase_if(frames_, [](const Frames& frames) { return frames.over; });
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
}

void GrowingIndex::find_extents() {
  std::uint64_t recorded = 0;
  if (!input_.read_all(offsetof(FileHeader, file_bytes), &recorded, sizeof recorded)) {
    if (!damage_.incomplete) {
      damage_.lost_unknown();
      damage_.note("the file was truncated while it was read");
    }
    return;
  }
  const std::uint64_t size = input_.size();
  file_bytes_ = std::max(file_bytes_, recorded == 0 ? size : std::min(recorded, size));
  bool found = false;
  while (searched_ < file_bytes_) {
    const std::uint64_t unit = searched_;
    if (claim(unit)) {
      found = true;
      continue;
    }
    if (unclaimed_.size() < kMaxUnclaimed) unclaimed_.insert(unit);
    searched_ = unit + header_.unit_bytes;
  }
  // A stream's extents become complete in their order. Here those are found that precede one which was found above.
  for (bool again = true; again;) {
    again = false;
    for (auto at = unclaimed_.begin(); at != unclaimed_.end();) {
      const std::uint64_t unit = *at;
      again |= claim(unit);
      at = unclaimed_.upper_bound(unit);
    }
    found |= again;
  }
  if (found)
    std::stable_sort(frames_.begin(), frames_.end(),
                     [](const Frames& a, const Frames& b) { return a.ordinal < b.ordinal; });
}

/// Takes the extent that begins at `at`. False: there is none.
bool GrowingIndex::claim(std::uint64_t at) {
  ExtentHeader extent;
  if (!input_.read_all(at, &extent, sizeof extent) || !is_extent(extent, header_, at)) return false;
  const std::uint64_t end = at + extent.bytes;
  unclaimed_.erase(unclaimed_.lower_bound(at), unclaimed_.lower_bound(end));
  searched_ = std::max(searched_, end);
  const std::size_t index = stream(extent.stream);
  if (extent.kind == ExtentKind::kStaging) staging_.push_back({extent, index, 0});
  if (extent.kind == ExtentKind::kFrames) {
    frames_.push_back({at + sizeof extent, end, index, extent.ordinal});
    last_ordinal_[index] = std::max(last_ordinal_[index], extent.ordinal);
  }
  return true;
}

std::size_t GrowingIndex::stream(StreamId id) {
  const auto [at, fresh] = by_id_.try_emplace(id, streams_.size());
  if (fresh) {
    streams_.emplace_back().id = id;
    last_ordinal_.push_back(0);
  }
  return at->second;
}

void GrowingIndex::copy_staging(Staging& staging) {
  std::uint64_t commit = 0;
  const std::uint64_t commit_at = staging.extent.offset + offsetof(StagingHeader, commit);
  if (input_.read_all(commit_at, &commit, sizeof commit) && commit == staging.commit) return;
  staging.commit = commit;
  copy_staging_block(input_, staging.extent, streams_[staging.stream], damage_, true);
  changed_.push_back(staging.stream);
}

/// False: there may be further frames already, which do not count yet.
bool GrowingIndex::index_frames(Frames& frames, bool ended) {
  StreamIndex& index = streams_[frames.stream];
  const bool tail_in_staging = (header_.flags & kHeaderTailNotKillSafe) == 0;
  if (tail_in_staging && !ended && !index.has_staging) return false;
  while (frames.at + sizeof(FrameHeader) <= frames.end) {
    FrameHeader header;
    if (!input_.read_all(frames.at, &header, sizeof header)) return true;
    if (!is_frame(header, header_.file_id, frames.at, frames.end)) {
      if (header.magic == 0 && !ended) return true;
      const std::uint64_t next = find_frame(input_, header_.file_id, frames.at + 8, frames.end);
      // The recorder may have completed this frame meanwhile.
      FrameHeader again;
      if (input_.read_all(frames.at, &again, sizeof again) && is_frame(again, header_.file_id, frames.at, frames.end))
        continue;
      if (next == frames.end) return true;
      damage_.damaged(frames.at, next - frames.at, "frames of stream " + std::to_string(raw(index.id)));
      frames.at = next;
      continue;
    }
    // Written after the staging block was copied, and maybe after the cut.
    if (!ended && index.has_staging && header.sequence > index.staging_sequence) return false;
    const std::uint32_t bytes = header.header_bytes + header.payload_bytes;
    index.frames.push_back({frames.at, header.first_time, header.sequence, bytes});
    frames.at = align_up(frames.at + bytes, 8);
    changed_.push_back(frames.stream);
  }
  return true;
}

}  // namespace heapprof::trace
