// Declares the commands under "Manage recordings".
#include <cstdint>
#include <memory>
#include <string>

#include "analyzer/cli/command_line/choose_command.h"
#include "analyzer/cli/command_line/command_declarations.h"
#include "analyzer/cli/command_line/option_checks.h"
#include "analyzer/cli/command_line/option_kinds.h"
#include "analyzer/cli/command_line/shared_options.h"
#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/options/option_values.h"

namespace heapprof::cli {
namespace {

constexpr const char* kManage = "Manage recordings";

}  // namespace

void declare_info(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<InfoOptions>();
  CLI::App& command =
      add_command(app, kManage, "info", "Print what was recorded: program, threads, modules, settings, integrity");
  add_trace_options(command, options->trace);
  choose(command, chosen, options);
}

void declare_bundle(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<BundleOptions>();
  CLI::App& command =
      add_command(app, kManage, "bundle", "Copy a trace together with its symbols, to be read on another machine");
  add_optional_trace(command, options->trace.trace, "Copy this trace");
  add_output(command, options->trace.output, "Write the copy to FILE; - is standard output");
  add_symbol_options(command, options->trace.symbols);
  add_switch(command, "--sources", options->sources, "Pack the source files that have costs, for 'heapprof source'");
  add_switch(command, "--command-line", options->command_line,
             "Include the arguments of the program, which may contain secrets");
  add_source_paths(command, options->source_paths);
  choose(command, chosen, options, [](BundleOptions& read) {
    refuse_terminal(read.trace.output, "a trace", "bundled.heapprof");
    read.trace.output_is_recording = true;
  });
}

void declare_compact(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<CompactOptions>();
  CLI::App& command = add_command(app, kManage, "compact", "Write a smaller, indexed copy of a trace");
  add_optional_trace(command, options->trace,
                     "Compact this trace; if its program still runs, what is recorded so far");
  add_output(command, options->output, "Write the copy to FILE");
  add_switch(command, "--exact", options->exact, "Keep addresses and exact times");
  add_value(command, "--level", "N", "Compress with zstd at level N, from 1 (fast) to 19 (small)",
            [options](const std::string& text) {
              std::uint64_t level = 0;
              if (!read_whole_number(text, level, 19) || level == 0)
                refuse_value(text, "--level", "a whole number from 1 to 19");
              options->level = static_cast<int>(level);
            })
      ->default_str(std::to_string(options->level));
  command.footer(
      "Every command reads the copy, and reads slices of time faster. Times are rounded down to microseconds, and "
      "blocks have numbers instead of addresses; all other figures stay the same. What follows from addresses needs "
      "--exact: 'rss', and 'pins' at other moments than snapshots of resident pages and the end.");
  choose(command, chosen, options, [](CompactOptions& read) {
    if (read.output == "-")
      refuse(
          "invalid value '-' for --output; expected a file with a name, since the trace is read while it is "
          "compacted");
  });
}

void declare_index(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<IndexOptions>();
  CLI::App& command = add_command(app, kManage, "index", "Write an index beside a trace, for fast slices of time");
  add_optional_trace(command, options->trace, "Index this trace; its program must have ended");
  add_text(command, "-o,--output", options->output, "FILE",
           "Write the index to FILE; commands find only the default, TRACE.idx");
  command.footer(
      "Without this command, the first slice, leaks, timeline or info of a large trace writes an index to the user's "
      "cache directory "
      "($XDG_CACHE_HOME/heapprof/index or ~/.cache/heapprof/index). An index beside the trace can be copied with "
      "it.");
  choose(command, chosen, options, [](IndexOptions& read) {
    if (read.output == "-")
      refuse("invalid value '-' for --output; expected a file, since commands look for an index beside its trace");
  });
}

}  // namespace heapprof::cli
