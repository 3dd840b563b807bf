#include "analyzer/replay/index/index.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "analyzer/replay/batch_pump.h"
#include "common/checksum.h"

namespace heapprof::replay {
namespace {

namespace fs = std::filesystem;
using trace::ByteReader;
using trace::ByteWriter;
using trace::FormatError;
using trace::Section;
using trace::SectionHeader;
using trace::SectionKind;

struct IndexHeader {
  unsigned char magic[8];
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t file_id;
  std::uint64_t trace_bytes;
  std::uint64_t fingerprint;
  std::uint64_t checksum;
};
static_assert(sizeof(IndexHeader) == 48);

constexpr unsigned char kIndexMagic[8] = {0x89, 'H', 'P', 'R', 'X', '\r', '\n', 0x1a};
constexpr std::uint32_t kIndexVersion = 1;
constexpr std::uint64_t kRecordsPerLiveBlock = 16;
constexpr int kSnapshotLevel = 3;
constexpr int kWholeLevel = 9;
constexpr std::uint64_t kCacheBytes = std::uint64_t{4} << 30;
constexpr std::time_t kCacheSeconds = 30 * 86400;

std::string cache_folder() {
  const char* const home = std::getenv("HOME");
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/heapprof/index";
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/heapprof/index";
  return {};
}

}  // namespace

trace::Whole whole_of(const trace::MergedReader& reader, const Replay& replay) {
  trace::Whole whole;
  whole.definitions = reader.definitions();
  whole.node_ids = reader.node_ids();
  whole.damage = reader.damage();
  whole.clock = replay.clock();
  whole.last_time = replay.last_time();
  whole.records = reader.records();
  whole.events = replay.heap().events();
  whole.bad_events = replay.bad_events();
  whole.unfinished = replay.unfinished();
  whole.paused_once = replay.paused_once();
  return whole;
}

void SnapshotWriter::after(const trace::Batch& batch, const Replay& replay) {
  if (batch.position.size() == 0) return;
  if (batch.records - last_records_ < kRecordsPerLiveBlock * replay.live_blocks()) return;
  last_records_ = batch.records;
  state_.clear();
  state_.number(batch.position.size());
  state_.raw(batch.position.bytes());
  replay.save(state_);
  if (state_.size() > trace::kMaxSectionBytes) return;
  SectionHeader header{};
  header.kind = SectionKind::kSnapshot;
  header.file_id = file_id_;
  header.number = batch.records;
  header.last_time = replay.now();
  file_.append(trace::make_section(header, state_.bytes(), kSnapshotLevel));
  ++snapshots_;
}

void write_index_header(trace::NewFile& out, const trace::TraceFile& file) {
  IndexHeader header{};
  std::memcpy(header.magic, kIndexMagic, sizeof header.magic);
  header.version = kIndexVersion;
  header.file_id = file.file_id();
  header.trace_bytes = file.bytes();
  header.fingerprint = file.fingerprint();
  header.checksum = checksum(&header, offsetof(IndexHeader, checksum));
  out.append({reinterpret_cast<const std::uint8_t*>(&header), sizeof header});
}

void write_whole(trace::NewFile& out, std::uint64_t file_id, const trace::Whole& whole) {
  ByteWriter bytes;
  trace::save(whole, bytes);
  SectionHeader header{};
  header.kind = SectionKind::kWhole;
  header.file_id = file_id;
  header.number = whole.records;
  header.last_time = whole.last_time;
  out.append(trace::make_section(header, bytes.bytes(), kWholeLevel));
}

std::unique_ptr<Replay> add_index(trace::NewFile& out, const trace::TraceFile& file, std::uint64_t interval,
                                  const std::function<void(const trace::Batch&)>& each) {
  trace::MergedReader reader(file);
  auto replay = std::make_unique<Replay>(file, Selection{});
  SnapshotWriter snapshots(out, file.file_id());
  reader.give_positions(interval);
  pump(reader, file.frame_bytes(), [&](trace::Batch& batch) {
    const bool goes_on = replay->replay(batch);
    snapshots.after(batch, *replay);
    if (each) each(batch);
    return goes_on;
  });
  replay->finish(end_ticks(file, replay->clock()));
  write_whole(out, file.file_id(), whole_of(reader, *replay));
  return replay;
}

std::uint64_t end_ticks(const trace::TraceFile& file, const trace::TickClock& clock) {
  if (file.cut_ticks() != trace::kNoCut) return file.cut_ticks();
  const FileHeader& header = file.header();
  if (header.end_kind == EndKind::kNone) return 0;
  // The mark is not under the header's checksum: a year is more than anybody records.
  constexpr std::uint64_t kYearNs = std::uint64_t{366} * 86400 * 1'000'000'000;
  return clock.to_ns(header.end_ticks) < kYearNs ? header.end_ticks : 0;
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
      throw FormatError("is no index that this heapprof can read");
    if (header.file_id != file.file_id() || header.trace_bytes != file.bytes() ||
        header.fingerprint != file.fingerprint())
      throw FormatError("is the index of another trace, or the trace has changed since");
    index.table_ = trace::walk_sections(*index.input_, file.file_id(), sizeof header, index.input_->size());
    if (index.table_.wholes.empty()) throw FormatError("is not complete");
    const std::vector<std::uint8_t> contents = trace::read_contents(*index.input_, index.table_.wholes.back());
    ByteReader in(contents);
    index.whole_ = std::make_shared<const trace::Whole>(trace::load_whole(in, file.header()));
    return index;
  } catch (const FormatError& error) {
    why_not = path + ": " + error.what() + "; not used";
  } catch (const trace::TraceError& error) {
    why_not = std::string(error.what()) + "; not used";
  }
  return std::nullopt;
}

