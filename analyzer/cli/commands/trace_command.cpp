#include "analyzer/cli/commands/trace_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/symbols/symbol_cache.h"
#include "analyzer/symbols/module_symbols.h"

namespace heapprof::cli {
namespace {

void warn_of_losses(const std::string& trace, const model::Integrity& integrity) {
  complain(trace + ": " + losses_of(integrity) + "; the rest was read. 'heapprof info' prints details");
}

/// When a wrapper script executes a program, the trace with the requested name is the wrapper's.
void name_later_trace(const std::string& trace, const replay::Analysis& analysis) {
  if (analysis.profile().integrity.ended_by != "exec") return;
  const std::string later = find_last_trace_of_process(trace, analysis.file().header());
  if (later.empty()) return;
  const std::string& program = analysis.profile().recording.program;
  complain(trace + ": " + (program.empty() ? "the program" : base_name(program)) +
           " executed another program; the recording of the process continues in " + later);
}

/// Prints why every figure is 0.
void explain_empty_result(const std::string& trace, const replay::Selection& selection) {
  if (selection.is_slice() || selection.needs_lifetimes() || selection.choose_stacks || !selection.all_sizes())
    complain(trace + ": nothing matches the selection");
  else if (!selection.all_threads())
    complain(trace + ": no allocation of that thread; 'heapprof info' lists the threads");
  else if (selection.kind == model::Kind::kMmap) complain(trace + ": the program made no mapping");
  else complain(trace + ": no allocation was recorded");
}

/// Whether the recording was made with HEAPPROF_MMAP=0.
bool lacks_mappings(const model::Profile& profile) {
  const auto& settings = profile.recording.settings;
  return std::find(settings.begin(), settings.end(), std::pair<std::string, std::string>("HEAPPROF_MMAP", "0")) !=
         settings.end();
}

/// A recording that is the value of an option was probably meant as TRACE, when there is none.
void refuse_recordings_as_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (!option->nonpositional() || option->get_items_expected_max() == 0 || name == "--baseline") continue;
    for (const std::string& value : option->results()) {
      if (!is_trace(value)) continue;
      if (name == "--output" || name == "--junit")
        throw CLI::ParseError(name + ": " + value + " is a recording, which the output would replace; name the TRACE " +
                                  "to read before the option, or give the output another name",
                              CLI::ExitCodes::ValidationError);
      throw CLI::ParseError("missing argument TRACE; " + value + " is the value of " + name,
                            CLI::ExitCodes::ValidationError);
    }
  }
}

}  // namespace

void complain(const std::string& text) { std::fprintf(stderr, "heapprof: %s\n", render::clean_utf8(text).c_str()); }

int guarded(const std::string& trace, const std::function<int()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    complain(trace + ": not enough memory");
  } catch (const replay::SelectionError& error) {
    complain(error.what());
    return 2;
  } catch (const std::runtime_error& error) {  // TraceError, OutputError
    complain(error.what());
  }
  return 1;
}

void add_shared_frames(CLI::App& command, bool& shared) {
  command.add_flag(
      "--shared-frames", shared,
      "In JSON each frame once, in \"frames\", and stacks as positions in it (with --top 0 a hundredth of the size)");
}

void add_trace_argument(CLI::App& command, std::string& trace, const std::string& help) {
  const CLI::Option* const argument = command.add_option(
      "TRACE", trace, help + "; without it, the newest recording (*.heapprof, *.hprof) in this folder");
  command.parse_complete_callback([&command, argument, &trace] {
    if (was_given(argument)) return;
    // What the parser did not know is complained of first.
    for (const CLI::App* app = &command; app != nullptr; app = app->get_parent())
      if (app->remaining_size() != 0) return;
    refuse_recordings_as_values(command);
    const NewestTrace newest = find_newest_trace();
    if (newest.path.empty())
      throw CLI::ParseError(
          "missing argument TRACE: there is no recording (*.heapprof, *.hprof) in this folder; make one with "
          "'heapprof record -- PROGRAM'",
          CLI::ExitCodes::ValidationError);
    trace = newest.path;
    complain("reading " + trace +
             (newest.count == 1 ? ", the only recording in this folder"
                                : ", the newest of " + render::exact_number(newest.count) +
                                      " recordings in this folder"));
  });
}

bool ends_in(const std::string& path, const std::string& ending) {
  return path.ends_with(ending) && path.size() > ending.size() && path[path.size() - ending.size() - 1] != '/';
}

bool was_given(const CLI::Option* option) { return option->count() != 0; }

void refuse_terminal(const std::string& output, const std::string& what, const std::string& example) {
  if (output != "-" || ::isatty(STDOUT_FILENO) == 0) return;
  throw CLI::ParseError("standard output is a terminal, which cannot show " + what +
                            "; write it to a file: -o " + example,
                        CLI::ExitCodes::ValidationError);
}

