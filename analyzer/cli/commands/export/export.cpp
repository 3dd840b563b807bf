// heapprof export: the trace in the format of another program.
//
// Formats of sums are written from the profile. Formats of single blocks or events (heaptrack, dhat, firefox, ndjson,
// csv) replay the trace a second time and contain heap blocks only, no mappings.
#include <functional>
#include <numeric>
#include <unistd.h>
#include <utility>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/export/export_sqlite.h"
#include "analyzer/cli/commands/export/export_stack_rows.h"
#include "analyzer/cli/commands/export/named_stacks.h"
#include "analyzer/cli/commands/shared/merged_recordings.h"
#include "analyzer/cli/commands/shared/pinned.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/export/callgrind.h"
#include "analyzer/export/dhat.h"
#include "analyzer/export/firefox.h"
#include "analyzer/export/heaptrack_writer.h"
#include "analyzer/export/massif.h"
#include "analyzer/export/perfetto.h"
#include "analyzer/export/pprof.h"
#include "analyzer/export/rows.h"
#include "analyzer/export/sink.h"
#include "analyzer/export/speedscope.h"
#include "analyzer/export/stack_table.h"
#include "analyzer/pins/pin_groups.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using exporter::Sink;
using exporter::StackTable;

void export_heaptrack(const ExportOptions& options, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 1; node < profile.nodes.size(); ++node)
    if (profile.nodes[node].costs.allocations != 0) nodes.push_back(node);
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes);

  exporter::Sink output(options.trace.output);
  exporter::HeaptrackWriter::Header header;
  header.command = render::clean_utf8(command_of(profile));
  const long page = ::sysconf(_SC_PAGESIZE);
  if (page > 0) header.page_bytes = static_cast<std::uint64_t>(page);
  exporter::HeaptrackWriter writer(output, header);

  // One instruction per address of the profile. The writer requests each once, at its first use.
  std::vector<exporter::HeaptrackStacks::Node> tree(profile.nodes.size());
  std::vector<std::uint32_t> node_of_address(profile.addresses.size(), 0);
  for (std::uint32_t node = 1; node < profile.nodes.size(); ++node) {
    const model::CallNode& call = profile.nodes[node];
    tree[node].parent = call.parent == 0 ? exporter::HeaptrackStacks::kNoParent : call.parent;
    tree[node].ip = call.address == model::kNoIndex ? exporter::HeaptrackStacks::kNoIp : call.address;
    if (call.address != model::kNoIndex) node_of_address[call.address] = node;
  }
  tree[0].ip = exporter::HeaptrackStacks::kNoIp;
  std::vector<Frame> frames;
  std::string module;
  std::vector<exporter::HeaptrackFrame> views;
  exporter::HeaptrackStacks stacks(writer, tree, [&](std::uint32_t ip) {
    frames = names.frames_of_node(node_of_address[ip]);
    module = render::clean_utf8(frames.front().module->path);
    views.clear();
    for (Frame& frame : frames) {
      if (frame.function.empty()) continue;
      frame.function = render::clean_utf8(frame.function);
      frame.file = render::clean_utf8(frame.file);
      views.push_back({frame.function, frame.file, frame.line > 0 ? static_cast<std::uint32_t>(frame.line) : 0});
    }
    return exporter::HeaptrackStacks::Instruction{frames.front().address, module, views};
  });

  ProgressLine progress("Writing " + options.trace.output);
  std::uint64_t resident = 0;
  analysis.for_each_event(
      [&](std::span<const replay::ProfileEvent> events) {
        for (const replay::ProfileEvent& event : events) {
          writer.set_time(event.time_ns);
          switch (event.kind) {
            case replay::ResolvedKind::kAllocation: writer.allocation(event.size, stacks.trace(event.node)); break;
            case replay::ResolvedKind::kFree: writer.deallocation(event.size, stacks.trace(event.node)); break;
            case replay::ResolvedKind::kSample:
              resident = event.size;
              writer.resident(resident);
              break;
          }
        }
      },
      [&](const replay::Done& done) { progress.show(done); });
  writer.finish(profile.end_ns(), resident);
  if (!output.close()) throw OutputError(output.error());
}

using Writer = std::function<void(const ExportOptions&, const StackTable&, const exporter::EventSource&, Sink&)>;

/// How a format other than heaptrack's is written.
struct FormatWriter {
  Writer write;
  Sink::Compression compression = Sink::Compression::kByName;
};