Index Index::inside(const trace::TraceFile& file) {
  Index index;
  index.input_ = std::make_shared<const trace::InputFile>(file.input().path());
  index.whole_ = file.compacted()->whole;
  index.table_ = file.compacted()->sections;
  return index;
}

std::vector<std::uint8_t> Index::snapshot_before(std::uint64_t ticks) const {
  const Section* best = nullptr;
  for (const Section& snapshot : table_.snapshots)
    if (snapshot.header.last_time < ticks && (best == nullptr || snapshot.header.number > best->header.number))
      best = &snapshot;
  if (best == nullptr) return {};
  return trace::read_contents(*input_, *best);
}

Restart parse_snapshot(std::span<const std::uint8_t> contents) {
  ByteReader in(contents);
  const std::size_t position_bytes = in.count();
  const std::span<const std::uint8_t> position = in.raw(position_bytes);
  return {position, in.raw(in.left())};
}

CachedIndex::CachedIndex(const trace::TraceFile& file) noexcept : file_(file) {
  try {
    const std::string path = index_in_cache(file);
    if (path.empty()) return;
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    out_.emplace(path);
    write_index_header(*out_, file);
    snapshots_.emplace(*out_, file.file_id());
  } catch (const std::exception&) {
    out_.reset();
  }
}

void CachedIndex::after(const trace::Batch& batch, const Replay& replay) noexcept {
  if (!out_) return;
  try {
    snapshots_->after(batch, replay);
  } catch (const std::exception&) {
    out_.reset();
  }
}

bool CachedIndex::finish(const trace::Whole& whole) noexcept {
  if (!out_) return false;
  try {
    write_whole(*out_, file_.file_id(), whole);
    out_->finish();
    tidy_index_cache();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::string index_beside(const trace::TraceFile& file) { return file.input().path() + ".idx"; }

std::string index_in_cache(const trace::TraceFile& file) {
  const std::string folder = cache_folder();
  if (folder.empty()) return {};
  char name[32];
  std::snprintf(name, sizeof name, "/%016llx.idx", static_cast<unsigned long long>(file.file_id()));
  return folder + name;
}

void tidy_index_cache() {
  struct Entry {
    std::string path;
    std::time_t used;
    std::uint64_t bytes;
  };
  std::vector<Entry> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache_folder(), error)) {
    struct stat status {};
    if (::lstat(entry.path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    entries.push_back(
        {entry.path(), std::max(status.st_atime, status.st_mtime), static_cast<std::uint64_t>(status.st_size)});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used > b.used; });
  const std::time_t now = std::time(nullptr);
  std::uint64_t sum = 0;
  for (const Entry& entry : entries) {
    sum += entry.bytes;
    if (sum > kCacheBytes || now - entry.used > kCacheSeconds) ::unlink(entry.path.c_str());
  }
}

}  // namespace heapprof::replay
