#include "analyzer/cli/commands/shared/next_commands.h"

#include "analyzer/base/shell_quote.h"

namespace heapprof::cli {

std::string selection_words(const TraceOptions& options) {
  std::string words;
  for (const auto& [option, value] : selecting_options(options.texts, options.selection))
    words += ' ' + option + ' ' + shell_quoted(value);
  return words;
}

std::string cost_words(Cost cost) {
  for (const auto& [name, value] : cost_names())
    if (value == cost && cost != Cost::kPeak) return "--cost " + name;
  return {};
}

NextCommands& NextCommands::add(const std::string& label, const std::string& command, const std::string& argument,
                                const std::string& more) {
  return add_words(label, command + " TRACE" + (argument.empty() ? "" : " " + shell_quoted(argument)) +
                              (more.empty() ? "" : " " + more));
}

NextCommands& NextCommands::add_words(const std::string& label, const std::string& words) {
  commands_.emplace_back(label, "heapprof " + words + selection_);
  return *this;
}

void NextCommands::write(TextPage& page) const {
  if (commands_.empty()) return;
  page.line();
  for (const auto& [label, command] : commands_) page.command(label, command);
}

}  // namespace heapprof::cli
