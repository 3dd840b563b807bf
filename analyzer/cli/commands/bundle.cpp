// heapprof bundle: a copy of a trace that includes the names of all its addresses, for machines without the programs
// and their debug information.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/run_on_trace.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"
#include "analyzer/symbols/module_symbols.h"
#include "analyzer/trace/embedded_symbols.h"

namespace heapprof::cli {
namespace {

constexpr std::size_t kLineWidth = 100;  ///< of printed warnings

/// The copy while it is written. The file is removed unless close() was called.
class Copy {
 public:
  explicit Copy(const std::string& path) : path_(path), standard_(path == "-") {
    // Readable by the user only, like a trace.
    const int fd =
        standard_ ? STDOUT_FILENO : ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0) throw OutputError(path + ": cannot be written: " + std::strerror(errno));
    file_ = standard_ ? stdout : ::fdopen(fd, "wb");
  }
  ~Copy() {
    if (standard_ || file_ == nullptr) return;
    std::fclose(file_);
    ::unlink(path_.c_str());
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  void write(const void* bytes, std::size_t size) {
    if (std::fwrite(bytes, 1, size, file_) != size) fail();
    written_ += size;
  }
  void close() {
    if (std::fflush(file_) != 0 || (!standard_ && std::fclose(std::exchange(file_, nullptr)) != 0)) fail();
  }
  std::uint64_t written() const noexcept { return written_; }

 private:
  [[noreturn]] void fail() {
    throw OutputError((standard_ ? std::string("standard output") : path_) +
                      ": cannot be written: " + std::strerror(errno));
  }

  std::string path_;
  bool standard_;
  std::FILE* file_ = nullptr;
  std::uint64_t written_ = 0;
};

void copy_recording(const trace::TraceFile& trace, Copy& copy) {
  std::vector<char> buffer(1 << 20);
  while (copy.written() < trace.bytes()) {
    const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), trace.bytes() - copy.written());
    const std::size_t got = trace.input().read(copy.written(), buffer.data(), wanted);
    if (got == 0)
      throw OutputError(trace.input().path() + ": cannot be read at byte " + std::to_string(copy.written()));
    copy.write(buffer.data(), got);
  }
  const std::uint32_t unit = trace.header().unit_bytes;
  const std::vector<char> padding((unit - copy.written() % unit) % unit, 0);
  copy.write(padding.data(), padding.size());
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

  Copy copy(output);
  copy_recording(trace, copy);
  const std::string run = trace::symbol_extents(packed, trace.file_id(), copy.written(), trace.header().unit_bytes);
  copy.write(run.data(), run.size());
  copy.close();
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
