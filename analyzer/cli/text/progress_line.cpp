// `serve` shows the progress of the commands that it runs (analyzer/serve/child_process.h). It sets
// HEAPPROF_PROGRESS=lines, and gets lines that begin at once: the ASCII character 30, and a JSON object with what is
// being done, the share, the number of events, and the sums so far.
#include "analyzer/cli/text/progress_line.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
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

ProgressLine::~ProgressLine() { end(); }

void ProgressLine::end() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
  shown_ = false;
}

void ProgressLine::show(const replay::Done& done) {
  if (!terminal_ && !wants_lines()) return;
  if (done.share >= 1) return end();
  const std::uint64_t now = now_ns();
  if (now < next_ns_) return;
  next_ns_ = now + 200'000'000;
  if (wants_lines()) {
    nlohmann::ordered_json line{{"what", what_}, {"share", done.share}, {"events", done.records}};
    if (done.sums)
      line["so_far"] = {{"time_ns", done.sums->time_ns},         {"live_bytes", done.sums->live_bytes},
                        {"live_blocks", done.sums->live_blocks}, {"peak_bytes", done.sums->peak_bytes},
                        {"allocations", done.sums->allocations}, {"allocated_bytes", done.sums->allocated_bytes}};
    std::fprintf(stderr, "\x1e%s\n",
                 line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace).c_str());
    return;
  }
  shown_ = true;
  const auto events = static_cast<double>(done.records);
  const double seconds = static_cast<double>(now - started_ns_) / 1e9;
  constexpr int kCells = 20;
  const int full = static_cast<int>(done.share * kCells);
  std::fprintf(stderr, "\r%s  [%.*s%*s] %3.0f%%  %.1f M events, %.1f M/s", what_.c_str(), full,
               "####################", kCells - full, "", done.share * 100, events / 1e6, events / 1e6 / seconds);
  if (done.share > 0.01) std::fprintf(stderr, ", %.0f s left", seconds / done.share - seconds + 0.5);
  std::fputs("\x1b[K", stderr);
  std::fflush(stderr);
}

}  // namespace heapprof::cli
