#include "analyzer/cli/text/info_text.h"

#include <cstdio>
#include <ctime>

#include "analyzer/cli/text/recording_text.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

using render::clean_utf8;
using render::exact_number;
using render::human_bytes;
using render::pad_left;
using render::pad_right;

constexpr std::size_t kLabelWidth = 16;

void append_recording(ReportText& text, const model::Profile& profile) {
  const model::Recording& recording = profile.recording;
  const std::size_t value_width = text.style().width - kLabelWidth - 2;
  // Wrapped, not clipped: besides the JSON, this is the only output with the complete command line.
  const auto field = [&](std::string label, const std::string& value) {
    if (value.empty()) return;
    for (const std::string& piece : render::wrapped(value, value_width)) {
      if (!piece.empty()) text.line("  " + pad_right(label, kLabelWidth) + piece);
      label.clear();
    }
  };
  const auto path = [&](const std::string& label, const std::string& value) {
    if (!value.empty())
      text.line("  " + pad_right(label, kLabelWidth) + text.clip_front(clean_utf8(value), value_width));
  };
  path("program", recording.program);
  field("command line", command_of(profile));
  path("directory", recording.working_directory);
  field("host", clean_utf8(recording.host));
  std::string labels;
  for (const auto& [key, value] : recording.labels) labels += (labels.empty() ? "" : ", ") + key + "=" + value;
  field("labels", clean_utf8(labels));
  if (recording.start_realtime_ns != 0) {
    const auto seconds = static_cast<std::time_t>(recording.start_realtime_ns / 1'000'000'000);
    std::tm parts{};
    char started[64] = "";
    if (::gmtime_r(&seconds, &parts) != nullptr)
      std::strftime(started, sizeof started, "%Y-%m-%d %H:%M:%S UTC", &parts);
    field("started", started);
  }
  field("duration", render::human_time(recording.duration_ns));
  field("ended", ending_of(profile));
  field("process", "pid " + std::to_string(recording.pid) + ", parent " + std::to_string(recording.parent_pid) +
                       (recording.forked_child ? ", forked by a recorded process" : ""));
  field("events", exact_number(profile.events()));
  for (const model::Recording::PythonInterpreter& python : recording.python_interpreters)
    field("python", (python.version.empty() ? "unknown version" : python.version) +
                        (python.why_off.empty() ? ", frames recorded"
                                                : ", frames not recorded: " + clean_utf8(python.why_off)));
  if (profile.timeline.snapshots != 0)
    field("snapshots", exact_number(profile.timeline.snapshots) + " of the resident pages");
  std::string trace =
      human_bytes(recording.trace_bytes) + ", version " + recording.trace_version + ", clock " + recording.clock;
  if (recording.compacted)
    trace += ", compacted from " + human_bytes(recording.original_bytes) +
             (recording.rounded ? ", times rounded to microseconds, addresses replaced by block numbers" : "");
  field("trace", trace);
  const bool stopped = profile.integrity.ended_by == "stopped";
  field("complete", !profile.integrity.complete ? "no, see below" : stopped ? "yes, until it stopped" : "yes");
}

void append_marks(ReportText& text, const model::Profile& profile) {
  constexpr std::size_t kTimeWidth = 10;
  constexpr std::size_t kMaxMarks = 50;
  using Kind = model::Timeline::Mark::Kind;
  const std::vector<model::Timeline::Mark>& marks = profile.timeline.marks;
  if (marks.empty()) return;
  text.heading("Marks");
  for (std::size_t i = 0; i < std::min(kMaxMarks, marks.size()); ++i) {
    const std::string what = marks[i].kind == Kind::kPaused    ? "(recording paused)"
                             : marks[i].kind == Kind::kResumed ? "(recording resumed)"
                                                               : clean_utf8(marks[i].text);
    text.line("  " + pad_left(render::human_time(marks[i].time_ns), kTimeWidth) + "  " +
              text.clip(what, text.style().width - kTimeWidth - 4));
  }
  if (marks.size() > kMaxMarks) text.line("  +" + exact_number(marks.size() - kMaxMarks) + " more");
}

void append_threads(ReportText& text, const model::Profile& profile) {
  text.heading("Threads");
  text.line("  index        tid  allocations   allocated  name");
  for (std::size_t i = 0; i < profile.threads.size(); ++i) {
    const model::Thread& thread = profile.threads[i];
    text.line("  " + pad_left(std::to_string(i), 5) + pad_left(std::to_string(thread.tid), 11) +
              pad_left(exact_number(thread.allocations), 13) + pad_left(human_bytes(thread.allocated_bytes), 12) +
              "  " + text.clip(clean_utf8(thread.name), 40));
  }
}

void append_modules(ReportText& text, const model::Profile& profile) {
  constexpr std::size_t kBuildIdWidth = 16;
  constexpr std::size_t kPathColumn = 38;
  text.heading("Modules");
  for (const model::Module& module : profile.modules) {
    if (module.path.empty() || module.is_python) continue;
    char address[32];
    std::snprintf(address, sizeof address, "%016llx", static_cast<unsigned long long>(module.first_address));
    const std::string id = module.build_id.empty() ? "no build id" : module.build_id.substr(0, kBuildIdWidth);
    text.line("  " + std::string(address) + "  " + pad_right(id, kBuildIdWidth) + "  " +
              text.clip_front(clean_utf8(module.path), text.style().width - kPathColumn) +
              (module.loads > 1 ? " (loaded " + std::to_string(module.loads) + " times)" : ""));
  }
}

void append_settings(ReportText& text, const model::Profile& profile) {
  constexpr std::size_t kNameWidth = 30;
  if (profile.recording.settings.empty()) return;
  text.heading("Settings");
  for (const auto& [name, value] : profile.recording.settings)
    text.line("  " + pad_right(clean_utf8(name), kNameWidth) +
              text.clip(clean_utf8(value), text.style().width - kNameWidth - 2));
}

}  // namespace

void append_info(ReportText& text, const model::Profile& profile) {
  text.title().line();
  append_recording(text, profile);
  append_marks(text, profile);
  append_threads(text, profile);
  append_modules(text, profile);
  append_settings(text, profile);
}

}  // namespace heapprof::cli
