// heapprof export: the trace in the format of another program.
#include <CLI/CLI.hpp>
#include <memory>
#include <unistd.h>

#include "analyzer/cli/commands.h"
#include "analyzer/cli/report_text.h"
#include "analyzer/cli/trace_command.h"
#include "analyzer/export/heaptrack_writer.h"
#include "analyzer/export/output.h"

namespace heapprof::cli {
namespace {

struct ExportOptions {
  TraceOptions trace;
};

void export_heaptrack(const ExportOptions& options, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 1; node < profile.nodes.size(); ++node)
    if (profile.nodes[node].costs.allocations != 0) nodes.push_back(node);
  Names names(profile, options.trace.symbols);
  names.resolve(nodes);

  exporter::Output output(options.trace.output);
  exporter::HeaptrackWriter::Header header;
  header.command = command_of(profile);
  const long page = ::sysconf(_SC_PAGESIZE);
  if (page > 0) header.page_bytes = static_cast<std::uint64_t>(page);
  exporter::HeaptrackWriter writer(output, header);

  // One instruction an address of the profile; the writer asks for each once, when it is first used.
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
  std::vector<exporter::HeaptrackFrame> views;
  exporter::HeaptrackStacks stacks(writer, tree, [&](std::uint32_t ip) {
    frames = names.frames_of_node(node_of_address[ip]);
    views.clear();
    for (const Frame& frame : frames)
      if (!frame.function.empty())
        views.push_back({frame.function, frame.file, frame.line > 0 ? static_cast<std::uint32_t>(frame.line) : 0});
    return exporter::HeaptrackStacks::Instruction{frames.front().address, frames.front().module->path, views};
  });

  ProgressLine progress("Writing " + options.trace.output);
  std::uint64_t resident = 0;
  analysis.for_each_event(
      [&](std::span<const replay::ProfileEvent> events) {
        for (const replay::ProfileEvent& event : events) {
          writer.set_time(event.time_ns);
          switch (event.kind) {
            case replay::ResolvedKind::kAllocation: writer.allocation(event.size, stacks.trace(event.node)); break;
            case replay::ResolvedKind::kRelease: writer.deallocation(event.size, stacks.trace(event.node)); break;
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

}  // namespace

void add_export(CLI::App& app, int& status) {
  CLI::App* const command = app.add_subcommand("export", "Write the trace in another program's format");
  command->require_subcommand(1);
  const auto options = std::make_shared<ExportOptions>();
  CLI::App* const heaptrack = command->add_subcommand(
      "heaptrack", "For heaptrack_print and heaptrack_gui; compressed when FILE ends in .gz or .zst");
  add_trace_options(*heaptrack, options->trace, {.json = false, .output_required = true});
  heaptrack->callback([options, &status] {
    status = run_on_trace(options->trace, [&](const replay::Analysis& analysis) { export_heaptrack(*options, analysis); });
  });
}

}  // namespace heapprof::cli
