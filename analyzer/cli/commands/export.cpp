// heapprof export: the trace in the format of another program.
//
// Formats of sums are written from the profile. Formats of single blocks or events (heaptrack, dhat, firefox, ndjson,
// csv) replay the trace a second time and contain heap blocks only, no mappings.
#include <functional>
#include <map>
#include <numeric>
#include <unistd.h>
#include <utility>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/export_sqlite.h"
#include "analyzer/cli/commands/merged_recordings.h"
#include "analyzer/cli/commands/pinned.h"
#include "analyzer/cli/commands/run_on_trace.h"
#include "analyzer/cli/text/frame_text.h"
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

/// Adds a location without code, whose function name is the reason why frames are missing.
std::uint32_t add_pseudo_location(StackTable& table, exporter::FunctionTable& functions, const std::string& text) {
  StackTable::Location location;
  location.lines.push_back({functions.number({text, "", 0}), 0, false});
  table.locations.push_back(std::move(location));
  return static_cast<std::uint32_t>(table.locations.size() - 1);
}

StackTable stacks_with_names(const model::Profile& profile, const symbols::Options& options) {
  StackTable table;
  table.profile = &profile;
  table.program = profile.together ? command_of(profile) : render::clean_utf8(base_name(profile.recording.program));
  table.command = render::clean_utf8(command_of(profile));
  for (const model::Module& module : profile.modules) table.modules.push_back(render::clean_utf8(module.path));
  if (table.modules.empty()) table.modules.emplace_back();
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node)
    if (!profile.nodes[node].costs.empty()) table.stacks.push_back(node);
  StackNames names(profile, options);
  names.resolve(table.stacks);

  exporter::FunctionTable functions(table);
  std::vector<std::uint32_t> location_of_address(profile.addresses.size(), model::kNoIndex);
  std::map<std::string, std::uint32_t> pseudo_locations;
  table.location_of_node.assign(profile.nodes.size(), model::kNoIndex);
  std::vector<bool> seen(profile.nodes.size(), false);
  for (const std::uint32_t stack : table.stacks) {
    for (std::uint32_t node = stack; !seen[node] && (node != 0 || stack == 0); node = profile.nodes[node].parent) {
      seen[node] = true;
      const model::CallNode& call = profile.nodes[node];
      if (node == 0 || call.address == model::kNoIndex) {
        const std::string text = node == 0 ? "[no stack]" : truncation_frame(call.truncated);
        const auto [location, fresh] = pseudo_locations.try_emplace(text, 0);
        if (fresh) location->second = add_pseudo_location(table, functions, text);
        table.location_of_node[node] = location->second;
        continue;
      }
      std::uint32_t& number = location_of_address[call.address];
      if (number == model::kNoIndex) {
        number = static_cast<std::uint32_t>(table.locations.size());
        StackTable::Location location;
        location.module = profile.addresses[call.address].module;
        for (const Frame& frame : names.frames_of_node(node)) {
          location.address = frame.address;
          location.offset = frame.offset;
          const std::string name =
              render::clean_utf8(frame.function.empty() ? unresolved_name(frame) : frame.function);
          location.lines.push_back({functions.number({name, render::clean_utf8(frame.file), location.module}),
                                    frame.line > 0 ? static_cast<std::uint32_t>(frame.line) : 0, frame.inlined});
        }
        table.locations.push_back(std::move(location));
      }
      table.location_of_node[node] = number;
    }
  }
  return table;
}

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
      [&](double share, std::uint64_t events) { progress.show(share, events); });
  writer.finish(profile.recording.duration_ns, resident);
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
    case Format::kSqlite: break;
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
    analysis->for_each_event(sink, [&](double share, std::uint64_t events) { progress.show(share, events); },
                             {.of_kind = true});
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
