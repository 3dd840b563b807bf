#include "analyzer/cli/newest_trace.h"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "common/trace_format.h"

namespace heapprof::cli {

bool is_trace(const std::string& path) {
  struct stat status {};
  // A pipe would block.
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  char magic[sizeof kFileMagic] = {};
  std::ifstream in(path, std::ios::binary);
  return in.read(magic, sizeof magic) && std::memcmp(magic, kFileMagic, sizeof magic) == 0;
}

bool named_as_trace(const std::string& path) {
  std::string_view name = path;
  if (const std::size_t digits = name.find_last_not_of("0123456789");
      digits != std::string_view::npos && digits + 1 < name.size() && name[digits] == '.')
    name = name.substr(0, digits);
  return name.ends_with(".hprof") || name.ends_with(".heapprof");
}

NewestTrace find_newest_trace(const std::string& folder) {
  NewestTrace newest;
  timespec newest_time{};
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    const std::string path = folder == "." ? name : entry->path().string();
    struct stat status {};
    if (!named_as_trace(name) || !is_trace(path) || ::stat(path.c_str(), &status) != 0) continue;
    ++newest.count;
    const timespec time = status.st_mtim;
    const bool later = time.tv_sec != newest_time.tv_sec ? time.tv_sec > newest_time.tv_sec
                                                         : time.tv_nsec > newest_time.tv_nsec;
    // Of two with one time the order of the folder must not decide.
    const bool equal = time.tv_sec == newest_time.tv_sec && time.tv_nsec == newest_time.tv_nsec;
    if (!newest.path.empty() && !later && !(equal && path > newest.path)) continue;
    newest.path = path;
    newest_time = time;
  }
  return newest;
}

}  // namespace heapprof::cli
