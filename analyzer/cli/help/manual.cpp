// Manual pages in roff. The build writes and installs them; by hand: heapprof manual report | man -l -
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "analyzer/cli/help/help.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/write_output.h"

namespace heapprof::cli {
namespace {

/// The date of the pages' contents. Not the day of the build, so that equal sources give equal files.
constexpr char kEdited[] = "2026-11-22";

/// Columns that man uses for text in a terminal of 80 columns.
constexpr std::size_t kLineWidth = 72;

/// Text between macros: nothing in it is a request, and hyphens stay hyphens when an option is copied.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') result += "\\e";
    else if (c == '-') result += "\\-";
    else if (c == '\'') result += "\\(aq";
    else if (c == '\n') result += ' ';
    else result += c;
  }
  if (!result.empty() && result.front() == '.') result.insert(0, "\\&");
  return result;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return text;
}

std::string head(const std::string& name, const std::string& summary) {
  return ".TH " + roff(upper(name)) + " 1 " + kEdited +
         " \"heapprof " HEAPPROF_VERSION "\" \"heapprof\"\n.SH NAME\n" + roff(name) + " \\- " + roff(summary) + "\n";
}

std::string option_text(const OptionHelp& option) {
  std::string left;
  for (const std::string& name : option.names) left += (left.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  if (!option.value.empty()) left += " \\fI" + roff(option.value) + "\\fR";
  return ".TP\n" + left + "\n" + (option.help.empty() ? "\\&" : roff(option.help)) + ".\n";
}

std::string exit_status_section(const std::vector<ExitStatus>& statuses) {
  std::string text = ".SH EXIT STATUS\n";
  for (const ExitStatus& one : statuses) text += ".TP\n" + roff(one.status) + "\n" + roff(one.meaning) + "\n";
  return text;
}

std::string overview() {
  std::string text = head("heapprof", kPurpose);
  text +=
      ".SH SYNOPSIS\n.B heapprof\n.I COMMAND\n[\\fIoptions\\fR] ...\n"
      ".SH DESCRIPTION\n"
      "heapprof records every allocation of an unmodified program with its call stack, in a trace, and analyzes the\n"
      "trace. A trace can be analyzed while the program runs, and after it ended or was killed.\n"
      ".PP\nWithout a command, heapprof prints how to begin. \\fBheapprof\\fR \\fITRACE\\fR is\n"
      "\\fBheapprof report\\fR \\fITRACE\\fR. A command whose only argument is the trace reads the newest recording\n"
      "in the current directory when none is given.\n"
      "\\fB\\-V\\fR or \\fB\\-\\-version\\fR prints the version, \\fB\\-\\-recorder\\-path\\fR the path of the\n"
      "recorder, for LD_PRELOAD.\n"
      ".SH COMMANDS\n";
  for (const CommandHelp& command : describe_commands())
    text += ".TP\n\\fBheapprof " + roff(command.name) + "\\fR\n" + roff(command.summary) + ".\n";
  text += exit_status_section(common_exit_statuses());
  text += ".SH SEE ALSO\n";
  const std::vector<std::string> pages = manual_pages();
  for (std::size_t i = 1; i < pages.size(); ++i)
    text += ".BR " + roff(pages[i]) + " (1)" + (i + 1 < pages.size() ? ",\n" : "\n");
  return text;
}

std::string page_of(const CommandHelp& command) {
  std::string text = head(page_name(command.name), command.summary);
  text += ".SH SYNOPSIS\n.B heapprof " + roff(command.name) + "\n[\\fIoptions\\fR]";
  if (!command.usage.empty()) text += "\n" + roff(command.usage);
  text += "\n.SH DESCRIPTION\n" + roff(command.summary) + ".\n";
  for (const OptionHelp& argument : command.arguments) text += option_text(argument);
  if (!command.footer.empty()) {
    // Lines of at most kLineWidth are kept as they are; longer ones become paragraphs.
    text += ".PP\n.nf\n";
    std::istringstream lines(command.footer);
    for (std::string line; std::getline(lines, line);) {
      if (line.size() > kLineWidth) text += ".fi\n" + roff(line) + "\n.nf\n";
      else text += (line.empty() ? "\\&" : roff(line)) + "\n";
    }
    text += ".fi\n";
  }
  text += ".SH OPTIONS\n";
  for (const OptionHelp& option : command.options) text += option_text(option);
  text += exit_status_section(exit_statuses(command));
  return text + ".SH SEE ALSO\n.BR heapprof (1)\n";
}

int write_pages(const std::string& directory) {
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  try {
    for (const std::string& name : manual_pages()) write_output(directory + "/" + name + ".1", manual_page(name));
  } catch (const OutputError& error) {
    print_message(error.what());
    return 1;
  }
  // Build tools compare the modification time of the directory, which rewriting its files does not change.
  std::filesystem::last_write_time(directory, std::filesystem::file_time_type::clock::now(), ignored);
  return 0;
}

}  // namespace

std::string page_name(const std::string& command) {
  std::string name = "heapprof-" + command;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::vector<std::string> manual_pages() {
  std::vector<std::string> names = {"heapprof"};
  for (const CommandHelp& command : runnable(describe_commands())) names.push_back(page_name(command.name));
  return names;
}

std::string manual_page(const std::string& name) {
  if (name == "heapprof") return overview();
  for (const CommandHelp& command : runnable(describe_commands()))
    if (page_name(command.name) == name || command.name == name) return page_of(command);
  return {};
}

int run_manual(const ManualOptions& options) {
  if (options.markdown) return print_text(reference_markdown(describe_commands()));
  if (options.list) {
    std::string names;
    for (const std::string& name : manual_pages()) names += name + "\n";
    return print_text(names);
  }
  if (!options.directory.empty()) return write_pages(options.directory);
  const std::string text = manual_page(options.page);
  if (!text.empty()) return print_text(text);
  print_message("unknown manual page '" + options.page + "'; 'heapprof manual --list' prints all names");
  return 2;
}

}  // namespace heapprof::cli
