#include "analyzer/cli/command_line/shared_options.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "analyzer/cli/command_line/option_checks.h"
#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/options/project_file.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/name_pattern.h"
#include "analyzer/cli/text/used_project_file.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/symbols/symbol_cache.h"
#include "common/settings_grammar.h"

namespace heapprof::cli {
namespace {

constexpr const char* kSelection = "Selection";
constexpr const char* kSymbols = "Symbols";
constexpr const char* kCallSites = "Call sites";

/// A recording as the value of an option was probably meant as the TRACE that is missing.
void refuse_recordings_as_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (!option->nonpositional() || option->get_items_expected_max() == 0 || name == "--baseline") continue;
    for (const std::string& value : option->results()) {
      if (!is_trace(value)) continue;
      if (name == "--output" || name == "--junit")
        refuse(name + ": " + value +
               " is a recording, which the output would replace; write the TRACE to read "
               "before the option, or give the output another name");
      refuse("missing argument TRACE; " + value + " is the value of " + name);
    }
  }
}

void add_selection(CLI::App& command, replay::Selection& selection, SelectionTexts& texts) {
  const auto text = [&](const char* name, std::string& value, const char* type, const char* help) {
    add_text(command, name, value, type, help)->group(kSelection);
  };
  const auto list = [&](const char* name, std::vector<std::string>& values, const char* type, const char* help) {
    add_list(command, name, values, type, help)->group(kSelection);
  };
  add_size(command, "--min-size", "Select allocations of at least SIZE bytes (4K, 1M, ...)",
           [&selection](std::uint64_t bytes) { selection.min_size = bytes; })
      ->group(kSelection);
  add_size(command, "--max-size", "Select allocations of at most SIZE bytes", [&selection](std::uint64_t bytes) {
    selection.max_size = bytes;
  })->group(kSelection);
  text(
      "--from", texts.from, "TIME",
      "Select what happens from TIME on: seconds since the start, with a unit (300ms), a percentage of the recording "
      "(40%), start, peak, end, or the text of a mark. The peak of such a slice counts all blocks that are live in "
      "it; its "
      "leaks are the blocks "
      "that were allocated in it and are live at its end");
  text("--to", texts.to, "TIME", "Select what happens up to TIME");
  text("--at,--live-at", texts.live_at, "TIME", "Select the blocks that are live at TIME");
  text(
      "--survivors", texts.survivors, "[TIME]",
      "Select the blocks that are allocated between --from and --to and still live at TIME, by default at the end of "
      "the recording");
  text("--min-lifetime", texts.min_lifetime, "TIME",
       "Select blocks that live at least TIME (20us, 1.5); blocks that are never freed live until the end of the "
       "trace");
  text("--max-lifetime", texts.max_lifetime, "TIME", "Select blocks that are freed within TIME");
  add_word<replay::Freed>(
      command, "--freed", selection.freed,
      {{"any", replay::Freed::kAny}, {"yes", replay::Freed::kYes}, {"no", replay::Freed::kNo}},
      "Select the blocks that are freed by the end of the recording, or by the time of --to (yes), or those that are "
      "not (no)")
      ->group(kSelection);
  list("--thread", texts.threads, "THREAD", "Select allocations of THREAD, a tid or a name (repeatable)");
  list("--not-thread", texts.not_threads, "THREAD", "Exclude allocations of THREAD (repeatable)");
  list("--module", texts.modules, "PATTERN",
       "Select stacks with a frame in a program or library whose name or path matches PATTERN; * and ? are wildcards "
       "(repeatable)");
  list("--not-module", texts.not_modules, "PATTERN",
       "Exclude stacks with a frame in a program or library whose name or path matches PATTERN (repeatable)");
  list("--function", texts.functions, "REGEX",
       "Select stacks with a function whose name matches REGEX, an extended regular expression, or contains REGEX "
       "literally (repeatable)");
  list("--not-function", texts.not_functions, "REGEX",
       "Exclude stacks with a function whose name matches REGEX (repeatable)");
  add_word<model::Kind>(command, "--kind", selection.kind,
                        {{"heap", model::Kind::kHeap}, {"mmap", model::Kind::kMmap}, {"all", model::Kind::kAll}},
                        "Select blocks of the heap, mappings, or both; all counts each byte once")
      ->group(kSelection);
}

