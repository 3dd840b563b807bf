#include "analyzer/replay/index/index.h"

#include <cstddef>
#include <cstring>
#include <unistd.h>

#include "analyzer/replay/batch_pump.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/summarize.h"
#include "analyzer/trace/merged_reader.h"
#include "common/checksum.h"

namespace heapprof::replay {
namespace {

struct IndexHeader {
  unsigned char magic[8];
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t file_id;  ///< of the trace
  std::uint64_t trace_bytes;
  std::uint64_t fingerprint;  ///< TraceFile::fingerprint()
  std::uint64_t checksum;     ///< of all bytes before it
};
static_assert(sizeof(IndexHeader) == 48);

constexpr unsigned char kIndexMagic[8] = {0x89, 'H', 'P', 'R', 'X', '\r', '\n', 0x1a};
constexpr std::uint32_t kIndexVersion = 1;
constexpr int kSummaryLevel = 9;

}  // namespace

void write_index_header(AtomicFile& out, const trace::TraceFile& file) {
  IndexHeader header{};
  std::memcpy(header.magic, kIndexMagic, sizeof header.magic);
  header.version = kIndexVersion;
  header.file_id = file.file_id();
  header.trace_bytes = file.bytes();
  header.fingerprint = file.fingerprint();
  header.checksum = checksum(&header, offsetof(IndexHeader, checksum));
  out.append({reinterpret_cast<const std::uint8_t*>(&header), sizeof header});
}

void write_summary(AtomicFile& out, std::uint64_t file_id, const trace::TraceSummary& summary) {
  trace::ByteWriter bytes;
  trace::save(summary, bytes);
  trace::SectionHeader header{};
  header.kind = trace::SectionKind::kSummary;
  header.file_id = file_id;
  header.number = summary.records;
  header.last_time = summary.last_time;
  out.append(trace::make_section(header, bytes.bytes(), kSummaryLevel));
}

void add_index(AtomicFile& out, const trace::TraceFile& file, std::uint64_t interval,
               const std::function<void(const trace::Batch&)>& each) {
  trace::MergedReader reader(file);
  Replay replay(file, Selection{});
  SnapshotWriter snapshots(out, file.file_id());
  reader.give_positions(interval);
  pump(reader, file.frame_bytes(), [&](trace::Batch& batch) {
    const bool more_needed = replay.replay(batch);
    snapshots.after(batch, replay);
    if (each) each(batch);
    return more_needed;
  });
  replay.finish(end_ticks(file, replay.clock()));
  write_summary(out, file.file_id(), summary_of(reader, replay));
}

std::optional<Index> Index::open(const std::string& path, const trace::TraceFile& file, std::string& why_not) {
  why_not.clear();
  if (path.empty() || ::access(path.c_str(), F_OK) != 0) return std::nullopt;
  try {
    Index index;
    index.input_ = std::make_shared<const trace::InputFile>(path);
    IndexHeader header{};
    if (!index.input_->read_all(0, &header, sizeof header) ||
        std::memcmp(header.magic, kIndexMagic, sizeof header.magic) != 0 || header.version != kIndexVersion ||
        header.checksum != checksum(&header, offsetof(IndexHeader, checksum)))
      throw trace::FormatError("is not an index that this heapprof can read");
    if (header.file_id != file.file_id() || header.trace_bytes != file.bytes() ||
        header.fingerprint != file.fingerprint())
      throw trace::FormatError("is the index of another trace, or the trace has changed since");
    index.table_ = trace::walk_sections(*index.input_, file.file_id(), sizeof header, index.input_->size());
    if (index.table_.summaries.empty()) throw trace::FormatError("is not complete");
    const std::vector<std::uint8_t> contents = trace::read_contents(*index.input_, index.table_.summaries.back());
    trace::ByteReader in(contents);
    index.summary_ = std::make_shared<const trace::TraceSummary>(trace::load_summary(in, file.header()));
    return index;
  } catch (const trace::FormatError& error) {
    why_not = path + ": " + error.what() + "; the index is not used";
  } catch (const trace::TraceError& error) {
    why_not = std::string(error.what()) + "; the index is not used";
  }
  return std::nullopt;
}

Index Index::inside(const trace::TraceFile& file) {
  Index index;
  index.input_ = std::make_shared<const trace::InputFile>(file.input().path());
  index.summary_ = file.compacted()->summary;
  index.table_ = file.compacted()->sections;
  return index;
}

std::vector<std::uint8_t> Index::snapshot_before(std::uint64_t ticks) const {
  const trace::Section* best = nullptr;
  for (const trace::Section& snapshot : table_.snapshots)
    if (snapshot.header.last_time < ticks && (best == nullptr || snapshot.header.number > best->header.number))
      best = &snapshot;
  if (best == nullptr) return {};
  return trace::read_contents(*input_, *best);
}

std::string index_beside(const trace::TraceFile& file) { return file.input().path() + ".idx"; }

}  // namespace heapprof::replay
