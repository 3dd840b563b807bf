// heapprof blocks: the single blocks that are live at a moment, or left over at the end.
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/commands/where_memory_went/blocks_output.h"
#include "analyzer/cli/text/write_output.h"
#include "common/trace_format.h"

namespace heapprof::cli {
namespace {

/// Whether the selection's kind counts the mapping: address space without access counts nowhere, and what an
/// allocator requested is counted as blocks already.
bool counts(const replay::LiveMapping& mapping, model::Kind kind) noexcept {
  if ((mapping.flags & kMapReserve) != 0 || mapping.before_slice) return false;
  return kind == model::Kind::kMmap || (mapping.flags & kMapFromAllocator) == 0;
}

}  // namespace

int run_blocks(const BlocksOptions& options) {
  TraceOptions trace = options.trace;
  trace.selection.only_live = true;
  const model::Kind kind = trace.selection.kind;
  views::BlockPage page(options.order, options.skip, options.top);
  const auto add_block = [&](const replay::LiveBlock& block) {
    if (kind != model::Kind::kMmap) page.add({block.time_ns, block.address, block.size, block.node, block.thread});
  };
  const auto add_mapping = [&](const replay::LiveMapping& mapping) {
    if (kind != model::Kind::kHeap && counts(mapping, kind))
      page.add({views::kUnknownTime, mapping.begin, mapping.end - mapping.begin, mapping.node, mapping.thread});
  };
  const auto print = [&](const replay::Analysis& analysis) {
    const model::Profile& profile = analysis.profile();
    StackNames names(profile, trace.symbols);
    names.resolve(nodes_of_findings(profile));
    const Findings findings(profile, names, options.call_sites);
    const BlockList list{options,    profile,    names, findings, profile.live_at_ns.value_or(profile.end_ns()),
                         page.all(), page.take()};
    if (trace.json) write_blocks_json(list);
    else if (options.csv) write_blocks_csv(list);
    else write_output(trace.output, blocks_text(list));
  };
  return run_on_trace(trace, print, add_block, add_mapping);
}

}  // namespace heapprof::cli
