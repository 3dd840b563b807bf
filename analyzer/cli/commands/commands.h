// The commands of `heapprof`. Each function adds one subcommand to `app`; when the user chose it, it
// runs during parsing and leaves the exit status (0; 1: the trace lacks something; 2: wrong command line) in
// `status`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace heapprof::cli {

void add_record(CLI::App& app, int& status);
void add_info(CLI::App& app, int& status);
void add_report(CLI::App& app, int& status);
void add_leaks(CLI::App& app, int& status);
void add_histogram(CLI::App& app, int& status);
void add_churn(CLI::App& app, int& status);
void add_reallocs(CLI::App& app, int& status);
void add_threads(CLI::App& app, int& status);
void add_frees(CLI::App& app, int& status);
void add_timeline(CLI::App& app, int& status);
void add_flamegraph(CLI::App& app, int& status);
void add_export(CLI::App& app, int& status);
void add_check(CLI::App& app, int& status);  ///< status 3: a limit was passed
void add_control(CLI::App& app, int& status);
void add_diff(CLI::App& app, int& status);
void add_compact(CLI::App& app, int& status);
void add_bundle(CLI::App& app, int& status);
void add_index(CLI::App& app, int& status);

/// `heapprof record` itself, with the arguments after that word as they are; returns the exit status. Its options
/// end at PROGRAM and its switches may lack a value, which is beyond CLI11; add_record only lists the name.
int record(const std::vector<std::string>& arguments);

}  // namespace heapprof::cli
