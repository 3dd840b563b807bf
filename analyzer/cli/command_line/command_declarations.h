// The declaration of each command to the parser, in a file for each heading of `heapprof --help`. declare_commands()
// calls them.
#pragma once

#include "analyzer/cli/command_line/choose_command.h"

namespace heapprof::cli {

// declare_record.cpp
/// Only for --help: parse_record_options() parses the words after "record".
void declare_record_for_help(CLI::App& app, Chosen& chosen);
void declare_control(CLI::App& app, Chosen& chosen);
void declare_install_secure(CLI::App& app, Chosen& chosen);

// declare_where_memory_went.cpp
void declare_report(CLI::App& app, Chosen& chosen);
void declare_tree(CLI::App& app, Chosen& chosen);
void declare_callers(CLI::App& app, Chosen& chosen);
void declare_blocks(CLI::App& app, Chosen& chosen);
void declare_source(CLI::App& app, Chosen& chosen);
void declare_flamegraph(CLI::App& app, Chosen& chosen);
void declare_pins(CLI::App& app, Chosen& chosen);
void declare_rss(CLI::App& app, Chosen& chosen);
void declare_histogram(CLI::App& app, Chosen& chosen);
void declare_churn(CLI::App& app, Chosen& chosen);
void declare_reallocs(CLI::App& app, Chosen& chosen);
void declare_threads(CLI::App& app, Chosen& chosen);
void declare_frees(CLI::App& app, Chosen& chosen);

// declare_leaks.cpp
void declare_leaks(CLI::App& app, Chosen& chosen);

// declare_over_time.cpp
void declare_top(CLI::App& app, Chosen& chosen);
void declare_timeline(CLI::App& app, Chosen& chosen);

// declare_browser.cpp
void declare_serve(CLI::App& app, Chosen& chosen);
void declare_html(CLI::App& app, Chosen& chosen);

// declare_compare.cpp
void declare_diff(CLI::App& app, Chosen& chosen);
void declare_check(CLI::App& app, Chosen& chosen);

// declare_export.cpp
void declare_export(CLI::App& app, Chosen& chosen);
void declare_query(CLI::App& app, Chosen& chosen);
void declare_push(CLI::App& app, Chosen& chosen);

// declare_manage.cpp
void declare_info(CLI::App& app, Chosen& chosen);
void declare_bundle(CLI::App& app, Chosen& chosen);
void declare_compact(CLI::App& app, Chosen& chosen);
void declare_index(CLI::App& app, Chosen& chosen);

// declare_help.cpp
void declare_help(CLI::App& app, Chosen& chosen);
void declare_manual(CLI::App& app, Chosen& chosen);
void declare_completions(CLI::App& app, Chosen& chosen);

}  // namespace heapprof::cli
