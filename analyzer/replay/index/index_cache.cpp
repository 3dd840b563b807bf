#include "analyzer/replay/index/index_cache.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "analyzer/replay/index/index.h"

namespace heapprof::replay {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxCacheBytes = std::uint64_t{4} << 30;
constexpr std::time_t kMaxUnusedSeconds = 30 * 86400;

std::string cache_directory() {
  const char* const home = std::getenv("HOME");
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/heapprof/index";
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/heapprof/index";
  return {};
}

}  // namespace

std::string index_in_cache(const trace::TraceFile& file) { return index_in_cache(file.file_id()); }

std::string index_in_cache(std::uint64_t file_id) {
  const std::string directory = cache_directory();
  if (directory.empty()) return {};
  char name[32];
  std::snprintf(name, sizeof name, "/%016llx.idx", static_cast<unsigned long long>(file_id));
  return directory + name;
}

void remove_old_indexes() {
  struct Entry {
    std::string path;
    std::time_t used;
    std::uint64_t bytes;
  };
  std::vector<Entry> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache_directory(), error)) {
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
    if (sum > kMaxCacheBytes || now - entry.used > kMaxUnusedSeconds) ::unlink(entry.path.c_str());
  }
}

std::optional<trace::FrameList> frames_in_indexes(const trace::InputFile& input, const FileHeader& header,
                                                  std::uint64_t trace_bytes) {
  if (auto list = frames_in_index(index_beside(input), header.file_id, trace_bytes)) return list;
  return frames_in_index(index_in_cache(header.file_id), header.file_id, trace_bytes);
}

bool can_keep_index() {
  const std::string directory = cache_directory();
  if (directory.empty()) return false;
  std::error_code error;
  fs::create_directories(directory, error);
  return ::access(directory.c_str(), W_OK) == 0;
}

CachedIndexWriter::CachedIndexWriter(const trace::TraceFile& file, Replay& replay) noexcept : file_(file) {
  try {
    const std::string path = index_in_cache(file);
    if (path.empty()) return;
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    out_.emplace(path);
    write_index_header(*out_, file);
    intervals_.emplace(*out_, file, replay);
  } catch (const std::exception&) {
    out_.reset();
  }
}

void CachedIndexWriter::after(const trace::Batch& batch) noexcept {
  if (!out_ || !intervals_) return;
  try {
    intervals_->after(batch);
  } catch (const std::exception&) {
    out_.reset();
  }
}

void CachedIndexWriter::end_of_trace(std::uint64_t records) noexcept {
  if (!out_ || !intervals_) return;
  try {
    intervals_->end_of_trace(records);
  } catch (const std::exception&) {
    out_.reset();
  }
}

bool CachedIndexWriter::finish(const trace::TraceSummary& summary, const RecordingTotals& totals) noexcept {
  if (!out_) return false;
  try {
    if (intervals_) {
      intervals_->write_history(summary.records);
      intervals_->write_lives(summary.records);
    }
    write_frames(*out_, file_);
    write_totals(*out_, file_.file_id(), totals, summary.records);
    write_summary(*out_, file_.file_id(), summary);
    out_->finish();
    remove_old_indexes();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace heapprof::replay
