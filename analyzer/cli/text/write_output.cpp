#include "analyzer/cli/text/write_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace heapprof::cli {

void write_output(const std::string& path, const std::string& text) {
  const bool standard = path == "-";
  std::FILE* const file = standard ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) throw OutputError(path + ": cannot be written: " + std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  const int error = errno;
  const bool closed = standard || std::fclose(file) == 0;
  if (!written || !closed)
    throw OutputError((standard ? std::string("standard output") : path) +
                      ": cannot be written: " + std::strerror(written ? errno : error));
}

}  // namespace heapprof::cli
