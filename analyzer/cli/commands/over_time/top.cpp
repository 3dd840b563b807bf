// heapprof top: what is live now, of a program that is being recorded; as tables, or on a screen.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/process_trace.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/top/terminal.h"
#include "analyzer/cli/top/terminal_type.h"
#include "analyzer/cli/top/top_json.h"
#include "analyzer/cli/top/top_model.h"
#include "analyzer/cli/top/top_screen.h"
#include "analyzer/cli/top/top_text.h"
#include "analyzer/trace/mailbox.h"

namespace heapprof::cli {
namespace {

/// The trace that the argument names: itself, or that of a process. Throws trace::TraceError.
std::string trace_named(const std::string& text) {
  std::error_code ignored;
  std::uint32_t pid = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), pid);
  const bool is_number = wrong == std::errc() && end == text.data() + text.size();
  if (!is_number || std::filesystem::exists(text, ignored)) return text;
  return trace_of_recorded_process(pid);
}

int status_of(const TopTable& table, const std::string& path) {
  if (table.integrity.complete) return 0;
  print_message(path + ": the trace is incomplete; the rest was read. 'heapprof info' prints details");
  return 1;
}

/// --once, --batch.
int print_tables(TopModel& model, const TopOptions& options, const std::string& path) {
  const auto interval = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(options.interval_seconds));
  auto next = std::chrono::steady_clock::now();
  const auto wait_for_next = [&] {
    // After a stop (Ctrl-Z), no table is printed for the intervals that are over.
    next = std::max(next + interval, std::chrono::steady_clock::now());
    std::this_thread::sleep_until(next);
  };
  for (std::size_t number = 1;; ++number) {
    model.read();
    if (model.ending_may_change()) {
      wait_for_next();
      model.read();
    }
    model.name_stacks(options.once || model.ended());
    const TopTable table = model.table(options.by, options.sort, options.call_sites.view, options.top);
    if (options.json) {
      const Json json = top_json(table, model.symbol_warnings());
      write_output("-", options.once ? dump(json) : json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    } else {
      write_output("-", (number == 1 ? "" : "\n") + text_of(table, style_for("-"), options.call_sites.view));
    }
    if (options.once || model.ended() || number == options.count) return status_of(table, path);
    wait_for_next();
  }
}

/// Sends a request to the recorder; what became of it, for the last line of the screen.
std::string send(const std::string& path, TopRequest request, const std::string& text) {
  using trace::Mailbox;
  try {
    Mailbox mailbox(path);
    if (mailbox.recorder() != trace::RecorderState::kRecording) return "the program has ended";
    if (mailbox.end_kind() == EndKind::kStopped) return "the recording has stopped";
    const bool paused = mailbox.paused();
    const MailboxCommand command = request == TopRequest::kMark ? MailboxCommand::kMark
                                   : paused                     ? MailboxCommand::kResume
                                                                : MailboxCommand::kPause;
    switch (mailbox.send(command, text, std::chrono::milliseconds(200))) {
      case Mailbox::Answer::kDone:
        if (request == TopRequest::kMark) return "marked: " + text;
        return paused ? "resumed: allocations are recorded again" : "paused: only frees are recorded; p resumes";
      case Mailbox::Answer::kNotYet:
        return std::string(request == TopRequest::kMark ? "the mark"
                           : paused                     ? "resuming"
                                                        : "pausing") +
               " is pending until the program allocates or frees";
      case Mailbox::Answer::kOccupied:
        return "nothing sent: an earlier request is pending until the program allocates or frees";
    }
  } catch (const trace::TraceError& error) {
    return error.what();
  }
  return {};
}

/// The screen, until the user quits it.
int show(TopModel& model, const TopOptions& options, const std::string& path) {
  using Clock = std::chrono::steady_clock;
  const auto interval =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.interval_seconds));
  auto next = Clock::now() + interval;
  TopScreen screen(model, options, [&](TopRequest request, const std::string& text) {
    next = Clock::now();  // the next table shows what became of it
    return send(path, request, text);
  });
  model.read();
  model.name_stacks(true);
  {
    Terminal terminal;
    for (bool redraw = true;;) {
      const bool can_change = !model.ended() || model.ending_may_change();
      if (can_change && Clock::now() >= next) {
        model.read();
        model.name_stacks(model.ended());
        next = Clock::now() + interval;
        redraw = true;
      }
      if (redraw) {
        const Terminal::Size size = terminal.size();
        TextStyle style = style_for("-");
        style.width = std::max<std::size_t>(size.columns, 20);
        terminal.draw(screen.lines(style, std::max<std::size_t>(size.lines, 6)));
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
      const auto key = terminal.wait(can_change ? static_cast<int>(std::max<std::int64_t>(left, 0)) : -1);
      if (!key || !screen.press(*key)) break;
      // Without a key, the size may have changed.
      redraw = key->key != Key::kNone || model.ended() || Clock::now() < next;
    }
  }
  return status_of(model.table(options.by, options.sort, options.call_sites.view, 1), path);
}

}  // namespace

int run_top(const TopOptions& options) {
  const bool on_screen = !options.once && !options.batch;
  if (on_screen) {
    const std::string why = why_no_screen();
    if (!why.empty()) {
      print_message("top shows a screen, and " + why + "; add --once for one table, or --batch for one each second");
      return 2;
    }
  }
  return guarded(options.trace, [&] {
    const std::string path = trace_named(options.trace);
    TopModel model(path, options, find_last_trace_of_process);
    return on_screen ? show(model, options, path) : print_tables(model, options, path);
  });
}

}  // namespace heapprof::cli