/// Adds "key=value". Refuses what cannot be stored, or what would not be the same in every format that has it.
void add_label(const std::string& text, Labels& labels) {
  constexpr std::size_t kShown = 60;
  const std::string shown = render::clip_utf8(render::clean_utf8(text), kShown);
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) refuse_value(shown, "--label", "KEY=VALUE, such as env=production");
  const std::string key = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  if (!std::ranges::all_of(key, is_label_key_character) || key.size() > kMaxLabelKeyBytes)
    refuse("invalid value '" + shown + "' for --label; a key has letters, digits and . _ - / only, and at most " +
           std::to_string(kMaxLabelKeyBytes) + " bytes");
  if (render::clean_utf8(value) != value)
    refuse("invalid value '" + shown + "' for --label; the value of a label is UTF-8 without control characters");
  if (const std::size_t bytes = encode_labels({{key, value}}).size(); bytes > kMaxLabelsBytes)
    refuse("invalid value '" + shown + "' for --label; it takes " + std::to_string(bytes) + " bytes of at most " +
           std::to_string(kMaxLabelsBytes) + " (characters other than ASCII take three for each byte)");
  labels[key] = value;
}

CLI::Option* add_no_index(CLI::App& command, bool& use_index) {
  return add_switch(command, "!--no-index", use_index, "Neither read nor write an index of the trace");
}

}  // namespace

namespace {

constexpr const char* kNewestByDefault =
    "; by default, the newest recording (*.heapprof, *.hprof) in the current directory";

/// Takes the newest recording where `argument` was not given.
void take_newest_by_default(CLI::App& command, const CLI::Option* argument, std::string& trace) {
  command.parse_complete_callback([&command, argument, &trace] {
    if (was_given(argument)) return;
    for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
      // --help or --version before the command's name: the parser handles it later, and no trace is read.
      for (const CLI::Option* const option : {app->get_help_ptr(), app->get_version_ptr()})
        if (option != nullptr && was_given(option)) return;
      // An unknown word is reported first.
      if (app->remaining_size() != 0) return;
    }
    refuse_recordings_as_values(command);
    const NewestTrace newest = find_newest_trace();
    if (newest.path.empty())
      refuse(
          "missing argument TRACE: there is no recording (*.heapprof, *.hprof) in this directory; record a program "
          "with 'heapprof record -- PROGRAM'");
    trace = newest.path;
    const std::string which =
        newest.count == 1 ? ", the only recording in this directory"
                          : ", the newest of " + render::exact_number(newest.count) + " recordings in this directory";
    print_message("reading " + trace + which);
  });
}

}  // namespace

void add_optional_trace(CLI::App& command, std::string& trace, const std::string& help) {
  take_newest_by_default(command, add_text(command, "TRACE", trace, "TRACE", help + kNewestByDefault), trace);
}

void add_output(CLI::App& command, std::string& output, const std::string& help) {
  add_text(command, "-o,--output", output, "FILE", help)->required();
}

void add_trace_options(CLI::App& command, TraceOptions& options, const TraceCommand& has) {
  const std::string help = "Read this trace, of a program that has ended, was killed or still runs";
  options.takes_several = has.several;
  if (!has.declares_trace) {
  } else if (has.several && has.sole_argument) {
    const char* const or_several = has.refuses_several ? "" : ", or several, or all in these directories";
    CLI::Option* const argument =
        add_list(command, "TRACE", options.traces, "TRACE", help + or_several + kNewestByDefault);
    argument->allow_extra_args(true);
    if (has.refuses_several) argument->option_text("TRACE");  // as what follows "Usage:" has it
    take_newest_by_default(command, argument, options.trace);
  } else if (has.sole_argument) {
    add_optional_trace(command, options.trace, help);
  } else {
    add_text(command, "TRACE", options.trace, "TRACE", has.several ? help + ", or all in this directory" : help)
        ->required();
  }
  if (has.output) {
    CLI::Option* const output =
        add_value(command, "-o,--output", "FILE", "Write the output to FILE; - is standard output",
                  [&options, by_name = has.json && has.json_by_name](const std::string& name) {
                    options.output = name;
                    if (by_name && ends_in(name, ".json")) options.json = true;
                  });
    if (has.output_required) output->required();
    else output->default_str(options.output);
  }
  if (has.json)
    add_switch(command, "--json", options.json,
               has.json_by_name ? "Write the figures as JSON; the default where FILE ends in .json"
                                : "Write the figures as JSON");
  if (has.selection) add_selection(command, options.selection, options.texts);
  CLI::Option* const no_index = add_no_index(command, options.use_index);
  if (has.selection) no_index->group(kSelection);
  add_symbol_options(command, options.symbols);
}

