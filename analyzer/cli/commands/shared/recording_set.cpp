#include "analyzer/cli/commands/shared/recording_set.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/text/interpreter_frames.h"
#include "analyzer/processes/one_clock.h"
#include "analyzer/replay/analysis/moments.h"
#include "analyzer/symbols/module_symbols.h"
#include "analyzer/trace/recording_header.h"

namespace heapprof::cli {
namespace {

/// The files of a directory that are named as traces.
std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error))
    if (is_named_as_trace(entry->path().filename()) && entry->is_regular_file(error))
      files.push_back(entry->path().string());
  if (error) throw OutputError(directory + ": cannot be read: " + error.message());
  std::ranges::sort(files);
  return files;
}

/// A heap dump of Java is *.hprof, too.
bool is_heap_dump_of_java(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(".hprof") && !is_trace(path) && std::filesystem::file_size(path, ignored) != 0;
}

std::unique_ptr<replay::Analysis> analyze(const std::string& path, const replay::Selection& selection,
                                          bool use_index) {
  ProgressLine progress("Reading " + path);
  auto analysis = std::make_unique<replay::Analysis>(
      path, selection, [&](const replay::Done& done) { progress.show(done); },
      replay::IndexUse{.use = use_index, .keep = use_index}, symbols::decode_shared_symbols);
  progress.end();
  return analysis;
}

}  // namespace

RecordingSet::RecordingSet(const std::vector<std::string>& arguments) {
  std::size_t files = 0;
  const auto open = [&](const std::string& path) {
    ++files;
    try {
      const trace::RecordingHeader read = trace::read_recording_header(path);
      if (read.is_damaged)
        throw trace::TraceError(path +
                                ": the header is damaged, so it is unknown when the recording began; name it alone");
      members_.push_back({path, read.header});
    } catch (const std::runtime_error& error) {
      print_message(error.what());
      ++unread_;
    }
  };
  for (const std::string& argument : arguments) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(argument, ignored)) {
      open(argument);
      continue;
    }
    const std::size_t before = files;
    for (const std::string& path : files_in(argument))
      if (!is_heap_dump_of_java(path)) open(path);
    if (files == before)
      throw OutputError(argument + ": there is no recording (*.heapprof, *.hprof) in this directory");
  }
  if (members_.empty()) throw OutputError("none of the recordings can be read");
  leave_out_copies();
  take_clock();
  name_ = arguments.size() == 1
              ? arguments.front()
              : std::to_string(members_.size()) + (members_.size() == 1 ? " recording" : " recordings");
}

void RecordingSet::leave_out_copies() {
  std::vector<std::uint64_t> file_bytes;
  for (const Member& member : members_) {
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(member.path, error);
    file_bytes.push_back(error ? 0 : bytes);
  }
  const auto copy_of = processes::copies(headers(), file_bytes);
  std::vector<Member> kept;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!copy_of[i]) {
      kept.push_back(members_[i]);
      continue;
    }
    ++copies_;
    print_message(members_[i].path + ": is a copy of " + members_[*copy_of[i]].path +
                  ", the same recording; it is left out");
  }
  members_ = std::move(kept);
}

void RecordingSet::take_clock() {
  const std::vector<FileHeader> all = headers();
  const processes::OneClock clock = processes::one_clock(all);
  std::set<std::string> boots;
  std::set<std::pair<std::uint16_t, std::uint16_t>> versions;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    members_[i].start_ns = clock.start_ns[i];
    boots.insert(std::string(std::begin(all[i].boot_id), std::end(all[i].boot_id)));
    if (is_recording_version(all[i].version_major)) versions.emplace(all[i].version_major, all[i].version_minor);
  }
  if (clock.is_calendar)
    notes_.push_back(
        "the recordings are of " + std::to_string(boots.size()) +
        " machines or boots: their times are those of the calendar, which may differ from machine to machine");
  if (versions.size() > 1) {
    std::string list;
    for (const auto& [major, minor] : versions)
      list += (list.empty() ? "" : ", ") + std::to_string(major) + "." + std::to_string(minor);
    notes_.push_back("the recordings have trace formats of several versions: " + list);
  }
}

std::vector<FileHeader> RecordingSet::headers() const {
  std::vector<FileHeader> headers;
  headers.reserve(members_.size());
  for (const Member& member : members_) headers.push_back(member.header);
  return headers;
}

