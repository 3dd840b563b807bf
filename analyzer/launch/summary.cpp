#include "analyzer/launch/summary.h"

#include <cstring>
#include <exception>

#include "analyzer/render/units.h"

namespace heapprof::launch {

namespace {

std::string end_text(const model::Profile& profile) {
  const model::Integrity& integrity = profile.integrity;
  const int status = integrity.end_status.value_or(0);
  if (integrity.ended_by == "exit") return integrity.end_status ? "exit status " + std::to_string(status) : "exited";
  if (integrity.ended_by == "signal") {
    const char* name = sigabbrev_np(status);
    return "killed by signal " + std::to_string(status) + (name != nullptr ? " (SIG" + std::string(name) + ")" : "");
  }
  if (integrity.ended_by == "exec") return "executed another program";
  if (integrity.ended_by == "stopped")
    return "recording stopped early: " + integrity.stop_reason.value_or("unknown why");
  return integrity.ended_by;
}

}  // namespace

std::string summarize_trace(const std::string& path, const replay::Progress& progress) {
  try {
    const replay::Analysis analysis(path, replay::Selection{}, progress);
    const model::Profile& profile = analysis.profile();
    const model::HeapTotals& heap = profile.heap;
    const auto blocks = [](std::uint64_t bytes, std::uint64_t count) {
      return render::human_bytes(bytes) + " in " + render::block_count(count);
    };
    std::string text = "  end     " + end_text(profile) + " after " +
                       render::human_time(profile.recording.duration_ns) + "\n";
    text += "  events  " + render::exact_number(heap.events()) + "\n";
    text += "  peak    " + blocks(heap.peak_bytes, heap.peak_blocks) + "\n";
    text += "  live    " + blocks(heap.leaked_bytes, heap.leaked_blocks) + " at the end\n";
    if (!profile.integrity.complete)
      text += "  damage  the trace is not complete; heapprof info says what is missing\n";
    return text;
  } catch (const std::exception& error) {
    return std::string("  ") + error.what() + "\n";
  }
}

}  // namespace heapprof::launch
