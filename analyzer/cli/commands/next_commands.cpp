#include "analyzer/cli/commands/next_commands.h"

#include "analyzer/base/shell_quote.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {

std::string selection_words(const TraceOptions& options) {
  std::string words;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words += std::string(" ") + option + " " + shell_quoted(value);
  };
  const auto add_all = [&](const char* option, const std::vector<std::string>& values) {
    for (const std::string& value : values) add(option, value);
  };
  const SelectionTexts& texts = options.texts;
  add("--from", texts.from);
  add("--to", texts.to);
  add("--survivors", texts.survivors);
  add("--live-at", texts.live_at);
  add_all("--thread", texts.threads);
  add_all("--not-thread", texts.not_threads);
  add_all("--module", texts.modules);
  add_all("--not-module", texts.not_modules);
  add_all("--function", texts.functions);
  add_all("--not-function", texts.not_functions);
  const replay::Selection all;
  if (options.selection.min_size != all.min_size) add("--min-size", std::to_string(options.selection.min_size));
  if (options.selection.max_size != all.max_size) add("--max-size", std::to_string(options.selection.max_size));
  add("--min-lifetime", texts.min_lifetime);
  add("--max-lifetime", texts.max_lifetime);
  if (options.selection.kind == model::Kind::kMmap) add("--kind", "mmap");
  if (options.selection.kind == model::Kind::kAll) add("--kind", "all");
  return words;
}

std::string cost_words(Cost cost) {
  for (const auto& [name, value] : cost_names())
    if (value == cost && cost != Cost::kPeak) return "--cost " + name;
  return {};
}

NextCommands& NextCommands::add(const std::string& label, const std::string& command, const std::string& argument,
                                const std::string& more) {
  lines_.push_back(label + ": heapprof " + command + " TRACE" +
                   (argument.empty() ? "" : " " + shell_quoted(argument)) + (more.empty() ? "" : " " + more) +
                   selection_);
  return *this;
}

void NextCommands::write(TextPage& page) const {
  if (lines_.empty()) return;
  page.line();
  for (const std::string& text : lines_)
    for (const std::string& piece : render::wrapped(text, page.style().width)) page.line(piece);
}

}  // namespace heapprof::cli