void add_symbol_options(CLI::App& command, symbols::Options& options) {
  options.cache_directory = symbols::SymbolCache::default_directory();
  add_text(command, "--sysroot", options.sysroot, "DIRECTORY",
           "Read the files of the recorded program below DIRECTORY, the root directory of the recorded system")
      ->group(kSymbols);
  add_list(command, "--debug-dir", options.debug_dirs, "DIRECTORY",
           "Search DIRECTORY for debug files too (repeatable)")
      ->group(kSymbols);
  add_switch(command, "!--no-inlines", options.inlines, "Omit inlined functions")->group(kSymbols);
  add_switch(command, "--short-names", options.short_names,
             "Omit template arguments and parameters of long names: std::vector<...>::push_back(...)")
      ->group(kSymbols);
  add_switch(command, "!--no-symbols", options.symbols, "Print modules and offsets; look up no names")
      ->group(kSymbols);
  add_switch(command, "--interpreter-frames", options.interpreter_frames,
             "Show the functions of the Python interpreter between two lines of Python")
      ->group(kSymbols);
  add_switch(command, "--debuginfod", options.debuginfod,
             "Download debug files from the servers that DEBUGINFOD_URLS names")
      ->group(kSymbols);
  command
      .add_flag_callback(
          "--no-symbol-cache", [&options] { options.cache_directory.clear(); },
          "Neither read nor write the cache of names (HEAPPROF_SYMBOL_CACHE=off does the same)")
      ->group(kSymbols);
}

