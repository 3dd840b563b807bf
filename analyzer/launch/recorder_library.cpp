#include "analyzer/launch/recorder_library.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

namespace heapprof::launch {

namespace {

/// Directories of the recorder, relative to the directory of this program unless absolute.
constexpr const char* kDirectories[] = {
    "../preload",
#ifdef HEAPPROF_RECORDER_DIRECTORY
    HEAPPROF_RECORDER_DIRECTORY,  // of `meson install`
#endif
    "../lib",
#if defined(__x86_64__)
    "../lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
    "../lib/aarch64-linux-gnu",
#endif
    "../lib64",
};

/// The path of this program; empty: not known.
std::string own_file() {
  char buffer[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", buffer, sizeof buffer);
  return size <= 0 || size == sizeof buffer ? std::string() : std::string(buffer, static_cast<std::size_t>(size));
}

}  // namespace

std::string own_path() {
  const std::string path = own_file();
  return path.empty() ? "heapprof" : path;
}

bool find_recorder(std::string& path, std::string& error) {
  std::string directory = own_file();
  if (directory.empty()) {
    error = "the path of heapprof is not known: /proc/self/exe cannot be read";
    return false;
  }
  directory.resize(directory.rfind('/'));
  for (const std::string place : kDirectories) {
    const std::string candidate = (place.starts_with('/') ? place : directory + "/" + place) + "/libheapprof.so";
    char* resolved = realpath(candidate.c_str(), nullptr);
    if (resolved == nullptr) continue;
    path = resolved;
    std::free(resolved);
    if (path.find_first_of(" :") == std::string::npos) return true;
    error = "the recorder " + path +
            " cannot be preloaded: LD_PRELOAD cannot name a path with a space or a colon; move heapprof elsewhere";
    return false;
  }
  error = "libheapprof.so is missing in " + directory + "/../preload and " + directory +
          "/../lib; install heapprof again";
  return false;
}

std::string preload_list(const std::string& recorder, const std::string& before) {
  std::string list = recorder;
  for (std::size_t at = 0; at < before.size();) {
    const std::size_t end = std::min(before.find_first_of(" :", at), before.size());
    const std::string name = before.substr(at, end - at);
    if (!name.empty() && name != recorder) list += ':' + name;
    at = end + 1;
  }
  return list;
}

}  // namespace heapprof::launch
