#include "analyzer/cli/commands/pinned.h"

#include <utility>

#include "analyzer/cli/text/progress_line.h"
#include "analyzer/render/units.h"
#include "analyzer/trace/files/input_file.h"

namespace heapprof::cli {

replay::LeakVisitor collect_into(std::vector<pins::PinningBlock>& blocks) {
  return [&blocks](const replay::LiveBlock& block) { blocks.push_back({block.address, block.size, block.node}); };
}

pins::PinnedMemory read_pinned_memory(const TraceOptions& options, const replay::Analysis& analysis,
                                      std::vector<pins::PinningBlock> live) {
  if (!pins::has_addresses(analysis.profile()))
    throw trace::TraceError(options.trace +
                            ": pinned memory follows from the addresses of blocks, which 'heapprof compact' replaced "
                            "by numbers; use the original recording, or one compacted with --exact");
  ProgressLine progress("Reading " + options.trace + " again");
  return pins::find_pinned_memory(analysis, std::move(live),
                                  [&](double share, std::uint64_t events) { progress.show(share, events); });
}

void refuse_moment_after_end(const TraceOptions& options, const model::Profile& profile) {
  const auto moment = parse_moment(options.texts.to);
  if (!moment || moment->percent) return;
  // Reports round the duration: half a percent more still means the end.
  const auto duration = static_cast<double>(profile.recording.duration_ns);
  if (moment->value * 1e9 > duration * 1.005)
    throw replay::SelectionError(options.trace + ": --at " + options.texts.to + " is after the recording's end at " +
                                 render::human_time(profile.recording.duration_ns) +
                                 "; give at most that, or a percentage (50%)");
}

}  // namespace heapprof::cli
