// The commands of `heapprof`. Each function adds one subcommand to `app`; when the user chose it, it
// runs during parsing and leaves the exit status (docs/guide.md lists them) in `status`.
#pragma once

namespace CLI {
class App;
}

namespace heapprof::cli {

void add_record(CLI::App& app, int& status);
void add_info(CLI::App& app, int& status);
void add_report(CLI::App& app, int& status);
void add_leaks(CLI::App& app, int& status);
void add_timeline(CLI::App& app, int& status);
void add_flamegraph(CLI::App& app, int& status);
void add_export(CLI::App& app, int& status);

}  // namespace heapprof::cli
