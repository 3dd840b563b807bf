// heapprof manual: manual pages in roff, made from the same description of the commands as --help. The build writes
// and installs them; by hand: heapprof manual report | man -l -
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "analyzer/cli/options/command_help.h"

namespace heapprof::cli {
namespace {

using launch::OptionHelp;

/// When what the pages say last changed; not the day of the build, so that equal sources give equal files.
constexpr char kEdited[] = "2026-11-22";

/// What man leaves of 80 columns.
constexpr std::size_t kLineWidth = 72;

/// Text between macros: nothing in it is a request, hyphens stay hyphens for whoever copies an option.
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
  std::string text = ".TP\n";
  std::string left;
  for (const std::string& name : option.names) left += (left.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  if (!option.value.empty()) left += " \\fI" + roff(option.value) + "\\fR";
  return text + left + "\n" + (option.help.empty() ? "\\&" : roff(option.help)) + ".\n";
}

std::string exit_status(bool reads_trace, bool has_limits) {
  std::string text = ".SH EXIT STATUS\n.TP\n0\nAll is well.\n.TP\n1\n";
  text += reads_trace ? "The trace could not be read, or lacks something that was recorded; what it has was printed.\n"
                      : "It could not be done; a message says why.\n";
  text += ".TP\n2\nThe command line is wrong.\n";
  if (has_limits) text += ".TP\n3\nA limit of \\fBheapprof check\\fR was passed.\n";
  return text;
}

const char* const kRecordExitStatus =
    ".SH EXIT STATUS\n"
    "That of the program; 128 + n when signal n ended it. When it could not be started:\n"
    ".TP\n2\nThe command line, a variable or the output is wrong.\n"
    ".TP\n125\nheapprof itself failed.\n"
    ".TP\n126\nThe program cannot be executed, or cannot be recorded (static, setuid, another architecture).\n"
    ".TP\n127\nThere is no such program.\n";

std::string overview(const CLI::App& app) {
  std::string text = head("heapprof", "tells where a program's memory went");
  text +=
      ".SH SYNOPSIS\n.B heapprof\n.I COMMAND\n[\\fIoptions\\fR] ...\n"
      ".SH DESCRIPTION\n"
      "heapprof records every allocation of an unmodified program together with the call stack that made it, and\n"
      "answers questions about the recording, its trace. Every command works on a finished trace, on one whose\n"
      "program was killed, and on one that is still being written.\n"
      ".PP\nWithout a command it prints how to begin. \\fBheapprof\\fR \\fIFILE\\fR is\n"
      "\\fBheapprof report\\fR \\fIFILE\\fR, and a command whose only argument is the trace reads the newest\n"
      "recording in the current folder when none is named.\n"
      "\\fB\\-V\\fR or \\fB\\-\\-version\\fR prints the version.\n"
      ".SH COMMANDS\n";
  for (const auto& [name, summary] : first_words(app))
    text += ".TP\n\\fBheapprof " + roff(name) + "\\fR\n" + roff(summary) + ".\n";
  text += exit_status(true, true);
  text += ".SH SEE ALSO\n";
  const std::vector<std::string> pages = manual_pages(app);
  for (std::size_t i = 1; i < pages.size(); ++i)
    text += ".BR " + roff(pages[i]) + " (1)" + (i + 1 < pages.size() ? ",\n" : "\n");
  return text;
}

std::string page_of(const CommandHelp& command) {
  std::string text = head(page_name(command.name), command.summary);
  text += ".SH SYNOPSIS\n.B heapprof " + roff(command.name) + "\n[\\fIoptions\\fR]";
  if (!command.operands.empty()) text += "\n" + roff(command.operands);
  text += "\n.SH DESCRIPTION\n" + roff(command.summary) + ".\n";
  if (!command.words.empty() && !command.takes_file) {
    text += ".PP\nAllowed: ";
    for (const std::string& word : command.words) text += (&word == &command.words.front() ? "" : ", ") + roff(word);
    text += ".\n";
  }
  if (!command.footer.empty()) {
    // Each line of it stands for itself; those that 80 columns do not hold are paragraphs.
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
  const bool reads_trace = command.operands.find("TRACE") != std::string::npos && command.name != "control";
  text += command.runs_program ? kRecordExitStatus : exit_status(reads_trace, command.name == "check");
  return text + ".SH SEE ALSO\n.BR heapprof (1)\n";
}

}  // namespace

std::string page_name(const std::string& command) {
  std::string name = "heapprof-" + command;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::vector<std::string> manual_pages(const CLI::App& app) {
  std::vector<std::string> names = {"heapprof"};
  for (const CommandHelp& command : describe_commands(app)) names.push_back(page_name(command.name));
  return names;
}

std::string manual_page(const CLI::App& app, const std::string& name) {
  if (name == "heapprof") return overview(app);
  for (const CommandHelp& command : describe_commands(app))
    if (page_name(command.name) == name || command.name == name) return page_of(command);
  return {};
}

void add_manual(CLI::App& app, int& status) {
  struct Options {
    std::string page = "heapprof";
    std::string directory;
    bool list = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("manual", "Print a manual page, for man -l");
  command->add_option("PAGE", options->page, "A command, or heapprof for the overview")->type_name("PAGE");
  command->add_option("--directory", options->directory, "Write all pages into this folder instead");
  command->add_flag("--list", options->list, "Print the names of all pages");
  command->callback([options, &app, &status] {
    if (options->list) {
      for (const std::string& name : manual_pages(app)) std::printf("%s\n", name.c_str());
      return;
    }
    if (!options->directory.empty()) {
      std::error_code ignored;
      std::filesystem::create_directories(options->directory, ignored);
      for (const std::string& name : manual_pages(app)) {
        std::ofstream out(options->directory + "/" + name + ".1", std::ios::binary);
        if (out << manual_page(app, name) && out.flush()) continue;
        std::fprintf(stderr, "heapprof: %s/%s.1: cannot be written\n", options->directory.c_str(), name.c_str());
        status = 1;
        return;
      }
      // Build tools go by the folder's time, which rewriting its files leaves alone.
      std::filesystem::last_write_time(options->directory, std::filesystem::file_time_type::clock::now(), ignored);
      return;
    }
    const std::string text = manual_page(app, options->page);
    if (text.empty()) throw CLI::ValidationError("PAGE", "there is no page of that name; --list names all");
    status = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 ? 0 : 1;
  });
}

}  // namespace heapprof::cli
