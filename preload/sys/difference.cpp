#include "preload/sys/difference.h"

#include "preload/base/text.h"
#include "preload/sys/kernel.h"

namespace heapprof::sys {

namespace {

// tools/campaign/python_tests.py finds the line by this text.
constexpr char kBegin[] = "heapprof: difference: ";

constinit const char* g_file = "";

}  // namespace

void append_differences_to(const char* path) noexcept { g_file = path; }

void report_difference(const char* what) noexcept {
  char buffer[256];
  Text line(buffer);
  line.add(kBegin).add(what).add('\n');
  constexpr int kStandardError = 2;
  int fd = kStandardError;
  if (g_file[0] != '\0') {
    // As recorder/process/log.cpp opens it.
    fd = open(g_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (failed(fd)) fd = kStandardError;
  }
  // One call, so that the lines of several processes are not mixed.
  write(fd, line.c_str(), line.length());
  __builtin_trap();
}

}  // namespace heapprof::sys
