// heapprof control: pause, resume or mark a recording while its program runs, or take a snapshot of its resident
// pages.
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/process_trace.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/render/units.h"
#include "analyzer/trace/mailbox.h"

namespace heapprof::cli {
namespace {

using trace::Mailbox;
using trace::RecorderState;

using Action = ControlOptions::Action;

MailboxCommand mailbox_command_of(Action action) {
  switch (action) {
    case Action::kPause: return MailboxCommand::kPause;
    case Action::kResume: return MailboxCommand::kResume;
    case Action::kMark: return MailboxCommand::kMark;
    case Action::kSnapshot: return MailboxCommand::kSnapshot;
    case Action::kStatus: break;
  }
  return MailboxCommand::kNone;
}

const char* result_of(Action action) {
  switch (action) {
    case Action::kPause: return "paused\n";
    case Action::kResume: return "recording\n";
    case Action::kMark: return "marked\n";
    case Action::kSnapshot: return "snapshot taken\n";
    case Action::kStatus: break;
  }
  return "";
}

std::string recording_state(const Mailbox& mailbox) {
  switch (mailbox.recorder()) {
    case RecorderState::kGone: return "ended";
    case RecorderState::kExecuted: return "ended";
    case RecorderState::kRecording: break;
  }
  if (mailbox.end_kind() == EndKind::kStopped) return "stopped";
  return mailbox.paused() ? "paused" : "recording";
}

int fail(const std::string& message) {
  print_message(message);
  return 1;
}

/// Why the recorder will not take a snapshot, as a clause; null if it will.
const char* why_no_snapshot(const FileHeader& header) {
  if (header.version_major == kOldVersionMajor && header.version_minor == 0)
    return "was recorded by an older heapprof, which takes no snapshots";
  const std::string settings(header.settings, strnlen(header.settings, sizeof header.settings));
  if (settings.find("HEAPPROF_SNAPSHOTS=0\n") != std::string::npos)
    return "was recorded with --snapshots off (HEAPPROF_SNAPSHOTS=0); record without it to take snapshots";
  return nullptr;
}

int print_status(const Mailbox& mailbox, const std::string& path, bool json) {
  const std::string state = recording_state(mailbox);
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
  try {
    std::string path = options.trace;
    if (path.empty()) path = trace_of_recorded_process(options.pid);
    Mailbox mailbox(path);
    if (options.action == Action::kStatus) return print_status(mailbox, path, options.json);
    const std::string state = recording_state(mailbox);
    if (state == "ended") return fail(path + ": its program has ended");
    if (state == "stopped") return fail(path + ": the recorder has stopped; 'heapprof info' prints the reason");
    if (const char* const why = why_no_snapshot(mailbox.header());
        why != nullptr && options.action == Action::kSnapshot)
      return fail(path + ": " + why);
    const auto patience = std::chrono::milliseconds(static_cast<long>(options.wait_seconds * 1000));
    switch (mailbox.send(mailbox_command_of(options.action), options.text, patience)) {
      case Mailbox::Answer::kDone:
        if (options.json) return print_status(mailbox, path, true);
        write_output("-", result_of(options.action));
        return 0;
      case Mailbox::Answer::kNotYet:
        return fail("the request is still pending; it takes effect when the program allocates or frees again");
      case Mailbox::Answer::kOccupied:
        return fail(
            "an earlier request is still pending, since the program neither allocates nor frees; this one was not "
            "sent");
    }
  } catch (const std::runtime_error& error) {  // TraceError, OutputError
    return fail(error.what());
  }
  return 1;
}

}  // namespace

int run_control(const ControlOptions& options) {
  if (options.text.size() > Mailbox::kMaxText) {
    print_message("the TEXT of a mark has " + std::to_string(options.text.size()) + " bytes; the limit is " +
                  std::to_string(Mailbox::kMaxText));
    return 2;
  }
  return control(options);
}

}  // namespace heapprof::cli