void add_trace_options(CLI::App& command, TraceOptions& options, const TraceCommand& has) {
  const std::string help = "Trace to read: finished, killed or still being written";
  if (has.sole_argument) add_trace_argument(command, options.trace, help);
  else command.add_option("TRACE", options.trace, help)->required();
  auto* output = command.add_option("-o,--output", options.output, "Where the output goes; - is standard output");
  if (has.output_required) output->required();
  else output->capture_default_str();
  if (has.json) {
    command.add_flag("--json", options.json,
                     has.json_by_name ? "Figures for programs; also when the name of -o ends in .json"
                                      : "Figures for programs");
    if (has.json_by_name)
      output->each([&options](const std::string& name) { options.json = options.json || ends_in(name, ".json"); });
  }

  const auto size = whole_size();
  command.add_option("--min-size", options.selection.min_size, "Only allocations of at least this size (4K, 1M, ...)")
      ->transform(size)->group("Selection");
  command.add_option("--max-size", options.selection.max_size, "Only allocations of at most this size")
      ->transform(size)->group("Selection");
  const auto text = [&](const char* name, std::string& value, const char* help) {
    command.add_option(name, value, help)->group("Selection");
  };
  const auto texts = [&](const char* name, std::vector<std::string>& values, const char* help) {
    command.add_option(name, values, help)->allow_extra_args(false)->group("Selection");
  };
  SelectionTexts& given = options.texts;
  text(
      "--from", given.from,
      "Only what happens from this moment on: seconds since the start, with a unit (300ms), or 40%. Its peak is made "
      "of all that was live then; leaks are blocks allocated in the slice and live at its end");
  text("--to", given.to, "Only what happens up to this moment");
  text("--live-at", given.live_at, "Only blocks that were live at this moment, which lies in the recording");
  text("--min-lifetime", given.min_lifetime,
       "Only blocks that lived at least so long (20us, 1.5); to the trace's end, if never released");
  text("--max-lifetime", given.max_lifetime, "Only blocks released within this time");
  texts("--thread", given.threads, "Only allocations of this thread: its tid or name (repeatable)");
  texts("--module", given.modules,
        "Only stacks through this program or library: name or path, * and ? allowed (repeatable)");
  texts("--function", given.functions,
        "Only stacks with a function that fits this extended regular expression, or contains it as it stands "
        "(repeatable)");
  texts("--not-function", given.not_functions, "Only stacks with no function that fits (repeatable)");
  const WordsFor<model::Kind> kinds = {
      {"heap", model::Kind::kHeap}, {"mmap", model::Kind::kMmap}, {"all", model::Kind::kAll}};
  command
      .add_option("--kind", options.selection.kind, "Blocks of the heap, mappings, or both; all counts no byte twice")
      ->transform(one_of(kinds))
      ->default_str("heap")
      ->group("Selection");
  command.add_flag("!--no-index", options.use_index, "Use no index of the trace, and leave none in the cache")
      ->group("Selection");
  add_symbol_options(command, options.symbols);
}

void add_symbol_options(CLI::App& command, symbols::Options& options) {
  options.cache_folder = symbols::SymbolCache::default_folder();
  command.add_option("--sysroot", options.sysroot, "Folder that stands for / of the machine that recorded")
      ->group("Symbols");
  command.add_option("--debug-dir", options.debug_dirs, "Look for debug files here, too (repeatable)")
      ->allow_extra_args(false)->group("Symbols");
  command.add_flag("!--no-inlines", options.inlines, "Leave out inlined functions")->group("Symbols");
  command.add_flag("--short-names", options.short_names,
                   "Leave template arguments and parameters out of long names: std::vector<...>::push_back(...)")
      ->group("Symbols");
  command.add_flag("!--no-symbols", options.symbols, "Print modules and offsets, look nothing up")
      ->group("Symbols");
  command.add_flag("--debuginfod", options.debuginfod, "Ask the servers of DEBUGINFOD_URLS for debug files")
      ->group("Symbols");
  command.add_flag_callback("--no-symbol-cache", [&options] { options.cache_folder.clear(); },
                            "Look every name up anew, keep none (HEAPPROF_SYMBOL_CACHE=off does the same)")
      ->group("Symbols");
}

int run_on_trace(const TraceOptions& options, const std::function<void(const replay::Analysis&)>& print) {
  return guarded(options.trace, [&] {
    replay::Selection selection = options.selection;
    try {
      settle_selection(options.texts, options.symbols, selection);
    } catch (const std::invalid_argument& error) {
      complain(error.what());
      return 2;
    }
    if (options.output_is_recording) refuse_trace_as_output(options.output, options.trace);
    else refuse_recording_as_output(options.output, options.trace);
    ProgressLine progress("Reading " + options.trace);
    const replay::Analysis analysis(
        options.trace, selection, [&](double share, std::uint64_t records) { progress.show(share, records); },
        {.use = options.use_index, .keep = options.use_index}, symbols::decode_shared_symbols);
    progress.show(1, 0);
    for (const std::string& warning : analysis.warnings()) complain(warning);
    print(analysis);
    const bool unknown_mappings = selection.kind != model::Kind::kHeap && lacks_mappings(analysis.profile());
    if (unknown_mappings)
      complain(options.trace + ": mappings were not recorded (HEAPPROF_MMAP=0)");
    else if (analysis.profile().totals.empty()) explain_empty_result(options.trace, selection);
    name_later_trace(options.trace, analysis);
    if (analysis.profile().integrity.complete) return unknown_mappings ? 1 : 0;
    warn_of_losses(options.trace, analysis.profile().integrity);
    return 1;
  });
}

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat of_a {};
  struct stat of_b {};
  return ::stat(a.c_str(), &of_a) == 0 && ::stat(b.c_str(), &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

void refuse_trace_as_output(const std::string& path, const std::string& trace) {
  if (path != "-" && is_same_file(path, trace))
    throw OutputError(path + ": is the trace itself; give the output another name");
}

void refuse_recording_as_output(const std::string& path, const std::string& trace) {
  refuse_trace_as_output(path, trace);
  if (path != "-" && is_trace(path))
    throw OutputError(path + ": is a recording, which the output would replace; give the output another name");
}

}  // namespace heapprof::cli
