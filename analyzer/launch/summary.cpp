#include "analyzer/launch/summary.h"

#include "analyzer/cli/report_text.h"
#include "analyzer/render/units.h"
#include "analyzer/replay/analysis.h"

namespace heapprof::launch {

std::string summarize_trace(const std::string& path) {
  using render::exact_number;
  using render::human_bytes;
  try {
    const replay::Analysis analysis(path, {});
    const model::Profile& profile = analysis.profile();
    const model::HeapTotals& heap = profile.heap;
    std::string text = "  end    " + cli::ending_of(profile) + " after " + render::human_time(profile.recording.duration_ns) +
                       "\n  heap   " + exact_number(profile.events()) + " events, peak " + human_bytes(heap.peak_bytes) +
                       ", " + human_bytes(heap.leaked_bytes) + " in " + exact_number(heap.leaked_blocks) +
                       " blocks still live\n";
    if (!profile.integrity.complete) text += "  note   something is missing: see heapprof info\n";
    return text;
  } catch (const trace::TraceError& error) {
    return std::string("  ") + error.what() + "\n";
  }
}

}  // namespace heapprof::launch
