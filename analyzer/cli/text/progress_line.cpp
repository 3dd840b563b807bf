// `serve` shows the progress of the commands that it runs (analyzer/serve/child_process.h). It sets
// HEAPPROF_PROGRESS=lines, and gets lines that begin at once: the ASCII character 30, the share in thousandths, the
// number of events, and what is being done.
#include "analyzer/cli/text/progress_line.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

bool wants_lines() {
  static const bool wanted = [] {
    const char* const form = std::getenv("HEAPPROF_PROGRESS");
    return form != nullptr && std::string_view(form) == "lines";
  }();
  return wanted;
}

}  // namespace

ProgressLine::ProgressLine(const std::string& what)
    : what_(render::clip_utf8(render::clean_utf8(what), 40)), started_ns_(now_ns()),
      next_ns_(started_ns_ + (wants_lines() ? 0 : 1'000'000'000)), terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void ProgressLine::show(double share, std::uint64_t events) {
  if (!terminal_ && !wants_lines()) return;
  if (share >= 1) {
    if (shown_) std::fputs("\r\x1b[K", stderr);
    shown_ = false;
    return;
  }
  const std::uint64_t now = now_ns();
  if (now < next_ns_) return;
  next_ns_ = now + 200'000'000;
  if (wants_lines()) {
    std::fprintf(stderr, "\x1e%.0f %llu %s\n", share * 1000, static_cast<unsigned long long>(events), what_.c_str());
    return;
  }
  shown_ = true;
  const double seconds = static_cast<double>(now - started_ns_) / 1e9;
  constexpr int kCells = 20;
  const int full = static_cast<int>(share * kCells);
  std::fprintf(stderr, "\r%s  [%.*s%*s] %3.0f%%  %.1f M events, %.1f M/s", what_.c_str(), full,
               "####################", kCells - full, "", share * 100, static_cast<double>(events) / 1e6,
               static_cast<double>(events) / 1e6 / seconds);
  if (share > 0.01) std::fprintf(stderr, ", %.0f s left", seconds / share - seconds + 0.5);
  std::fputs("\x1b[K", stderr);
  std::fflush(stderr);
}

}  // namespace heapprof::cli
