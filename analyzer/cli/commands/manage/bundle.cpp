// heapprof bundle: a copy of a trace that includes the names of all its addresses, and on request the source files,
// for machines without the programs and their debug information. It has no arguments of the program unless asked for.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/text/held_content.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/export/sink.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"
#include "analyzer/symbols/module_symbols.h"
#include "analyzer/symbols/source_files.h"
#include "analyzer/trace/copy_without_arguments.h"
#include "analyzer/trace/embedded_symbols.h"

namespace heapprof::cli {
namespace {

constexpr std::size_t kWarningWidth = 100;  ///< of printed warnings

/// Copies every byte of the recording and returns its size. Throws OutputError when the trace cannot be read.
std::uint64_t copy_everything(const trace::TraceFile& trace, exporter::Sink& copy) {
  std::vector<char> buffer(1 << 20);
  std::uint64_t done = 0;
  while (done < trace.bytes() && copy.ok()) {
    const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), trace.bytes() - done);
    const std::size_t got = trace.input().read(done, buffer.data(), wanted);
    if (got == 0) throw OutputError(trace.input().path() + ": cannot be read at byte " + std::to_string(done));
    copy.write({buffer.data(), got});
    done += got;
  }
  return done;
}

/// Copies the recording and pads it to a whole number of units; returns the size of the result. Throws OutputError or
/// trace::TraceError when the trace cannot be read.
std::uint64_t copy_recording(const trace::TraceFile& trace, bool with_command_line, exporter::Sink& copy) {
  const std::uint64_t done =
      with_command_line ? copy_everything(trace, copy)
                        : trace::copy_without_arguments(trace, [&](std::string_view bytes) { copy.write(bytes); });
  const std::uint32_t unit = trace.header().unit_bytes;
  const std::string padding((unit - done % unit) % unit, '\0');
  copy.write(padding);
  return done + padding.size();
}

/// The source files of all addresses, and what to print about them.
struct BundledSources {
  symbols::PackedSources texts;
  std::size_t all = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> problems;  ///< "/home/me/a.c was not found"
};

BundledSources find_sources(const BundleOptions& options, const std::vector<symbols::ModuleSymbols>& names) {
  std::set<std::string> paths;
  for (const symbols::ModuleSymbols& module : names)
    for (const auto& frames : module.frames)
      for (const symbols::SourceFrame& frame : frames)
        if (!frame.file.empty()) paths.insert(frame.file);
  const symbols::SourcePlaces places{options.source_paths, options.trace.symbols.sysroot};
  BundledSources sources;
  sources.all = paths.size();
  for (const std::string& path : paths) {
    std::string why_not;
    if (std::optional<symbols::SourceText> found = symbols::find_source(places, path, why_not)) {
      sources.bytes += found->text.size();
      sources.texts.emplace(path, std::move(found->text));
    } else {
      sources.problems.push_back(path + " " + why_not);
    }
  }
  return sources;
}

void print_sources(const std::string& output, const BundledSources& sources) {
  constexpr std::size_t kMaxNamed = 5;
  std::fprintf(stderr, "%s: %s of %s source files, %s\n", output.c_str(),
               render::exact_number(sources.texts.size()).c_str(), render::exact_number(sources.all).c_str(),
               render::human_bytes(sources.bytes).c_str());
  for (std::size_t i = 0; i < std::min(sources.problems.size(), kMaxNamed); ++i)
    std::fprintf(stderr, "  - %s\n", render::clean_utf8(sources.problems[i]).c_str());
  if (sources.problems.size() > kMaxNamed)
    std::fprintf(stderr, "  - and %s more\n", render::exact_number(sources.problems.size() - kMaxNamed).c_str());
  if (!sources.problems.empty()) std::fprintf(stderr, "    --source-path DIRECTORY searches below a directory\n");
}

void bundle(const BundleOptions& bundle_options, const replay::Analysis& analysis) {
  const std::string& output = bundle_options.trace.output;
  const symbols::Options& options = bundle_options.trace.symbols;
  const trace::TraceFile& trace = analysis.file();
  const std::string& path = trace.input().path();
  if (trace.recorder() == trace::RecorderState::kRecording && trace.compacted() == nullptr)
    throw OutputError(path + ": the program is still running; write a copy with 'heapprof compact' and bundle that");
  const model::Profile& profile = analysis.profile();
  std::vector<symbols::CodeAddress> wanted;
  for (const model::CodeAddress& address : profile.addresses) wanted.push_back({address.module, address.offset});
  symbols::Symbolizer symbolizer = symbolizer_of(profile, options);
  const std::vector<symbols::ModuleSymbols> names = symbolizer.resolve_by_module(wanted);
  std::size_t all = 0, named = 0;
  for (const symbols::ModuleSymbols& module : names) {
    all += module.frames.size();
    named +=
        static_cast<std::size_t>(std::count_if(module.frames.begin(), module.frames.end(),
                                               [](const auto& frames) { return !frames.back().function.empty(); }));
  }
  const std::string packed = symbols::encode_symbols(names);
  BundledSources sources;
  if (bundle_options.sources) sources = find_sources(bundle_options, names);
  const std::string packed_sources = bundle_options.sources ? symbols::encode_sources(sources.texts) : std::string();

  const bool replaces = is_trace(output);
  exporter::Sink copy(output, exporter::Sink::Compression::kNone, exporter::Sink::kUserOnly);
  const std::uint64_t end = copy_recording(trace, bundle_options.command_line, copy);
  const std::string run =
      trace::symbol_extents(packed, packed_sources, trace.file_id(), end, trace.header().unit_bytes);
  copy.write(run);
  if (!copy.close()) throw OutputError(copy.error());
  // On standard error, since standard output may be the copy.
  if (replaces) print_message(output + ": replaced the recording of that name");
  std::fprintf(stderr, "%s: names of %s of %s code addresses, %s\n", output.c_str(),
               render::exact_number(named).c_str(), render::exact_number(all).c_str(),
               render::human_bytes(run.size()).c_str());
  if (bundle_options.sources) print_sources(output, sources);
  for (const std::string& words :
       held_words({bundle_options.sources, bundle_options.command_line, profile.recording.command_line_omitted}))
    print_message("it holds " + words);
  for (const std::string& warning : symbolizer.warnings()) {
    const char* indent = "  - ";
    for (const std::string& line : render::wrapped(render::clean_utf8(warning), kWarningWidth - 4)) {
      std::fprintf(stderr, "%s%s\n", indent, line.c_str());
      indent = "    ";
    }
  }
}

}  // namespace

int run_bundle(const BundleOptions& options) {
  BundleOptions all_names = options;
  // The copy gets all names; the commands that read it decide by their options which are printed.
  all_names.trace.symbols.inlines = all_names.trace.symbols.symbols = true;
  return run_on_trace(all_names.trace, [&](const replay::Analysis& analysis) { bundle(all_names, analysis); });
}

}  // namespace heapprof::cli
