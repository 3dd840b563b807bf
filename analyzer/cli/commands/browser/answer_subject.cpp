#include "analyzer/cli/commands/browser/answer_subject.h"

#include <utility>

#include "analyzer/cli/commands/leaks/suppressed_leaks.h"

namespace heapprof::cli {
namespace {

using Words = std::vector<std::string>;

Words symbol_words(const symbols::Options& symbols) {
  Words words;
  if (!symbols.sysroot.empty()) words.push_back("--sysroot=" + symbols.sysroot);
  for (const std::string& directory : symbols.debug_dirs) words.push_back("--debug-dir=" + directory);
  if (!symbols.inlines) words.emplace_back("--no-inlines");
  if (symbols.short_names) words.emplace_back("--short-names");
  if (!symbols.symbols) words.emplace_back("--no-symbols");
  if (symbols.interpreter_frames) words.emplace_back("--interpreter-frames");
  if (symbols.debuginfod) words.emplace_back("--debuginfod");
  if (symbols.cache_directory.empty()) words.emplace_back("--no-symbol-cache");
  return words;
}

Words suppression_words(const SuppressionOptions& suppressions) {
  Words words;
  for (const std::string& file : suppressions.files) words.push_back("--suppressions=" + file);
  if (!suppressions.built_in) words.emplace_back("--no-default-suppressions");
  if (!suppressions.suppress) words.emplace_back("--no-suppressions");
  return words;
}

}  // namespace

serve::Subject answer_subject(std::vector<std::string> traces, const AnswerOptions& options) {
  (void)read_suppressions(options.suppressions);
  serve::Subject subject;
  subject.traces = std::move(traces);
  subject.symbol_words = symbol_words(options.symbols);
  for (const std::string& path : options.source_paths) subject.source_words.push_back("--source-path=" + path);
  if (!options.project_file.empty()) subject.project_words.push_back("--config=" + options.project_file);
  if (!options.use_project_file) subject.project_words.emplace_back("--no-config");
  for (const std::string& pattern : options.call_sites.own) subject.own_words.push_back("--own=" + pattern);
  if (options.call_sites.view.full_names) subject.own_words.emplace_back("--full-names");
  for (const std::string& pattern : options.call_sites.helpers) subject.helper_words.push_back("--helper=" + pattern);
  if (!options.call_sites.find_helpers) subject.helper_words.emplace_back("--no-helpers");
  subject.suppression_words = suppression_words(options.suppressions);
  return subject;
}

}  // namespace heapprof::cli
