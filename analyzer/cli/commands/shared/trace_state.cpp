#include "analyzer/cli/commands/shared/trace_state.h"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/replay/index/index.h"
#include "analyzer/replay/index/index_cache.h"
#include "analyzer/trace/mailbox.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::cli {

bool is_running(const std::string& path) {
  if (!is_trace(path)) return false;  // a reader of headers waits for an empty file to become a trace
  try {
    const trace::Mailbox mailbox(path);
    return mailbox.recorder() == trace::RecorderState::kRecording && mailbox.end_kind() != EndKind::kStopped;
  } catch (const trace::TraceError&) {
    return false;
  }
}

std::string state_of(const std::string& path) {
  struct stat status {};
  if (is_running(path) || ::stat(path.c_str(), &status) != 0) return {};
  std::ostringstream text;
  text << status.st_dev << ' ' << status.st_ino << ' ' << status.st_size << ' ' << status.st_mtim.tv_sec << ' '
       << status.st_mtim.tv_nsec << ' ' << status.st_ctim.tv_sec << ' ' << status.st_ctim.tv_nsec;
  return text.str();
}

std::vector<std::string> index_words(const std::string& path, std::uint64_t min_bytes) {
  // Opening a trace takes 0.15 s for each GB, in which no other client is answered. With an index, the command ends
  // after about the same time.
  constexpr std::uintmax_t kMaxOpenedHere = std::uintmax_t{1} << 30;
  // A question about a range of time leaves an index of a large recording.
  std::vector<std::string> words = {"report", "--json", "--top=1", "--no-symbols", "--from=start", "--", path};
  std::error_code error;
  if (const std::uintmax_t bytes = std::filesystem::file_size(path, error); !error && bytes > kMaxOpenedHere)
    return words;
  try {
    const trace::TraceFile file(path);
    std::string why_not;
    const std::string in_cache = replay::index_in_cache(file);
    if (file.recorder() == trace::RecorderState::kRecording || file.compacted() != nullptr ||
        file.frame_bytes() < min_bytes || in_cache.empty() ||
        replay::Index::open(replay::index_beside(file), file, why_not) ||
        replay::Index::open(in_cache, file, why_not))
      return {};
    if (file.frame_bytes() >= replay::kMinBytesForIndex) return words;
    if (!replay::can_keep_index()) return {};
    return {"index", "--output=" + in_cache, "--", path};
  } catch (const trace::TraceError&) {
    return {};
  }
}

}  // namespace heapprof::cli
