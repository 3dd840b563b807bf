// Makes this process the recorded process of a trace that a test writes.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "common/trace_format.h"

namespace heapprof::test {

/// The reader reports "running" only if the process also has the file mapped.
inline void claim_to_be_running(FileHeader& header) {
  header.pid = static_cast<std::uint32_t>(::getpid());
  std::ifstream in("/proc/self/stat");
  std::string line;
  std::getline(in, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int number = 3; number < 22; ++number) fields >> field;
  fields >> header.process_start;
  struct stat pid_namespace {};
  if (::stat("/proc/self/ns/pid", &pid_namespace) == 0) header.pid_namespace = pid_namespace.st_ino;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  boot >> id;
  std::size_t digits = 0;
  for (const char c : id) {
    if (c == '-') continue;
    header.boot_id[digits / 2] =
        static_cast<unsigned char>(header.boot_id[digits / 2] << 4 | std::stoi(std::string(1, c), nullptr, 16));
    ++digits;
  }
}

}  // namespace heapprof::test
