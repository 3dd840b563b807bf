// heapprof control: pause, resume or mark a recording while its program runs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/commands/trace_command.h"
#include "analyzer/render/units.h"
#include "analyzer/trace/mailbox.h"

namespace heapprof::cli {
namespace {

using trace::Mailbox;
using trace::RecorderState;

struct ControlOptions {
  std::vector<std::string> words;  ///< [TRACE] ACTION [TEXT]
  std::uint32_t pid = 0;
  double seconds = 2;
  bool json = false;
};

struct Action {
  std::string_view name;
  MailboxCommand command;
  std::string_view done;
};
constexpr Action kActions[] = {{"pause", MailboxCommand::kPause, "paused"},
                               {"resume", MailboxCommand::kResume, "recording"},
                               {"mark", MailboxCommand::kMark, "marked"},
                               {"status", MailboxCommand::kNone, ""}};

std::string state_of(const Mailbox& mailbox) {
  switch (mailbox.recorder()) {
    case RecorderState::kGone: return "ended";
    case RecorderState::kExecuted: return "ended";
    case RecorderState::kRecording: break;
  }
  if (mailbox.end_kind() == EndKind::kStopped) return "stopped";
  return mailbox.paused() ? "paused" : "recording";
}

int complain(const std::string& what) {
  std::fprintf(stderr, "heapprof: %s\n", what.c_str());
  return 1;
}

int print_status(const Mailbox& mailbox, const std::string& path, bool json) {
  const std::string state = state_of(mailbox);
  const std::uint64_t bytes = mailbox.input().size();
  if (json) {
    Json document = json_document();
    document["trace"] = path;
    document["pid"] = mailbox.header().pid;
    document["state"] = state;
    document["trace_bytes"] = bytes;
    set_renamed(document, "request_pending", "letter_waiting", mailbox.request_pending());
    write_output("-", dump(document));
  } else {
    write_output("-", state + ": pid " + std::to_string(mailbox.header().pid) + ", " + render::human_bytes(bytes) +
                          " in " + path + (mailbox.request_pending() ? ", a control request is pending\n" : "\n"));
  }
  return 0;
}

int control(const ControlOptions& options) {
  std::vector<std::string> words = options.words;
  std::string path;
  const auto wrong = [](const std::string& what) {
    std::fprintf(stderr, "heapprof: %s\nSee 'heapprof control --help'.\n", what.c_str());
    return 2;
  };
  if (options.pid == 0) {
    if (words.empty()) return wrong("control: missing TRACE or --pid PID, and an action");
    path = words.front();
    words.erase(words.begin());
  }
  if (words.empty()) return wrong("control: missing action; expected pause, resume, mark TEXT or status");
  const Action* action = nullptr;
  for (const Action& each : kActions)
    if (each.name == words[0]) action = &each;
  if (action == nullptr)
    return wrong("control: unknown action '" + words[0] + "'; expected pause, resume, mark TEXT or status");
  const bool marks = action->command == MailboxCommand::kMark;
  if (words.size() != (marks ? 2u : 1u))
    return wrong(marks ? "control: mark takes exactly one TEXT" : "control: unexpected argument '" + words[1] + "'");
  if (marks && words[1].size() > Mailbox::kMaxText)
    return wrong("control: the TEXT of a mark has " + std::to_string(words[1].size()) + " bytes; the limit is " +
                 std::to_string(Mailbox::kMaxText));

  try {
    if (options.pid != 0) {
      path = trace::trace_of_process(options.pid);
      if (path.empty())
        return complain("process " + std::to_string(options.pid) +
                        " has no trace open that this user can see; it is not recorded, or it is another user's");
    }
    Mailbox mailbox(path);
    if (action->command == MailboxCommand::kNone) return print_status(mailbox, path, options.json);
    const std::string state = state_of(mailbox);
    if (state == "ended") return complain(path + ": its program has ended");
    if (state == "stopped") return complain(path + ": the recorder has stopped; 'heapprof info' prints the reason");
    const auto patience = std::chrono::milliseconds(static_cast<long>(options.seconds * 1000));
    switch (mailbox.send(action->command, marks ? words[1] : "", patience)) {
      case Mailbox::Answer::kDone:
        if (options.json) return print_status(mailbox, path, true);
        write_output("-", std::string(action->done) + "\n");
        return 0;
      case Mailbox::Answer::kNotYet:
        return complain(
            "the request is pending: the program has not allocated or freed since; it takes effect when it does");
      case Mailbox::Answer::kOccupied:
        return complain(
            "an earlier request is still pending, since the program neither allocates nor frees; this one was not "
            "sent");
    }
  } catch (const std::runtime_error& error) {  // TraceError, OutputError
    return complain(error.what());
  }
  return 1;
}

}  // namespace

void add_control(CLI::App& app, int& status) {
  const auto options = std::make_shared<ControlOptions>();
  CLI::App* const command = app.add_subcommand("control", "Pause, resume or mark a recording while its program runs");
  command->footer("heapprof control TRACE pause|resume|mark TEXT|status\n"
                  "heapprof control --pid PID pause|resume|mark TEXT|status");
  command->add_option("words", options->words,
                      "pause: of what follows only releases of recorded blocks are recorded\n"
                      "resume: all is recorded again\n"
                      "mark TEXT: puts a named point into the timeline, at most 256 bytes\n"
                      "status: says whether it is recording, paused, stopped or ended")
      ->type_name("TRACE pause|resume|mark TEXT|status");
  command->add_option("--pid", options->pid, "The program, instead of its TRACE")
      ->transform(whole_number(std::numeric_limits<std::uint32_t>::max()));
  command
      ->add_option("--wait", options->seconds,
                   "Seconds to wait for the recorder, which answers when the program allocates or frees")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 3600.0));
  command->add_flag("--json", options->json, "The state, for programs");
  command->callback([options, &status] { status = control(*options); });
}

}  // namespace heapprof::cli
