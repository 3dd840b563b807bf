// Declares the commands under "Export".
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "analyzer/cli/command_line/choose_command.h"
#include "analyzer/cli/command_line/command_declarations.h"
#include "analyzer/cli/command_line/option_checks.h"
#include "analyzer/cli/command_line/option_kinds.h"
#include "analyzer/cli/command_line/shared_options.h"
#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/cli/options/query_format.h"
#include "analyzer/cli/options/selection.h"
#include "analyzer/export/rows.h"
#include "analyzer/push/endpoint.h"

namespace heapprof::cli {
namespace {

constexpr const char* kExport = "Export";

/// `export sqlite`: unlike the other formats, it has the tables of `query`, and takes several recordings.
void declare_export_sqlite(CLI::App& group, Chosen& chosen) {
  const auto options = std::make_shared<ExportOptions>();
  options->format = ExportOptions::Format::kSqlite;
  CLI::App& command = *group.add_subcommand(
      "sqlite", "Write a database for sqlite3, datasette, DuckDB and pandas: tables of 'query'");
  add_trace_options(command, options->trace, {.json = false, .output_required = true, .several = true});
  add_switch(command, "--events", options->events, "Write every allocation, too: the table allocations");
  add_call_site_options(command, options->call_sites);
  command.footer(
      "FILE gets its name when it is complete, and replaces what has that name. 'heapprof query --schema' describes "
      "the tables. The view frames is made of the tables code and stack_frames.");
  choose(command, chosen, options, [](ExportOptions& read) {
    if (read.trace.output == "-") refuse("a database cannot be written to standard output; give a file: -o run.db");
  });
}

/// `export rows`: of any number of recordings, each by itself.
void declare_export_rows(CLI::App& group, Chosen& chosen) {
  using exporter::RowFormat;
  static const WordsFor<RowFormat> formats = {{"ndjson", RowFormat::kNdjson}, {"csv", RowFormat::kCsv}};
  const auto options = std::make_shared<ExportOptions>();
  options->format = ExportOptions::Format::kRows;
  const auto per_stack = std::make_shared<bool>(false);
  CLI::App& command = *group.add_subcommand(
      "rows", "Write rows of sums for a database of many hosts: host, build, labels, stack and its costs");
  add_trace_options(command, options->trace,
                    {.json = false, .output_required = true, .selection = false, .several = true});
  add_switch(command, "--per-stack", *per_stack, "Write a row for each call stack of each recording");
  CLI::Option* const format = add_format(command, options->row_format, formats,
                                         "Write a JSON object in each line, or CSV with a header line");
  add_labels(command, options->labels,
             "Add a label to those of the recordings, or replace one (repeatable); the labels host and program also "
             "replace the columns of these names");
  add_number(command, "--top", options->top,
             "Write the N stacks with the most bytes at the peak, never freed, and allocated; one more row has the "
             "sum of the others; 0: all");
  add_call_site_options(command, options->call_sites);
  command.footer(
      "FILE is compressed when its name ends in .gz or .zst. The sums over the rows of a recording are its totals.");
  choose(command, chosen, options, [per_stack, format](ExportOptions& read) {
    if (!*per_stack) refuse("missing option --per-stack; rows of single allocations: heapprof export ndjson");
    take_format_from_name(format, read.trace.output, formats, read.row_format,
                          {{".csv.gz", RowFormat::kCsv}, {".csv.zst", RowFormat::kCsv}});
  });
}

}  // namespace

void declare_export(CLI::App& app, Chosen& chosen) {
  using Format = ExportOptions::Format;
  struct Target {
    const char* name;
    Format format;
    bool blocks;  ///< the format holds single blocks or events
    const char* help;
  };
  static constexpr Target kTargets[] = {
      {"heaptrack", Format::kHeaptrack, true, "Write for heaptrack_print and heaptrack_gui"},
      {"pprof", Format::kPprof, false, "Write for go tool pprof and other readers of profile.proto"},
      {"speedscope", Format::kSpeedscope, false, "Write for speedscope.app: one profile for each cost"},
      {"massif", Format::kMassif, false, "Write for ms_print and massif-visualizer"},
      {"dhat", Format::kDhat, true, "Write for dh_view.html of valgrind"},
      {"callgrind", Format::kCallgrind, false, "Write for callgrind_annotate and KCachegrind"},
      {"firefox", Format::kFirefox, true,
       "Write for profiler.firefox.com, with retained memory over any range of time"},
      {"perfetto", Format::kPerfetto, false,
       "Write for ui.perfetto.dev and trace_processor: the heap by stack, and counters over time"},
      {"ndjson", Format::kNdjson, true, "Write rows for databases: a JSON object in each line"},
      {"csv", Format::kCsv, true, "Write rows for databases and spreadsheets"},
  };
  CLI::App& group = add_command(app, kExport, "export", "Write the trace in the format of another program");
  group.require_subcommand(1);
  const std::string compression =
      "FILE is compressed when its name ends in .gz or .zst (pprof: always); - is standard output.";
  group.footer(compression);
  for (const Target& target : kTargets) {
    const auto options = std::make_shared<ExportOptions>();
    options->format = target.format;
    CLI::App& command = *group.add_subcommand(target.name, target.help);
    const bool has_rows = target.format == Format::kNdjson || target.format == Format::kCsv;
    const bool has_sums = target.format == Format::kPprof || target.format == Format::kSpeedscope ||
                          target.format == Format::kCallgrind;
    add_trace_options(
        command, options->trace,
        {.json = false, .output_required = true, .several = true, .refuses_several = !has_rows && !has_sums});
    if (has_rows) command.footer(compression + " Of several recordings, only --rows stacks can be written.");
    else if (!has_sums)
      command.footer(compression + " This format takes one recording; pprof, speedscope and callgrind take several.");
    if (has_rows)
      add_word<exporter::Rows>(
          command, "--rows", options->rows,
          {{"events", exporter::Rows::kEvents},
           {"blocks", exporter::Rows::kBlocks},
           {"stacks", exporter::Rows::kStacks},
           {"pinned", exporter::Rows::kPinned}},
          "Write a row for each event, each block live at the end, each stack with its costs, or "
          "each stack with what its live blocks keep from being returned");
    choose(command, chosen, options, [target, has_rows, has_sums](ExportOptions& read) {
      const bool sums = has_sums || (has_rows && read.rows == exporter::Rows::kStacks);
      refuse_for_several(read.trace, !sums,
                         std::string("export ") + target.name + (has_rows ? " of single rows" : ""),
                         has_rows ? "--rows stacks" : "export pprof, speedscope or callgrind");
      const bool blocks = target.blocks && !(has_rows && read.rows == exporter::Rows::kStacks);
      if (read.rows == exporter::Rows::kPinned) refuse_selected_blocks(read.trace, "--rows pinned");
      if (blocks) refuse_mappings(read.trace, std::string("export ") + target.name);
      if (read.format == Format::kPprof) refuse_terminal(read.trace.output, "a compressed file", "profile.pb.gz");
    });
  }
  declare_export_sqlite(group, chosen);
  declare_export_rows(group, chosen);
}

namespace {

/// Divides the arguments of `query` into recordings and SQL. SQL has blanks, and is no file.
void take_sql(std::vector<std::string> words, QueryOptions& options) {
  const auto is_sql = [](const std::string& word) {
    std::error_code ignored;
    return word.find_first_of(" \t\n(") != std::string::npos && !std::filesystem::exists(word, ignored);
  };
  if (!words.empty() && is_sql(words.back())) {
    options.sql = std::move(words.back());
    words.pop_back();
  }
  options.traces = std::move(words);
  for (const std::string& word : options.traces)
    if (is_sql(word)) refuse("unexpected argument '" + word + "'; give the SQL last, as one argument");
  if (!options.traces.empty()) options.trace.trace = options.traces.front();
}

}  // namespace

void declare_query(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<QueryOptions>();
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto format = std::make_shared<std::array<bool, 3>>();  // by QueryFormat
  const auto schema = std::make_shared<bool>(false);
  CLI::App& command = add_command(app, kExport, "query", "Query recordings in SQL; their parts are tables");
  add_list(command, "TRACE", *words, "TRACE", "Read this trace, or several, or all in these directories")
      ->allow_extra_args(true);
  add_text(
      command, "SQL", options->sql, "SQL",
      "Print the rows of this SELECT, in the SQL of SQLite; without it, the tables and their columns are listed");
  add_trace_options(command, options->trace, {.json = false, .several = true, .declares_trace = false});
  add_switch(command, "--table", (*format)[0], "Write aligned columns; the default on a terminal");
  add_switch(command, "--csv", (*format)[1], "Write CSV; the default otherwise");
  add_switch(command, "--json", (*format)[2], "Write JSON; the default where FILE ends in .json");
  add_switch(command, "--schema", *schema, "List the tables and their columns");
  add_value(command, "--temp-dir", "DIRECTORY",
            "Keep what does not fit into memory in files in DIRECTORY; by default, in that of TMPDIR, or in /var/tmp",
            [options](const std::string& directory) {
              std::error_code ignored;
              if (!std::filesystem::is_directory(directory, ignored))
                refuse_value(directory, "--temp-dir", "a directory");
              options->temporary_directory = directory;
            });
  add_call_site_options(command, options->call_sites);
  command.footer(
      "Tables: processes, threads, modules, timeline, marks, stacks, call_sites, frames, allocations, live_blocks, "
      "mappings, samples, residency, labels. Options that select blocks apply to all of them. A statement that would "
      "write is refused.");
  choose(command, chosen, options, [words, format, schema](QueryOptions& read) {
    take_sql(*words, read);
    const std::string& output = read.trace.output;
    if (std::ranges::count(*format, true) > 1) refuse("--table, --csv and --json exclude each other");
    const bool is_table = output == "-" && ::isatty(STDOUT_FILENO) != 0;
    read.format = (*format)[2] || ends_in(output, ".json")      ? QueryFormat::kJson
                  : (*format)[0] || (is_table && !(*format)[1]) ? QueryFormat::kTable
                                                                : QueryFormat::kCsv;
    if ((*format)[0]) read.format = QueryFormat::kTable;
    if ((*format)[1]) read.format = QueryFormat::kCsv;
    if (*schema && !read.sql.empty()) refuse("--schema and SQL exclude each other");
    if (read.traces.empty() && !*schema) refuse("missing argument TRACE");
  });
}

namespace {

std::chrono::milliseconds read_duration(const std::string& text, const char* option, std::chrono::milliseconds min,
                                        std::chrono::milliseconds max, const char* expected) {
  const auto ns = parse_duration_ns(text);
  const auto ms = std::chrono::milliseconds(ns ? *ns / 1'000'000 : 0);
  if (!ns || ms < min || ms > max) refuse_value(text, option, expected);
  return ms;
}

}  // namespace

void declare_push(CLI::App& app, Chosen& chosen) {
  using std::chrono::milliseconds;
  const auto options = std::make_shared<PushOptions>();
  CLI::App& command = add_command(app, kExport, "push", "Send profiles to Pyroscope or an OpenTelemetry collector");
  add_trace_options(command, options->trace,
                    {.json = false, .sole_argument = false, .several = true, .output = false});
  add_text(command, "URL", options->url, "URL",
           "Send to this server: http://HOST:4040 is Pyroscope, http://HOST:4318 a collector")
      ->required();
  add_value(command, "--every", "TIME",
            "Follow recordings while they are written: send what was allocated in each interval of TIME, and what is "
            "live at its end, until their programs have ended",
            [options](const std::string& text) {
              options->every = read_duration(text, "--every", milliseconds(100), std::chrono::hours(24 * 7),
                                             "a duration from 100ms to 7 days, such as 60 (seconds) or 5min");
            });
  add_choice(
      command, "--protocol", {"auto", "pyroscope", "otlp"}, 0,
      "Send pprof to Pyroscope, or OTLP profiles over HTTP; auto: otlp if the port is 4318 or the path ends in "
      "/profiles",
      [options](std::size_t position) {
        if (position != 0) options->protocol = position == 1 ? push::Protocol::kPyroscope : push::Protocol::kOtlp;
      });
  add_text(command, "--service", options->service, "NAME", "Name the service NAME; by default, as the program");
  add_labels(command, options->labels, "Add a label to those of the recording, or replace one (repeatable)");
  add_text(command, "--headers", options->headers_file, "FILE",
           "Add the HTTP headers in FILE, a line NAME: VALUE each, such as Authorization; also those in the variable "
           "HEAPPROF_PUSH_HEADERS");
  add_text(command, "--ca-file", options->ca_file, "FILE",
           "Trust the certificates in FILE, instead of the system's, for https");
  add_value(command, "--timeout", "TIME", "Wait at most TIME for an answer", [options](const std::string& text) {
    options->timeout = read_duration(text, "--timeout", milliseconds(10), std::chrono::hours(1),
                                     "a duration from 10ms to 1 hour, such as 30 (seconds)");
  })->default_str("30");
  add_number(command, "--retries", options->retries, "Try N times again, with growing pauses, if that may help");
  add_switch(command, "-q,--quiet", options->quiet, "Print nothing for profiles that were sent");
  command.footer(
      "Profiles have the real times of the recording. Nothing is sent but names of functions, files and modules, "
      "build IDs, figures, the host, the program's name, its process id and labels; no arguments, and no contents of "
      "memory. "
      "Redirects are not followed. Exit status 1: not everything was delivered.");
  choose(command, chosen, options, [](PushOptions& read) {
    try {
      push::endpoint_of(read.url, read.protocol);
    } catch (const std::invalid_argument& error) {
      refuse("invalid value '" + read.url + "' for URL: " + error.what());
    }
    if (read.every.count() == 0) return;
    const auto selecting = selecting_options(read.trace.texts, read.trace.selection);
    if (!selecting.empty())
      refuse(selecting.front().option + " is for a push without --every, which sends all heap blocks");
  });
}

}  // namespace heapprof::cli
