// heapprof source: the lines of a source file or function, with what each costs; or the files that have costs.
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/merged_recordings.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/commands/where_memory_went/named_functions.h"
#include "analyzer/cli/commands/where_memory_went/source_output.h"
#include "analyzer/cli/text/figures.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/symbols/sysroot.h"
#include "analyzer/trace/embedded_symbols.h"

namespace heapprof::cli {
namespace {

using views::SourceFile;

/// The source files that the trace contains. Prints a message if they are damaged.
symbols::PackedSources packed_sources(const trace::TraceFile& file) {
  if (!file.symbols()) return {};
  const std::optional<std::string> packed = trace::read_sources(file.input(), file.file_id(), *file.symbols());
  if (packed && packed->empty()) return {};
  if (auto sources = packed ? symbols::decode_sources(*packed) : std::nullopt) return std::move(*sources);
  print_message(file.input().path() + ": its source files are damaged; they are searched on this machine");
  return {};
}

/// When the code that contains the file was built, at the latest: when its module was last changed, or the recording
/// began.
std::uint64_t built_ns(const SourceAnswer& answer, const SourceFile& file) {
  std::uint64_t built = answer.profile.recording.start_realtime_ns;
  for (const std::uint32_t module : file.modules) {
    struct stat status {};
    const std::string path =
        symbols::path_in_sysroot(answer.options.trace.symbols.sysroot, answer.profile.modules[module].path);
    if (path.empty() || ::stat(path.c_str(), &status) != 0) continue;
    built = std::min(built, static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
                                static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
  }
  return built;
}

/// What is suspicious about the text: it may not be that of the recorded program.
std::string warning_about(const SourceAnswer& answer, const SourceListing& listing) {
  const auto lines = static_cast<int>(symbols::lines_of(listing.text->text).size());
  const int last = listing.file.lines.empty() ? 0 : listing.file.lines.back().line;
  if (last > lines)
    return "The file has only " + render::exact_number(static_cast<std::uint64_t>(lines)) +
           " lines, but the program has code of line " + std::to_string(last) +
           ": it is another version of the file, and its lines do not belong to these figures.";
  if (listing.text->changed_ns && *listing.text->changed_ns > built_ns(answer, listing.file))
    return "The file was changed after the program was built; its lines may have moved.";
  return {};
}

SourceListing list_source(const SourceAnswer& answer, const symbols::SourcePlaces& places, const SourceFile& file,
                          std::string function) {
  SourceListing listing{file, std::move(function), 0, std::nullopt, {}, {}};
  listing.text = symbols::find_source(places, file.path, listing.why_no_text);
  if (listing.text) listing.warning = warning_about(answer, listing);
  return listing;
}

/// Prints that several files match, and which.
void print_ambiguity(const SourceAnswer& answer, const std::string& what,
                     const std::vector<const SourceFile*>& files) {
  constexpr std::size_t kMaxNamed = 10;
  std::string message = answer.options.trace.trace + ": " + what + "; name one of them: ";
  for (std::size_t i = 0; i < std::min(files.size(), kMaxNamed); ++i) {
    message += (i == 0 ? "" : ", ") + file_name_of(answer.profile, *files[i]);
    std::string modules;
    for (const std::uint32_t module : files[i]->modules)
      modules += (modules.empty() ? " (in " : " and ") + base_name(answer.profile.modules[module].path);
    message += modules + (modules.empty() ? "" : ")");
  }
  if (files.size() > kMaxNamed) message += ", and " + std::to_string(files.size() - kMaxNamed) + " more";
  print_message(message);
}

void print_listing(const SourceAnswer& answer, const SourceListing& listing) {
  write_output(answer.options.trace.output,
               answer.options.trace.json ? dump(listing_json(answer, listing)) : listing_text(answer, listing));
}

/// "parse.cpp:12" as a file and a line.
std::optional<std::pair<std::string, int>> file_and_line(const std::string& what) {
  constexpr int kMaxDigits = 8;
  const std::size_t colon = what.rfind(':');
  if (colon == std::string::npos || colon == 0 || what.size() - colon - 1 > kMaxDigits) return std::nullopt;
  const std::string digits = what.substr(colon + 1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const int line = std::stoi(digits);
  return line == 0 ? std::nullopt : std::optional(std::pair(what.substr(0, colon), line));
}

/// Prints the file that the user names. False: there is none, and nothing was printed.
bool print_file(const SourceAnswer& answer, const symbols::SourcePlaces& places, bool& answered) {
  const std::vector<SourceFile> files = views::source_costs(answer.findings.frames(), answer.findings.helpers());
  std::vector<const SourceFile*> named = views::files_named(files, answer.profile, answer.options.what);
  int around = 0;
  if (const auto with_line = file_and_line(answer.options.what); named.empty() && with_line) {
    named = views::files_named(files, answer.profile, with_line->first);
    around = with_line->second;
  }
  if (named.empty()) return false;
  answered = named.size() == 1;
  if (answered) {
    SourceListing listing = list_source(answer, places, *named.front(), {});
    listing.around = around;
    const auto line_count = listing.text ? static_cast<int>(symbols::lines_of(listing.text->text).size()) : 0;
    if (listing.text && around > line_count) {
      print_message(answer.options.trace.trace + ": " + render::clean_utf8(answer.options.what) +
                    ": the file has only " + std::to_string(line_count) + " lines");
      answered = false;
      return true;
    }
    print_listing(answer, listing);
  } else
    print_ambiguity(
        answer, std::to_string(named.size()) + " files are called '" + render::clean_utf8(answer.options.what) + "'",
        named);
  return true;
}

/// Prints the lines of the function that the user names. False: there is none, and nothing was printed.
bool print_function(const SourceAnswer& answer, const symbols::SourcePlaces& places, bool& answered) {
  const NamedFunctions named = functions_named(answer.findings, answer.options.what);
  if (named.functions.empty()) return false;
  std::vector<std::uint8_t> only(answer.findings.frames().functions().size(), 0);
  for (const std::uint32_t function : named.functions) only[function] = 1;
  const std::vector<SourceFile> files =
      views::source_costs(answer.findings.frames(), answer.findings.helpers(), &only);
  std::vector<const SourceFile*> with_paths;
  for (const SourceFile& file : files)
    if (!file.path.empty()) with_paths.push_back(&file);
  const std::string what = "'" + render::clean_utf8(answer.options.what) + "'";
  if (with_paths.empty()) {
    print_message(answer.options.trace.trace + ": the source file of " + what +
                  " is not known; install its debug information, or name its directory with --debug-dir");
    answered = false;
    return true;
  }
  answered = with_paths.size() == 1;
  if (answered) print_listing(answer, list_source(answer, places, *with_paths.front(), named.name));
  else print_ambiguity(answer, "functions named " + what + " are in several files", with_paths);
  return true;
}

void print_files(const SourceAnswer& answer) {
  std::vector<SourceFile> files = views::source_costs(answer.findings.frames(), answer.findings.helpers());
  const Figure& figure = figure_of(answer.options.cost);
  std::stable_sort(files.begin(), files.end(), [&](const SourceFile& a, const SourceFile& b) {
    return std::pair(figure.of(a.self), figure.of(a.total)) > std::pair(figure.of(b.self), figure.of(b.total));
  });
  write_output(answer.options.trace.output,
               answer.options.trace.json ? dump(files_json(answer, files)) : files_text(answer, files));
}

/// Returns whether there is what the user named.
bool print_source(const SourceOptions& options, const model::Profile& profile, symbols::PackedSources packed) {
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes_of_findings(profile));
  const Findings findings(profile, names, options.call_sites);
  const SourceAnswer answer{options, profile, names, findings};
  if (options.what.empty()) {
    print_files(answer);
    return true;
  }
  const symbols::SourcePlaces places{options.source_paths, options.trace.symbols.sysroot, std::move(packed)};
  bool answered = true;
  if (print_file(answer, places, answered) || print_function(answer, places, answered)) return answered;
  std::vector<std::string> file_names;
  for (const SourceFile& file : views::source_costs(findings.frames(), findings.helpers()))
    if (!file.path.empty()) file_names.push_back(base_name(file.path));
  print_message(options.trace.trace + ": no file and no function '" + render::clean_utf8(options.what) +
                "' has costs" + render::clean_utf8(suggested_names(findings, options.what, file_names)));
  return false;
}

}  // namespace

int run_source(const SourceOptions& options) {
  bool found = true;
  const TraceOptions trace = for_costs(options.trace);
  symbols::PackedSources packed;
  const auto add_packed = [&](const replay::Analysis& analysis) { packed.merge(packed_sources(analysis.file())); };
  const int status =
      options.trace.traces.empty()
          ? run_on_trace(trace,
                         [&](const replay::Analysis& analysis) {
                           add_packed(analysis);
                           found = print_source(options, analysis.profile(), std::move(packed));
                         })
          : run_on_recordings(
                trace,
                [&](const RecordingSet&, const MergedRecordings& merged) {
                  found = print_source(options, merged.profile, std::move(packed));
                },
                [&](std::size_t, const replay::Analysis& analysis, std::uint64_t) { add_packed(analysis); });
  return found ? status : std::max(status, 1);
}

}  // namespace heapprof::cli
