#include "analyzer/cli/text/progress_line.h"

#include <chrono>
#include <cstdio>
#include <unistd.h>

#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace

ProgressLine::ProgressLine(const std::string& what)
    : what_(render::clip_utf8(render::clean_utf8(what), 40)), started_ns_(now_ns()),
      next_ns_(started_ns_ + 1'000'000'000), terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void ProgressLine::show(double share, std::uint64_t events) {
  if (!terminal_) return;
  if (share >= 1) {
    if (shown_) std::fputs("\r\x1b[K", stderr);
    shown_ = false;
    return;
  }
  const std::uint64_t now = now_ns();
  if (now < next_ns_) return;
  next_ns_ = now + 200'000'000;
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
