// heapprof info: what was recorded, and how far the trace can be believed.
#include <CLI/CLI.hpp>
#include <memory>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/text/info_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/commands/trace_command.h"

namespace heapprof::cli {

void add_info(CLI::App& app, int& status) {
  const auto options = std::make_shared<TraceOptions>();
  CLI::App* const command =
      app.add_subcommand("info", "Tell what was recorded: program, threads, modules, integrity");
  add_trace_options(*command, *options, {.json = true});
  command->callback([options, &status] {
    status = run_on_trace(*options, [&](const replay::Analysis& analysis) {
      if (options->json) return write_output(options->output, dump(info_json(analysis.profile())));
      ReportText text(analysis.profile(), style_for(options->output));
      append_info(text, analysis.profile());
      text.notes({});
      write_output(options->output, text.text());
    });
  });
}

}  // namespace heapprof::cli