const std::vector<std::uint64_t>& RecordingSet::end_ns(bool use_index) {
  if (!end_ns_.empty()) return end_ns_;
  for (const Member& member : members_) {
    std::uint64_t length_ns = 0;
    if (const auto known = processes::length_of(member.header)) {
      length_ns = *known;
    } else {
      replay::Selection selection;
      selection.only_overview = true;
      try {
        length_ns = analyze(member.path, selection, use_index)->profile().recording.duration_ns;
      } catch (const trace::TraceError&) {
        // Named when the recording is read for its figures.
      }
    }
    end_ns_.push_back(member.start_ns + length_ns);
  }
  return end_ns_;
}

std::uint64_t RecordingSet::last_end_ns(bool use_index) { return std::ranges::max(end_ns(use_index)); }

// --- The peak of the sum -----------------------------------------------------------------------------------

processes::LiveBounds bounds_of(const model::Profile& profile, std::uint64_t start_ns) {
  processes::LiveBounds bounds;
  std::uint64_t before = 0;  // live bytes at the piece's begin
  for (const model::Timeline::Bucket& bucket : profile.timeline.buckets) {
    bounds.pieces.push_back({start_ns + bucket.start_ns, std::min(bucket.min_bytes, before),
                             std::max(bucket.max_bytes, before), 2 * bucket.allocations});
    before = bucket.last_bytes;
  }
  bounds.end_ns = start_ns + profile.end_ns();
  return bounds;
}

std::optional<SumPeakOfSet> find_sum_peak(const RecordingSet& set, const TraceOptions& options,
                                          const std::vector<processes::LiveBounds>& bounds) {
  constexpr std::uint64_t kMaxChanges = 8'000'000;  // of 16 bytes
  const processes::Windows windows = processes::windows_of_peak(bounds, kMaxChanges);
  if (windows.chosen.empty()) return std::nullopt;
  const std::size_t count = windows.chosen.size();
  replay::Selection selection = options.selection;
  selection.only_costs = true;
  fold_interpreter_frames(options.symbols, selection);
  SelectionTexts texts = options.texts;
  for (std::string* const time : {&texts.from, &texts.to, &texts.live_at, &texts.survivors}) time->clear();
  resolve_selection(texts, options.symbols, selection);
  std::vector<processes::StepsInWindows> steps(set.members().size());
  // By member and window: the position after each step, for the one that reaches the peak.
  std::vector<std::vector<std::vector<replay::EventPosition>>> positions(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    processes::StepsInWindows& of = steps[i];
    of.at_begin.assign(count, 0);
    of.steps.resize(count);
    positions[i].resize(count);
    const std::vector<processes::LivePiece>& pieces = bounds[i].pieces;
    if (pieces.empty() || pieces.front().from_ns > windows.chosen.back().to_ns ||
        bounds[i].end_ns < windows.chosen.front().from_ns)
      continue;
    const RecordingSet::Member& member = set.members()[i];
    std::size_t window = 0;
    std::uint64_t live_bytes = 0;
    const auto enter = [&](std::uint64_t ns) {  // each window that begins at `ns` or before
      while (window < count && windows.chosen[window].from_ns <= ns) of.at_begin[window++] = live_bytes;
    };
    const auto add = [&](std::uint64_t ns, std::uint64_t bytes, const replay::EventPosition& position) {
      enter(ns);
      live_bytes = bytes;
      if (window == 0 || windows.chosen[window - 1].to_ns < ns) return;
      of.steps[window - 1].push_back({ns, bytes});
      positions[i][window - 1].push_back(position);
    };
    const auto analysis = analyze(member.path, selection, options.use_index);
    ProgressLine progress("Reading " + member.path + " again");
    analysis->for_each_step(
        [&](std::span<const replay::LiveStep> batch) {
          for (const replay::LiveStep& step : batch)
            add(member.start_ns + step.time_ns, step.live_bytes, step.position);
        },
        [&](const replay::Done& done) { progress.show(done); });
    add(bounds[i].end_ns + 1, 0, {});  // the memory of a process ends with it
    enter(~std::uint64_t{0});
  }
  const processes::SumPeak found = processes::peak_in_windows(windows.chosen, steps);
  if (found.bytes == 0) return std::nullopt;
  SumPeakOfSet peak{found.ns, found.bytes, std::max(found.bytes, windows.at_most_elsewhere), found.live_bytes, 0, {}};
  if (found.process != processes::SumPeak::kBegin) {
    peak.member = found.process;
    const replay::EventPosition position = positions[found.process][found.window][found.step];
    if (position.allocations != 0) peak.position = position;
  }
  return peak;
}