FormatWriter writer_of(ExportOptions::Format format) {
  using Format = ExportOptions::Format;
  using Source = exporter::EventSource;
  switch (format) {
    case Format::kHeaptrack:
    case Format::kSqlite:
    case Format::kRows: break;
    case Format::kPprof:
      return {
          [](const ExportOptions&, const StackTable& table, const Source&, Sink& out) { write_pprof(table, out); },
          Sink::Compression::kGzip};
    case Format::kSpeedscope:
      return {[](const ExportOptions&, const StackTable& table, const Source&, Sink& out) {
        write_speedscope(table, out);
      }};
    case Format::kMassif:
      return {[](const ExportOptions&, const StackTable& table, const Source& source, Sink& out) {
        write_massif(table, source, out);
      }};
    case Format::kDhat:
      return {[](const ExportOptions&, const StackTable& table, const Source& source, Sink& out) {
        write_dhat(table, source, out);
      }};
    case Format::kCallgrind:
      return {[](const ExportOptions&, const StackTable& table, const Source&, Sink& out) {
        write_callgrind(table, out);
      }};
    case Format::kFirefox:
      return {[](const ExportOptions&, const StackTable& table, const Source& source, Sink& out) {
        write_firefox(table, source, out);
      }};
    case Format::kPerfetto:
      return {[](const ExportOptions&, const StackTable& table, const Source&, Sink& out) {
        write_perfetto(table, out);
      }};
    case Format::kNdjson:
      return {[](const ExportOptions& options, const StackTable& table, const Source& source, Sink& out) {
        write_rows(table, source, options.rows, exporter::RowFormat::kNdjson, out);
      }};
    case Format::kCsv:
      return {[](const ExportOptions& options, const StackTable& table, const Source& source, Sink& out) {
        write_rows(table, source, options.rows, exporter::RowFormat::kCsv, out);
      }};
  }
  return {};
}

/// `analysis` is null for several recordings, whose formats have no events.
void export_format(const ExportOptions& options, const model::Profile& profile, const replay::Analysis* analysis) {
  const FormatWriter format = writer_of(options.format);
  const StackTable table = stacks_with_names(profile, options.trace.symbols);
  Sink output(options.trace.output, format.compression);
  ProgressLine progress("Writing " + options.trace.output);
  const exporter::EventSource source = [&](const auto& sink) {
    analysis->for_each_event(sink, [&](const replay::Done& done) { progress.show(done); }, {.of_kind = true});
  };
  format.write(options, table, source, output);
  if (!output.close()) throw OutputError(output.error());
  const model::Costs& totals = profile.totals;
  if (options.rows == exporter::Rows::kBlocks && totals.leaked_blocks == 0 && !totals.empty())
    print_message(options.trace.trace + ": the output has no rows: no block was live at the end");
}

/// Stacks are not grouped: who reads the rows has their frames.
void export_pinned(const ExportOptions& options, const replay::Analysis& analysis,
                   std::vector<pins::PinningBlock> live) {
  const pins::PinnedMemory memory = read_pinned_memory(options.trace, analysis, std::move(live));
  const std::vector<pins::LiveSum>& by_node = memory.kept.by_node;
  std::vector<std::uint32_t> group_of_node(by_node.size());
  std::iota(group_of_node.begin(), group_of_node.end(), std::uint32_t{0});
  std::vector<exporter::PinnedRow> rows;
  for (const pins::PinGroup& one : pins::rank_groups(memory.kept.sets, by_node, group_of_node, by_node.size()))
    rows.push_back({one.group, one.alone_bytes, one.shared_bytes, one.overhead_bytes, one.live.requested_bytes,
                    one.live.usable_bytes, one.live.blocks});
  const StackTable table = stacks_with_names(analysis.profile(), options.trace.symbols);
  Sink output(options.trace.output, Sink::Compression::kByName);
  const bool csv = options.format == ExportOptions::Format::kCsv;
  exporter::write_pinned_rows(table, rows, csv ? exporter::RowFormat::kCsv : exporter::RowFormat::kNdjson, output);
  if (!output.close()) throw OutputError(output.error());
}

}  // namespace

int run_export(const ExportOptions& options) {
  if (options.format == ExportOptions::Format::kSqlite) return run_export_sqlite(options);
  if (options.format == ExportOptions::Format::kRows) return run_export_stack_rows(options);
  if (options.rows == exporter::Rows::kPinned) {
    return guarded(options.trace.trace, [&] {
      ExportOptions known = options;
      choose_known_moment(known.trace);
      std::vector<pins::PinningBlock> live;
      return run_on_trace(
          known.trace, [&](const replay::Analysis& analysis) { export_pinned(known, analysis, std::move(live)); },
          collect_into(live));
    });
  }
  using Format = ExportOptions::Format;
  const bool only_costs = options.format == Format::kPprof || options.format == Format::kSpeedscope ||
                          options.format == Format::kCallgrind;
  if (!options.trace.traces.empty())
    return run_on_profile(for_costs(options.trace),
                          [&](const model::Profile& profile) { export_format(options, profile, nullptr); });
  return run_on_trace(only_costs ? for_costs(options.trace) : options.trace, [&](const replay::Analysis& analysis) {
    if (options.format == Format::kHeaptrack) export_heaptrack(options, analysis);
    else export_format(options, analysis.profile(), &analysis);
  });
}

}  // namespace heapprof::cli
