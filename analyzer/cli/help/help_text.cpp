// CLI11's help names types as C++ does and leaves lines as long as they are. Here options have the names of values
// that the manual pages have, what is asked first stands before the selections that every command has, and lines end
// where a terminal's commonly do.
#include "analyzer/cli/help/help_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <string_view>

#include "analyzer/cli/options/command_help.h"
#include "analyzer/cli/commands/trace_command.h"
#include "analyzer/cli/options/spelling_suggestion.h"
#include "analyzer/render/text.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

constexpr std::size_t kColumn = 30;      ///< where descriptions begin
constexpr std::size_t kMaxWidth = 100;   ///< as wide as reports are

std::string in_lines(const std::string& text, std::size_t width) {
  std::string result;
  for (const std::string& line : render::wrapped(text, width)) result += (result.empty() ? "" : "\n") + line;
  return result;
}

class Layout : public CLI::Formatter {
 public:
  Layout() {
    column_width(kColumn);
    label("OPTIONS", "options");
    label("SUBCOMMAND", "COMMAND");
    label("Positionals", "Arguments");
  }

  std::string make_description(const CLI::App* app) const override { return app->get_description() + "\n\n"; }

  std::string make_footer(const CLI::App* app) const override {
    std::string footer = app->get_footer();
    if (footer.empty() && app->get_parent() != nullptr) footer = app->get_parent()->get_footer();
    return footer.empty() ? footer : in_lines(footer, width()) + "\n";
  }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    // One empty line between parts, none at the end.
    std::string text = make_description(app) + make_usage(app, name) + make_positionals(app) + options_of(app) +
                       make_subcommands(app, mode);
    if (const std::string footer = make_footer(app); !footer.empty()) text += "\n" + footer;
    return text;
  }

  std::string make_subcommand(const CLI::App* sub) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, sub->get_display_name(true), in_lines(sub->get_description(), width() - kColumn),
                             kColumn);
    return out.str();
  }

  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    if (positional) return operand_name(*option);
    std::string names;
    for (const std::string& name : option_names(*option)) names += (names.empty() ? "" : ", ") + name;
    return names;
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (!option->nonpositional()) return {};
    const std::string value = value_name(*option);
    return value.empty() ? value : " " + value;
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return in_lines(option_help(*option), width() - kColumn);
  }

  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string name = operand_name(*option);
    return option->get_required() || name.find(' ') != std::string::npos ? name : "[" + name + "]";
  }

 private:
  /// Group by group; what every command has stands last.
  std::string options_of(const CLI::App* app) const {
    std::vector<std::string> groups = app->get_groups();
    std::stable_partition(groups.begin(), groups.end(),
                          [](const std::string& group) { return group != "Selection" && group != "Symbols"; });
    std::string text;
    for (const std::string& group : groups) {
      const auto options = app->get_options(
          [&group](const CLI::Option* option) { return option->get_group() == group && option->nonpositional(); });
      if (!group.empty() && !options.empty()) text += make_group(group, false, options);
    }
    return text;
  }

  static std::size_t width() {
    const std::size_t columns = terminal_columns("-");
    return columns == 0 ? kMaxWidth : std::clamp<std::size_t>(columns, 60, kMaxWidth);
  }
};

/// Of what the parser did not know the first word if it should be a command, else the first option without its value;
/// empty: there is none.
std::string unexpected_word(const std::vector<std::string>& words, bool command) {
  const auto is_option = [](const std::string& word) {
    return word.size() > 1 && word.front() == '-' && word != "--";
  };
  const auto found = command ? words.begin() : std::find_if(words.begin(), words.end(), is_option);
  if (found == words.end()) return {};
  return is_option(*found) ? found->substr(0, found->find('=')) : *found;
}

std::vector<std::string> all_option_names(const CLI::App* command) {
  std::vector<std::string> all;
  if (command->get_name() == "record")  // whose options the parser does not know (commands.h)
    for (const launch::OptionHelp& option : launch::described_options())
      all.insert(all.end(), option.names.begin(), option.names.end());
  for (const CLI::Option* option : command->get_options()) {
    const std::vector<std::string> names = option_names(*option);
    all.insert(all.end(), names.begin(), names.end());
  }
  return all;
}

std::vector<std::string> commands_of(const CLI::App* group) {
  std::vector<std::string> names;
  for (const CLI::App* command : group->get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

/// The parser's sentences name types as C++ does, and begin like sentences of their own.
std::string in_our_words(const CLI::Error& error) {
  const std::string text = error.what();
  const std::string_view no_conversion = "Could not convert: ";
  if (const std::size_t equals = text.find(" = "); text.starts_with(no_conversion) && equals != std::string::npos)
    return text.substr(no_conversion.size(), equals - no_conversion.size()) + ": '" + text.substr(equals + 3) +
           "' can't be read";
  if (const std::size_t colon = text.find(": 1 required "); colon != std::string::npos && text.ends_with(" missing"))
    return text.substr(0, colon) + " needs a value";
  return text;
}

/// The commands that have an option of this name.
std::vector<std::string> commands_with(const CLI::App* app, const std::string& option) {
  std::vector<std::string> names;
  for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
    const std::vector<std::string> all = all_option_names(command);
    if (std::find(all.begin(), all.end(), option) != all.end()) names.push_back(command->get_name());
  }
  return names;
}

/// Of an option that stands before the command that it belongs to: where it should stand. Empty: there is none.
std::string misplaced_option(const CLI::App* app, const CLI::App* command, const std::string& words) {
  const std::vector<std::string> known = all_option_names(command);
  for (const CLI::App* group = command->get_parent(); group != nullptr; group = group->get_parent()) {
    const std::string option = unexpected_word(group->remaining(), false);
    if (!option.empty() && std::find(known.begin(), known.end(), option) != known.end())
      return option + " is an option of '" + words + "': write it behind that, '" + words + " " + option + "'";
  }
  if (command != app) return {};
  const std::string option = unexpected_word(app->remaining(), false);
  const std::vector<std::string> commands = commands_with(app, option);
  if (commands.empty()) return {};
  return option + " is an option of commands: write it behind one, 'heapprof " + commands.front() + " " + option +
         "'";
}

/// What is wrong, and whose --help tells what would be right.
std::string complaint(const CLI::App* app, const CLI::Error& error) {
  std::string words = "heapprof";
  const CLI::App* command = app;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    words += " " + command->get_name();
  }
  std::string what = in_our_words(error);
  const bool missing = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError);
  const bool extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  const bool wants_command = command->get_require_subcommand_min() > 0;
  const std::vector<std::string> rest = app->remaining(true);
  const std::string word = unexpected_word(rest, wants_command);
  const std::string misplaced = missing || extra ? misplaced_option(app, command, words) : std::string();
  if (!misplaced.empty()) {
    what = misplaced;
  } else if ((missing || extra) && word.starts_with('-')) {
    // Said first: it may be why something required is missing.
    what = "unknown option " + word + launch::did_you_mean(word, all_option_names(command));
  } else if (missing && wants_command) {
    what = word.empty()
               ? "a command is missing behind '" + words + "'"
               : "there is no '" + words + " " + word + "'" + launch::did_you_mean(word, commands_of(command));
  }
  if (extra && word.empty() && !rest.empty()) what = "one word too many: '" + rest.front() + "'";
  return "heapprof: " + render::clean_utf8(what) + "\n'" + words + " --help' says what there is\n";
}

}  // namespace

void lay_out_help(CLI::App& app) {
  app.formatter(std::make_shared<Layout>());
  app.failure_message(complaint);
}

}  // namespace heapprof::cli