std::optional<SumPeakOfSet> find_sum_peak(const RecordingSet& set, const TraceOptions& options) {
  TraceOptions all = options;
  all.selection = {};
  all.selection.kind = options.selection.kind;
  all.texts = {};
  replay::Selection selection = all.selection;
  selection.only_costs = true;
  selection.with_timeline = true;
  std::vector<processes::LiveBounds> bounds;
  for (const RecordingSet::Member& member : set.members()) {
    try {
      bounds.push_back(bounds_of(analyze(member.path, selection, options.use_index)->profile(), member.start_ns));
    } catch (const trace::TraceError&) {
      bounds.emplace_back();  // named when the recording is read for its figures
    }
  }
  return find_sum_peak(set, all, bounds);
}

// --- Times on the one clock --------------------------------------------------------------------------------

SelectionOnClock::SelectionOnClock(const TraceOptions& options, RecordingSet& set) : options_(options), set_(set) {
  const SelectionTexts& texts = options.texts;
  if (!texts.survivors.empty())
    throw std::invalid_argument("--survivors is for one recording; name one of " + set.name());
  if (!texts.from.empty()) from_ns_ = ns_of("--from", texts.from);
  if (!texts.to.empty()) to_ns_ = ns_of("--to", texts.to);
  if (!texts.live_at.empty()) live_at_ns_ = ns_of("--live-at", texts.live_at);
  if (from_ns_ && to_ns_ && *from_ns_ > *to_ns_) throw std::invalid_argument("--from is after --to");
  if (live_at_ns_ && (from_ns_ || to_ns_))
    throw std::invalid_argument("of several recordings, --live-at excludes --from and --to; give one of them");
}

std::uint64_t SelectionOnClock::ns_of(const char* option, const std::string& text) {
  if (text == "peak") {
    if (!peak_) peak_ = find_sum_peak(set_, options_);
    if (!peak_) throw replay::SelectionError(set_.name() + ": no byte was live, so there is no peak");
    return peak_->ns;
  }
  const std::optional<replay::Moment> moment = parse_moment_or_mark(text);
  if (!moment || !moment->mark.empty())
    throw std::invalid_argument("invalid value '" + text + "' for " + option +
                                "; of several recordings, expected a time on their common clock such as 2.5 "
                                "(seconds), 300ms or 40%, start, peak or end");
  // A rounded time means the end; see replay::ns_within().
  constexpr std::uint64_t kRounding = 200;
  const std::uint64_t last = set_.last_end_ns(options_.use_index);
  const std::uint64_t ns = replay::ns_of(*moment, last);
  if (ns > last + last / kRounding)
    throw replay::SelectionError(set_.name() + ": " + option + " " + text +
                                 " is after the end of the last process at " + replay::exact_time(last) +
                                 "; give at most that, or a percentage (50%)");
  return std::min(ns, last);
}

std::optional<TraceOptions> SelectionOnClock::of(std::size_t member) const {
  const RecordingSet::Member& one = set_.members()[member];
  TraceOptions options = options_;
  options.trace = one.path;
  options.one_of_several = true;
  options.texts.from.clear();
  options.texts.to.clear();
  options.texts.live_at.clear();
  if (!from_ns_ && !to_ns_ && !live_at_ns_) return options;
  const std::uint64_t begin = one.start_ns;
  const std::uint64_t end = set_.end_ns(options_.use_index)[member];
  const auto moment = [&](std::uint64_t ns) {
    replay::Moment moment;
    moment.value = ns >= end ? 100 : static_cast<double>(ns - begin) / 1e9;
    moment.percent = ns >= end;
    moment.text = replay::exact_time(ns);
    return moment;
  };
  if (live_at_ns_) {
    if (*live_at_ns_ < begin || *live_at_ns_ > end) return std::nullopt;
    options.selection.live_at = moment(*live_at_ns_);
    if (peak_ && peak_->member == member && *live_at_ns_ == peak_->ns)
      options.selection.live_at->position = peak_->position;
    return options;
  }
  if ((from_ns_ && *from_ns_ > end) || (to_ns_ && *to_ns_ < begin)) return std::nullopt;
  if (from_ns_ && *from_ns_ > begin) options.selection.from = moment(*from_ns_);
  if (to_ns_ && *to_ns_ < end) options.selection.to = moment(*to_ns_);
  return options;
}

void SelectionOnClock::describe(model::Profile& profile) const {
  if (from_ns_ || to_ns_)
    profile.slice = model::Slice{from_ns_.value_or(0), to_ns_.value_or(profile.recording.duration_ns)};
  profile.live_at_ns = live_at_ns_;
  if (live_at_ns_) profile.peak_time_ns = *live_at_ns_;
}

}  // namespace heapprof::cli
