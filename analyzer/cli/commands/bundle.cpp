// heapprof bundle: a copy of a trace that includes the names of all its addresses, for machines without the programs
// and their debug information.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/run_on_trace.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/export/sink.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"
#include "analyzer/symbols/module_symbols.h"
#include "analyzer/trace/embedded_symbols.h"

namespace heapprof::cli {
namespace {

constexpr std::size_t kLineWidth = 100;  ///< of printed warnings

/// Copies the recording and pads it to a whole number of units; returns the size of the result. Throws OutputError
/// when the trace cannot be read.
std::uint64_t copy_recording(const trace::TraceFile& trace, exporter::Sink& copy) {
  std::vector<char> buffer(1 << 20);
  std::uint64_t done = 0;
  while (done < trace.bytes() && copy.ok()) {
    const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), trace.bytes() - done);
    const std::size_t got = trace.input().read(done, buffer.data(), wanted);
    if (got == 0) throw OutputError(trace.input().path() + ": cannot be read at byte " + std::to_string(done));
    copy.write({buffer.data(), got});
    done += got;
  }
  const std::uint32_t unit = trace.header().unit_bytes;
  const std::string padding((unit - done % unit) % unit, '\0');
  copy.write(padding);
  return done + padding.size();
}

void bundle(const std::string& output, const symbols::Options& options, const replay::Analysis& analysis) {
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

  exporter::Sink copy(output, exporter::Sink::Compression::kNone, exporter::Sink::kUserOnly);
  const std::uint64_t end = copy_recording(trace, copy);
  const std::string run = trace::symbol_extents(packed, trace.file_id(), end, trace.header().unit_bytes);
  copy.write(run);
  if (!copy.close()) throw OutputError(copy.error());
  // On standard error, since standard output may be the copy.
  std::fprintf(stderr, "%s: names of %s of %s code addresses, %s\n", output.c_str(),
               render::exact_number(named).c_str(), render::exact_number(all).c_str(),
               render::human_bytes(run.size()).c_str());
  for (const std::string& warning : symbolizer.warnings()) {
    const char* indent = "  - ";
    for (const std::string& line : render::wrapped(render::clean_utf8(warning), kLineWidth - 4)) {
      std::fprintf(stderr, "%s%s\n", indent, line.c_str());
      indent = "    ";
    }
  }
}

}  // namespace

int run_bundle(const BundleOptions& options) {
  TraceOptions trace = options.trace;
  // The copy gets all names; the commands that read it decide by their options which are printed.
  trace.symbols.inlines = trace.symbols.symbols = true;
  return run_on_trace(trace,
                      [&](const replay::Analysis& analysis) { bundle(trace.output, trace.symbols, analysis); });
}

}  // namespace heapprof::cli