namespace {

/// --config and --no-config; nothing, if the command has them already.
void add_project_file_options(CLI::App& command) {
  if (command.get_option_no_throw("--config") != nullptr) return;
  CLI::Option* const config =
      add_value(command, "--config", "FILE",
                "Take the project's settings from FILE; by default, from .heapprof.toml in the current directory or "
                "the nearest one above it",
                [](const std::string&) {});
  command
      .add_flag_callback(
          "--no-config", [] {}, "Use no project file")
      ->excludes(config);
}

/// The project file to use; nullopt: none.
std::optional<ProjectFile> choose_project_file(const CLI::App& command) {
  const CLI::Option* const config = command.get_option_no_throw("--config");
  if (config == nullptr || was_given(command.get_option("--no-config"))) return std::nullopt;
  project_file_was_named = was_given(config);
  if (project_file_was_named) return read_project_file(config->results().back());
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::current_path(error);
  if (error) return std::nullopt;
  const char* const home = std::getenv("HOME");
  const FoundProjectFile found = find_project_file(directory, home == nullptr ? "" : home);
  if (!found.note.empty()) print_message(found.note);
  return found.path.empty() ? std::nullopt : std::optional(read_project_file(found.path));
}

void append(std::vector<std::string>& list, const std::vector<std::string>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

}  // namespace

void take_project_file(const CLI::App& command, CallSiteOptions* call_sites, SuppressionOptions* suppressions) {
  used_project_file.clear();
  if (call_sites != nullptr) call_sites->own_options = call_sites->own.size();
  try {
    const std::optional<ProjectFile> file = choose_project_file(command);
    if (!file) return;
    used_project_file = file->path;
    if (call_sites != nullptr) {
      append(call_sites->own, file->own);
      append(call_sites->third_party, file->third_party);
      append(call_sites->standard, file->standard);
      append(call_sites->runtime, file->runtime);
      const CLI::Option* const full_names = command.get_option_no_throw("--full-names");
      if (file->full_names && full_names != nullptr && !was_given(full_names))
        call_sites->view.full_names = *file->full_names;
    }
    if (suppressions != nullptr && suppressions->suppress) {
      append(suppressions->files, file->suppression_files);
      suppressions->rules = file->suppression_rules;
    }
  } catch (const ProjectFileError& error) {
    refuse(error.what());
  }
}

void add_suppression_options(CLI::App& command, SuppressionOptions& options) {
  add_project_file_options(command);
  CLI::Option* const files =
      add_list(command, "--suppressions", options.files, "FILE",
               "Suppress the leaks that FILE lists, in lines leak:PATTERN as for LeakSanitizer (repeatable)");
  add_switch(command, "!--no-default-suppressions", options.built_in,
             "Include what libc, libstdc++ and the loader allocate for themselves and never free");
  add_switch(command, "!--no-suppressions", options.suppress, "Suppress nothing")->excludes(files);
}

namespace {

/// An option for patterns of names, which are checked at once.
void add_patterns(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                  const std::string& help) {
  add_list(command, name, values, "REGEX", help)
      ->each([name](const std::string& text) {
        if (text.empty()) refuse_value(text, name, "a part of a name, or a regular expression");
        try {
          const NamePattern valid(text);
        } catch (const std::invalid_argument& error) {
          refuse(name + ": " + error.what());
        }
      })
      ->group(kCallSites);
}

}  // namespace

void add_own(CLI::App& command, CallSiteOptions& options) {
  add_project_file_options(command);
  add_patterns(command, "--own", options.own,
               "Count functions, source files and modules that match REGEX as the program's own code (repeatable)");
}

void add_own_code_options(CLI::App& command, CallSiteOptions& options) {
  add_own(command, options);
  add_switch(command, "--only-own", options.view.only_own,
             "Show the program's own code only (see --own); what other code allocates is a cost of the own code that "
             "called it, and other frames of stacks are folded")
      ->group(kCallSites);
}

void add_full_names(CLI::App& command, CallSiteOptions& options, const std::string& help) {
  CLI::Option* const full_names = add_switch(command, "--full-names", options.view.full_names, help);
  full_names->group(kCallSites);
  if (CLI::Option* const short_names = command.get_option_no_throw("--short-names"); short_names != nullptr)
    full_names->excludes(short_names);
}

void add_helper_options(CLI::App& command, CallSiteOptions& options) {
  add_patterns(command, "--helper", options.helpers,
               "Skip functions whose names match REGEX when call sites are named, since they allocate for their "
               "callers (repeatable)");
  add_switch(command, "!--no-helpers", options.find_helpers,
             "Skip only the functions of --helper, libc and standard libraries; do not look for others that are "
             "named like malloc, or that many functions allocate through")
      ->group(kCallSites);
}

void add_call_site_options(CLI::App& command, CallSiteOptions& options) {
  add_helper_options(command, options);
  add_own_code_options(command, options);
  add_full_names(command, options);
}

void add_source_paths(CLI::App& command, std::vector<std::string>& paths) {
  add_list(
      command, "--source-path", paths, "DIRECTORY",
      "Search source files below DIRECTORY first, by the ends of the paths in the debug information (repeatable)");
}

CLI::Option* add_labels(CLI::App& command, Labels& labels, const std::string& help) {
  return command
      .add_option(
          "--label",
          [&labels](const CLI::results_t& texts) {
            labels.clear();
            for (const std::string& text : texts) add_label(text, labels);
            return true;
          },
          help)
      ->type_name("KEY=VALUE")
      ->expected(CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false);
}

void add_top(CLI::App& command, std::size_t& top, const std::string& things) {
  add_number(command, "--top", top, "Print at most N " + things + "; 0: all");
}

CLI::Option* add_stacks(CLI::App& command, std::size_t& stacks) {
  return add_number(command, "--stacks", stacks,
                    "Print at most N stacks, the largest of each call site first; 0: all");
}

void add_frames(CLI::App& command, std::size_t& frames) {
  add_number(command, "--frames", frames, "Print at most N frames of each stack; 0: all");
}

void add_shared_frames(CLI::App& command, bool& shared) {
  add_switch(command, "--shared-frames", shared,
             "Write each frame once to the JSON, in \"frames\", and stacks as positions in that list; the output is "
             "a fraction of the size");
}

CLI::Option* add_cost(CLI::App& command, Cost& cost, const std::string& help) {
  return add_word(command, "--cost", cost, cost_names(), help);
}

}  // namespace heapprof::cli
