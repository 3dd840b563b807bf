#include "analyzer/cli/options/newest_trace.h"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace heapprof::cli {
namespace {

/// Reads the beginning of a regular file. Other files are not opened, since a pipe would block.
bool read_beginning(const std::string& path, void* bytes, std::size_t size) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  std::ifstream in(path, std::ios::binary);
  return static_cast<bool>(in.read(static_cast<char*>(bytes), static_cast<std::streamsize>(size)));
}

/// Whether both headers were written by one process.
bool same_process(const FileHeader& a, const FileHeader& b) {
  return a.pid == b.pid && a.process_start == b.process_start && a.pid_namespace == b.pid_namespace &&
         std::memcmp(a.boot_id, b.boot_id, sizeof a.boot_id) == 0;
}

}  // namespace

bool is_trace(const std::string& path) {
  char magic[sizeof kFileMagic] = {};
  return read_beginning(path, magic, sizeof magic) && std::memcmp(magic, kFileMagic, sizeof magic) == 0;
}

bool is_named_as_trace(const std::string& path) {
  std::string_view name = path;
  if (const std::size_t digits = name.find_last_not_of("0123456789");
      digits != std::string_view::npos && digits + 1 < name.size() && name[digits] == '.')
    name = name.substr(0, digits);
  return name.ends_with(".hprof") || name.ends_with(".heapprof");
}

NewestTrace find_newest_trace(const std::string& directory) {
  NewestTrace newest;
  timespec newest_time{};
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    const std::string path = directory == "." ? name : entry->path().string();
    struct stat status {};
    if (!is_named_as_trace(name) || !is_trace(path) || ::stat(path.c_str(), &status) != 0) continue;
    ++newest.count;
    const timespec time = status.st_mtim;
    const bool later =
        time.tv_sec != newest_time.tv_sec ? time.tv_sec > newest_time.tv_sec : time.tv_nsec > newest_time.tv_nsec;
    // If two have the same time, the greater name is chosen, whatever the order in the directory.
    const bool equal = time.tv_sec == newest_time.tv_sec && time.tv_nsec == newest_time.tv_nsec;
    if (!newest.path.empty() && !later && !(equal && path > newest.path)) continue;
    newest.path = path;
    newest_time = time;
  }
  return newest;
}

std::string find_last_trace_of_process(const std::string& path, const FileHeader& header) {
  const std::filesystem::path file(path);
  const std::string prefix = file.filename().string() + ".";
  std::string last;
  std::uint64_t last_start_ns = header.start_monotonic_ns;
  std::error_code error;
  std::filesystem::directory_iterator entry(file.has_parent_path() ? file.parent_path() : ".", error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!is_named_as_trace(name) && !name.starts_with(prefix)) continue;
    const std::string other = file.has_parent_path() ? entry->path().string() : name;
    FileHeader read;
    if (!read_beginning(other, &read, sizeof read) || std::memcmp(read.magic, kFileMagic, sizeof kFileMagic) != 0 ||
        !same_process(read, header) || read.start_monotonic_ns <= last_start_ns)
      continue;
    last = other;
    last_start_ns = read.start_monotonic_ns;
  }
  return last;
}

}  // namespace heapprof::cli
