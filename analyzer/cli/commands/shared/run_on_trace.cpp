#include "analyzer/cli/commands/shared/run_on_trace.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "analyzer/base/reason_of.h"
#include "analyzer/cli/commands/shared/peak_moment.h"
#include "analyzer/cli/commands/shared/standing_answers.h"
#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/text/interpreter_frames.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/symbols/module_symbols.h"

namespace heapprof::cli {
namespace {

/// When a wrapper script executes a program, the trace with the requested name is the wrapper's.
void name_later_trace(const std::string& trace, const replay::Analysis& analysis) {
  if (analysis.profile().integrity.ended_by != "exec") return;
  const std::string later = find_last_trace_of_process(trace, analysis.file().header());
  if (later.empty()) return;
  const std::string& program = analysis.profile().recording.program;
  print_message(trace + ": " + (program.empty() ? "the program" : base_name(program)) +
                " executed another program; the recording of the process continues in " + later);
}

/// If every figure is 0, prints why.
void explain_empty_result(const std::string& trace, const replay::Selection& selection,
                          const replay::Analysis& analysis) {
  if (selection.only_live) {
    if (!analysis.names_found()) print_message(trace + ": nothing matches the selection");
    return;
  }
  if (!analysis.profile().totals.empty()) return;
  if (selection.is_slice() || selection.needs_lifetimes() || selection.select_stacks || !selection.all_sizes())
    print_message(trace + ": nothing matches the selection");
  else if (!selection.all_threads())
    print_message(trace + ": no allocation of the selected threads; 'heapprof info' lists the threads");
  else if (selection.kind == model::Kind::kMmap) print_message(trace + ": the program made no mapping");
  else print_message(trace + ": no allocation was recorded");
}

}  // namespace

bool lacks_mappings(const model::Profile& profile) {
  const auto& settings = profile.recording.settings;
  return profile.kind != model::Kind::kHeap &&
         std::find(settings.begin(), settings.end(), std::pair<std::string, std::string>("HEAPPROF_MMAP", "0")) !=
             settings.end();
}

int guarded(const std::string& trace, const std::function<int()>& work) {
  try {
    return work();
  } catch (const replay::SelectionError& error) {
    print_message(error.what());
    return 2;
  } catch (const std::runtime_error& error) {  // TraceError, OutputError, FileError
    print_message(error.what());
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    print_message(trace + ": " + kNotEnoughMemory);
  }
  return 1;
}

int run_on_trace(const TraceOptions& given, const std::function<void(const replay::Analysis&)>& print,
                 const replay::LeakVisitor& visit_leaked, const replay::MappingVisitor& visit_mapping) {
  return guarded(given.trace, [&] {
    TraceOptions options = given;
    resolve_peak(options);
    replay::Selection selection;
    std::shared_ptr<const std::vector<UnmatchedValue>> unmatched_functions;
    try {
      resolve_own_peak(options);
      selection = options.selection;
      fold_interpreter_frames(options.symbols, selection);
      unmatched_functions = resolve_selection(options.texts, options.symbols, selection);
    } catch (const std::invalid_argument& error) {
      print_message(error.what());
      return 2;
    }
    if (options.output_is_recording) refuse_trace_as_output(options.output, options.trace);
    else refuse_recording_as_output(options.output, options.trace);
    ProgressLine progress("Reading " + options.trace);
    const auto show = [&](const replay::Done& done) { progress.show(done); };
    replay::Followed* const followed = followed_program(options.trace, selection, show);
    const replay::Analysis analysis(options.trace, selection, show,
                                    {.use = options.use_index, .keep = options.use_index},
                                    symbols::decode_shared_symbols, visit_leaked, visit_mapping, followed);
    progress.end();
    for (const std::string& warning : analysis.warnings()) print_message(warning);
    std::vector<UnmatchedValue> unmatched;
    if (!options.one_of_several) {
      unmatched = *unmatched_functions;
      std::ranges::move(unmatched_modules_and_threads(analysis.profile(), options.texts),
                        std::back_inserter(unmatched));
    }
    for (const UnmatchedValue& value : unmatched) print_message(options.trace + ": " + value.sentence);
    const bool is_empty_explained =
        std::ranges::any_of(unmatched, [](const UnmatchedValue& one) { return !one.excludes; });
    print(analysis);
    const bool unknown_mappings = lacks_mappings(analysis.profile());
    if (unknown_mappings) print_message(options.trace + ": " + kNoMappings);
    else if (!is_empty_explained && !options.one_of_several) explain_empty_result(options.trace, selection, analysis);
    if (!options.one_of_several) name_later_trace(options.trace, analysis);
    if (analysis.profile().integrity.complete) return unknown_mappings ? 1 : 0;
    warn_of_losses(options.trace, analysis.profile().integrity);
    return 1;
  });
}

void warn_of_losses(const std::string& trace, const model::Integrity& integrity) {
  print_message(trace + ": " + losses_of(integrity) + "; the rest was read. 'heapprof info' prints details");
}

void refuse_trace_as_output(const std::string& path, const std::string& trace) {
  std::error_code ignored;
  if (path != "-" && std::filesystem::equivalent(path, trace, ignored))
    throw OutputError(path + ": is the trace itself; give the output another name");
}

void refuse_recording_as_output(const std::string& path, const std::string& trace) {
  refuse_trace_as_output(path, trace);
  if (path != "-" && is_trace(path))
    throw OutputError(path + ": is a recording, which the output would replace; give the output another name");
}

}  // namespace heapprof::cli
