#include "analyzer/replay/index/snapshot_writer.h"

#include "analyzer/trace/compact/section.h"

namespace heapprof::replay {
namespace {

constexpr std::uint64_t kRecordsPerLiveBlock = 16;
constexpr int kSnapshotCompressionLevel = 3;

}  // namespace

void SnapshotWriter::after(const trace::Batch& batch, const Replay& replay) {
  if (batch.position.size() == 0) return;
  if (batch.records - last_records_ < kRecordsPerLiveBlock * replay.live_blocks()) return;
  last_records_ = batch.records;
  contents_.clear();
  contents_.number(batch.position.size());
  contents_.raw(batch.position.bytes());
  replay.save(contents_);
  if (contents_.size() > trace::kMaxSectionBytes) return;
  trace::SectionHeader header{};
  header.kind = trace::SectionKind::kSnapshot;
  header.file_id = file_id_;
  header.number = batch.records;
  header.last_time = replay.now();
  file_.append(trace::make_section(header, contents_.bytes(), kSnapshotCompressionLevel));
}

}  // namespace heapprof::replay
