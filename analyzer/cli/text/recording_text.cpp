#include "analyzer/cli/text/recording_text.h"

#include <cctype>

#include "analyzer/base/shell_quote.h"
#include "analyzer/cli/text/signal_name.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {

using render::exact_number;

namespace {

std::string ending_of(const model::Integrity& integrity, bool compacted) {
  const std::string& how = integrity.ended_by;
  if (how == "exit")
    return integrity.end_status ? "exited with status " + std::to_string(*integrity.end_status) : "exited";
  if (how == "exec") return "executed another program";
  if (how == "signal") {
    const int number = integrity.end_status.value_or(0);
    const char* const name = signal_name(number);
    return "ended by signal " + std::to_string(number) + (name == nullptr ? "" : std::string(" (SIG") + name + ")");
  }
  if (how == "stopped") return "recording stopped: " + integrity.stop_reason.value_or("no reason given");
  if (how == "running") return compacted ? "running when this copy was written" : "still running";
  return "no end recorded (killed, _exit, or a copy)";
}

}  // namespace

std::string ending_of(const model::Profile& profile) {
  return ending_of(profile.integrity, profile.recording.compacted);
}

std::string ending_after(const model::Integrity& integrity, bool compacted, std::uint64_t duration_ns) {
  const std::string time = " after " + render::human_time(duration_ns);
  if (integrity.ended_by == "stopped")
    return "recording stopped" + time + ", " + integrity.stop_reason.value_or("no reason given");
  return ending_of(integrity, compacted) + (integrity.ended_by == "unknown" ? "," : "") + time;
}

std::string command_of(const model::Profile& profile) {
  if (profile.together) return render::clean_utf8(profile.together->name);
  const model::Recording& recording = profile.recording;
  std::string command;
  for (const std::string& argument : recording.command_line) {
    if (!command.empty()) command += ' ';
    command += shell_quoted(argument);
  }
  if (command.empty()) command = recording.program.empty() ? "(unknown program)" : recording.program;
  if (recording.command_line_omitted) command += " (arguments left out)";
  else if (recording.command_line_cut) command += " …";
  for (char& c : command)
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  return render::clean_utf8(command);
}

std::string completeness_of(const model::Profile& profile) {
  const model::Integrity& integrity = profile.integrity;
  std::string text = "pid " + std::to_string(profile.recording.pid) + ": " +
                     ending_after(integrity, profile.recording.compacted, profile.recording.duration_ns);
  if (!integrity.complete) text += ". Recording incomplete (see the end)";
  else text += integrity.ended_by == "stopped" ? ". Recording complete until then" : ". Recording complete";
  return render::clean_utf8(text);
}

std::string recorded_sentences(const model::Profile& profile) {
  const bool selected = profile.slice || profile.live_at_ns || !profile.selection_text.empty();
  return completeness_of(profile) + ", " + exact_number(profile.events()) +
         (profile.events() == 1 ? " event" : " events") + (selected ? " selected." : ".");
}

namespace {

/// "at the end", "when it was killed", "now".
std::string words_for_end(const model::Profile& profile) {
  if (profile.together) return "at the ends of the recordings";
  const std::string& how = profile.integrity.ended_by;
  if (how == "running") return profile.recording.compacted ? "when this copy was written" : "now";
  if (how == "exec") return "when it executed another program";
  if (how == "stopped") return "when the recording stopped";
  if (how == "signal") {
    constexpr int kSigkill = 9;
    const int number = profile.integrity.end_status.value_or(0);
    if (number == kSigkill) return "when it was killed";
    const char* const name = signal_name(number);
    return "when " + (name == nullptr ? "signal " + std::to_string(number) : std::string("SIG") + name) + " ended it";
  }
  return how == "exit" ? "at the end" : "at its last event";
}

/// "at 2.50 s"; of the end of the recording, its words.
std::string words_for_moment(const model::Profile& profile, std::uint64_t ns) {
  return ns >= profile.recording.duration_ns ? words_for_end(profile) : "at " + render::human_time(ns);
}

}  // namespace

std::string allocated_words(const model::Profile& profile) {
  if (!profile.slice) return "Allocated in total";
  const std::string from = render::human_time(profile.slice->from_ns);
  const bool to_end = profile.slice->to_ns >= profile.recording.duration_ns;
  if (profile.slice->from_ns == 0)
    return to_end ? "Allocated in total" : "Allocated until " + render::human_time(profile.slice->to_ns);
  return to_end ? "Allocated from " + from + " on"
                : "Allocated from " + from + " to " + render::human_time(profile.slice->to_ns);
}

std::string live_words(const model::Profile& profile) {
  const std::string moment = words_for_moment(profile, profile.end_ns());
  if (!profile.slice || (profile.slice->from_ns == 0 && !profile.survivors_ns)) return "Live " + moment;
  return allocated_words(profile) + (profile.survivors_ns ? " and still live " : " and live ") + moment;
}

std::string lower_case(std::string sentence) {
  if (!sentence.empty())
    sentence.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(sentence.front())));
  return sentence;
}

std::string losses_of(const model::Integrity& integrity) {
  std::string figures;
  const auto add = [&](const std::string& text) { figures += (figures.empty() ? ": " : ", ") + text; };
  if (!integrity.events_lost) add("unknown number of events lost");
  else if (*integrity.events_lost != 0) add(exact_number(*integrity.events_lost) + " events lost");
  if (integrity.bytes_damaged != 0) add(exact_number(integrity.bytes_damaged) + " bytes damaged");
  return "recorded data is missing" + figures;
}

std::string count_of_kind(const model::Profile& profile, std::uint64_t count) {
  if (profile.kind == model::Kind::kHeap) return render::block_count(count);
  if (profile.kind == model::Kind::kMmap) return exact_number(count) + (count == 1 ? " mapping" : " mappings");
  return exact_number(count) + (count == 1 ? " block or mapping" : " blocks and mappings");
}

}  // namespace heapprof::cli
