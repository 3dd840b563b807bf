// heapprof: one program, with a command for each task. This file is the list of the commands: cli/command_line parses
// the command line into the options of one of them, cli/commands and cli/help run it.
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "analyzer/base/reason_of.h"
#include "analyzer/cli/command_line/command_line.h"
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/standing_answers.h"
#include "analyzer/cli/help/help.h"
#include "analyzer/cli/options/version.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/commit.h"

namespace {

using namespace heapprof;

/// Runs the command whose options were parsed; returns the exit status.
struct Run {
  int operator()(const cli::RecordOptions& options) const { return cli::run_record(options); }
  int operator()(const cli::RecorderPathOptions& options) const { return cli::run_recorder_path(options); }
  int operator()(const cli::ControlOptions& options) const { return cli::run_control(options); }
  int operator()(const cli::InstallSecureOptions& options) const { return cli::run_install_secure(options); }

  int operator()(const cli::ReportOptions& options) const { return cli::run_report(options); }
  int operator()(const cli::TreeOptions& options) const { return cli::run_tree(options); }
  int operator()(const cli::CallersOptions& options) const { return cli::run_callers(options); }
  int operator()(const cli::BlocksOptions& options) const { return cli::run_blocks(options); }
  int operator()(const cli::SourceOptions& options) const { return cli::run_source(options); }
  int operator()(const cli::FlamegraphOptions& options) const { return cli::run_flamegraph(options); }
  int operator()(const cli::PinsOptions& options) const { return cli::run_pins(options); }
  int operator()(const cli::RssOptions& options) const { return cli::run_rss(options); }
  int operator()(const cli::HistogramOptions& options) const { return cli::run_histogram(options); }
  int operator()(const cli::ChurnOptions& options) const { return cli::run_churn(options); }
  int operator()(const cli::ReallocsOptions& options) const { return cli::run_reallocs(options); }
  int operator()(const cli::ThreadsOptions& options) const { return cli::run_threads(options); }
  int operator()(const cli::FreesOptions& options) const { return cli::run_frees(options); }
  int operator()(const cli::LeaksOptions& options) const { return cli::run_leaks(options); }
  int operator()(const cli::TopOptions& options) const { return cli::run_top(options); }
  int operator()(const cli::TimelineOptions& options) const { return cli::run_timeline(options); }
  int operator()(const cli::ServeOptions& options) const { return cli::run_serve(options); }
  int operator()(const cli::HtmlOptions& options) const { return cli::run_html(options); }
  int operator()(const cli::DiffOptions& options) const { return cli::run_diff(options); }
  int operator()(const cli::CheckOptions& options) const { return cli::run_check(options); }
  int operator()(const cli::ExportOptions& options) const { return cli::run_export(options); }
  int operator()(const cli::QueryOptions& options) const { return cli::run_query(options); }
  int operator()(const cli::PushOptions& options) const { return cli::run_push(options); }

  int operator()(const cli::InfoOptions& options) const { return cli::run_info(options); }
  int operator()(const cli::BundleOptions& options) const { return cli::run_bundle(options); }
  int operator()(const cli::CompactOptions& options) const { return cli::run_compact(options); }
  int operator()(const cli::IndexOptions& options) const { return cli::run_index(options); }

  int operator()(const cli::HelpOptions& options) const { return cli::run_help(options); }
  int operator()(const cli::ManualOptions& options) const { return cli::run_manual(options); }
  int operator()(const cli::CompletionsOptions& options) const { return cli::run_completions(options); }
  int operator()(const cli::FirstScreenOptions& options) const { return cli::run_first_screen(options); }
};

int run(const std::vector<std::string>& words) {
  const cli::CommandLine line = cli::parse_command_line(words);
  if (!line.command) return line.exit_status;
  try {
    return std::visit(Run{}, *line.command);
  } catch (const std::exception& error) {  // commands that read a trace print this themselves, with its name
    if (!is_out_of_memory(error)) throw;
    cli::print_message(kNotEnoughMemory);
  }
  constexpr int kFailedToRecord = 125;  // another status would be one of the program
  return std::holds_alternative<cli::RecordOptions>(*line.command) ? kFailedToRecord : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (HEAPPROF_COMMIT[0] != '\0') cli::printed_version = HEAPPROF_VERSION " (commit " HEAPPROF_COMMIT ")";
  std::vector<std::string> words;
  if (argc > 1) words.assign(argv + 1, argv + argc);
  cli::set_command_runner(run);
  return run(words);
}
