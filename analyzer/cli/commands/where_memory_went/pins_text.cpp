#include "analyzer/cli/commands/where_memory_went/pins_text.h"

#include <algorithm>

#include "analyzer/base/base_name.h"
#include "analyzer/base/shell_quote.h"
#include "analyzer/cli/text/answer_text.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

using allocators::Allocator;
using render::exact_number;
using render::human_bytes;

std::string allocator_words(const PinsAnswer& answer) {
  if (answer.memory.allocator == Allocator::kUnknown) return "the allocator";
  return allocators::name_of(answer.memory.allocator);
}

/// What a trim would return, as well as it is known.
std::uint64_t returnable_bytes(const PinsAnswer& answer) {
  return answer.residency ? answer.residency->returnable_bytes : answer.memory.returnable_bytes;
}

void append_totals(ReportText& text, const PinsAnswer& answer) {
  const pins::PinnedMemory& memory = answer.memory;
  const std::optional<PinnedResidency>& residency = answer.residency;
  const bool measured = residency && residency->measured;
  pins::LiveSum live;
  for (const pins::LiveSum& one : memory.kept.by_node) live += one;
  text.line("Memory that live blocks keep " + allocator_words(answer) + " from returning, at " +
            render::human_time(answer.profile.end_ns()) + ":");
  text.line();
  text.row("pinned", human_bytes(memory.pinned_bytes),
           "pages kept by " + exact_number(live.blocks) + (live.blocks == 1 ? " live block" : " live blocks") +
               (measured ? "; " + human_bytes(residency->pinned_bytes) + " resident" : " (assumed to be resident)"));
  text.row("self", human_bytes(memory.usable_bytes),
           "usable in these blocks; " + human_bytes(live.requested_bytes) + " were requested");
  std::string overhead = "pinned beyond the blocks";
  if (measured && residency->rss_bytes != 0)
    overhead += "; " + render::percent(memory.overhead_bytes(), residency->rss_bytes) + " of RSS (" +
                human_bytes(residency->rss_bytes) + ")";
  text.row("overhead", human_bytes(memory.overhead_bytes()), overhead);
  std::string returnable = "free without a live block";
  if (measured) returnable += ", and resident";
  else if (residency) returnable += "; estimated by resident memory at " + render::human_time(residency->at_ns);
  else returnable += "; how much of it is resident is unknown";
  text.row("returnable", human_bytes(returnable_bytes(answer)), returnable);
}

/// In its own unit: the sizes of a table differ too much for a common one.
std::string growth_text(std::int64_t bytes) {
  return bytes < 0 ? "-" + human_bytes(static_cast<std::uint64_t>(-bytes))
                   : human_bytes(static_cast<std::uint64_t>(bytes));
}

const char* words_for(PinsOptions::By by) {
  switch (by) {
    case PinsOptions::By::kStack: return "stack";
    case PinsOptions::By::kFunction: return "function";
    case PinsOptions::By::kSite: break;
  }
  return "call site";
}

/// What the table leaves out. Groups that keep less than their own bytes count by themselves: with them, the rest
/// would seem to be nothing.
void append_rest(ReportText& text, const PinsAnswer& answer) {
  const std::size_t left_out = answer.groups.size() - answer.shown;
  if (left_out == 0) return;
  const std::uint64_t bytes = answer.overhead_of(answer.groups.size()) - answer.overhead_of(answer.shown);
  text.line("  +" + exact_number(left_out) + " more, with " + human_bytes(bytes) +
            (left_out == 1 ? " of overhead" : " of overhead together") + "; --top 0 prints all");
  std::size_t negative = 0;
  std::int64_t negative_bytes = 0;
  for (std::size_t i = answer.shown; i < answer.groups.size(); ++i) {
    if (answer.groups[i].overhead_bytes >= 0) continue;
    ++negative;
    negative_bytes += answer.groups[i].overhead_bytes;
  }
  if (negative != 0)
    text.line("  " + exact_number(negative) + " of them with " + growth_text(negative_bytes) +
              ": other blocks keep their pages, too");
}

void append_groups(ReportText& text, const PinsOptions& options, const PinsAnswer& answer) {
  std::string heading = std::string("Who pins it, by ") + words_for(options.by);
  if (answer.shown < answer.groups.size())
    heading += " (" + exact_number(answer.shown) + " of " + exact_number(answer.groups.size()) +
               (answer.shown < options.top ? ", those with 0.5% or more; " : "; ") +
               render::percent(answer.overhead_of(answer.shown), answer.overhead_of(answer.groups.size())) +
               " of what is above 0)";
  text.heading(heading);
  if (answer.shown == 0) {
    text.line("  none");
    return;
  }
  using Kind = Column::Kind;
  const std::vector<Column> columns = {{"#"},
                                       {"overhead"},
                                       {"alone"},
                                       {"shared", Kind::kFigure, 1},
                                       {"self", Kind::kFigure, 2},
                                       {"blocks", Kind::kFigure, 3},
                                       {"function", Kind::kFunction},
                                       {"line", Kind::kLocation}};
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < answer.shown; ++i) {
    const pins::PinGroup& group = answer.groups[i];
    const PinGroupName& name = answer.group_names[group.group];
    std::string function = answer.findings.without_site();
    std::string location;
    bool own = false;
    if (name.frame.exists()) {
      const Frame frame = answer.findings.frame(name.frame);
      function = text.name_of(frame);
      if (options.by != PinsOptions::By::kFunction) location = location_of(frame);
      own = answer.findings.frames().at(name.frame).origin == findings::Origin::kOwn;
    }
    rows.push_back({{std::to_string(i + 1)},
                    {growth_text(group.overhead_bytes), TextColour::kBold},
                    {human_bytes(group.alone_bytes)},
                    {human_bytes(group.shared_bytes)},
                    {human_bytes(group.live.usable_bytes)},
                    {exact_number(group.live.blocks)},
                    {function, own ? std::optional(TextColour::kBold) : std::nullopt},
                    {location, TextColour::kDim}});
  }
  write_columns(text, columns, rows);
  append_rest(text, answer);
}

/// "#2, #4 and hashTypeSet".
std::string join_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

/// For each row the groups with which it keeps granules: numbers of rows, and names of what is not in the table. Only
/// as far as their granules add at least kMinShare of the overhead.
void append_companions(ReportText& text, const PinsOptions& options, const PinsAnswer& answer) {
  std::vector<std::size_t> row_of_group(answer.group_names.size(), 0);  // from 1; 0: not in the table
  for (std::size_t i = 0; i < answer.shown; ++i) row_of_group[answer.groups[i].group] = i + 1;
  const double least = kMinShare * static_cast<double>(answer.overhead_of(answer.groups.size()));
  bool any = false;
  for (std::size_t i = 0; i < answer.shown; ++i) {
    const std::vector<pins::Companion>& with = answer.groups[i].with;
    const auto last = std::find_if(with.rbegin(), with.rend(), [least](const pins::Companion& one) {
      return one.completed_bytes != 0 && static_cast<double>(one.completed_bytes) >= least;
    });
    if (last == with.rend()) continue;
    std::vector<std::string> names;
    std::uint64_t bytes = 0;
    for (auto one = with.begin(); one != last.base(); ++one) {
      const std::size_t row = row_of_group[one->group];
      names.push_back(row != 0 ? "#" + std::to_string(row) : answer.group_names[one->group].name);
      bytes += one->completed_bytes;
    }
    if (!any)
      text.heading(std::string("Shared: memory that returns only when the blocks of several ") +
                   words_for(options.by) + "s go");
    any = true;
    text.list_item(human_bytes(bytes) + " that #" + std::to_string(i + 1) + " shares, when the blocks of " +
                   join_names(names) + " go, too");
  }
}

void append_stacks(ReportText& text, const PinsOptions& options, const PinsAnswer& answer) {
  const std::size_t count = options.stacks == 0 ? answer.shown : std::min(answer.shown, options.stacks);
  if (count == 0) return;
  text.heading(options.by == PinsOptions::By::kStack ? "Stacks" : "Largest stack of each");
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t node = answer.group_names[answer.groups[i].group].node;
    const pins::LiveSum& live = answer.memory.kept.by_node[node];
    text.stack(i + 1, human_bytes(live.requested_bytes) + " live in " + render::block_count(live.blocks), node,
               answer.names);
  }
}

/// A command for the same moment. `option` gives the command the moment. Without the name of the trace: a copy of it
/// has the same text.
std::string command(const std::string& name, const char* option, const PinsOptions& options) {
  std::string text = "heapprof " + name + " TRACE";
  const std::string& moment = options.trace.texts.to;
  if (!moment.empty()) text += std::string(" ") + option + " " + shell_quoted(moment);
  return text;
}

/// The call that returns free memory; redis has a command that makes it.
std::string trim_words(const PinsAnswer& answer) {
  const bool redis = base_name(answer.profile.recording.program).starts_with("redis");
  return trim_call(answer.memory.allocator) +
         (redis && answer.memory.allocator == Allocator::kJemalloc ? " (in redis, MEMORY PURGE)" : "");
}

/// What to do about the largest group.
std::string advice_on_groups(const PinsOptions& options, const PinsAnswer& answer) {
  constexpr std::uint64_t kWorthwhile = 1 << 20;
  const pins::PinnedMemory& memory = answer.memory;
  const std::uint64_t overhead = memory.overhead_bytes();
  const std::uint64_t of_rss = answer.residency && answer.residency->measured ? answer.residency->rss_bytes / 100 : 0;
  if (overhead < std::max(kWorthwhile, of_rss))
    return "Live blocks pin little here: " + human_bytes(overhead) + " beyond their own bytes.";
  if (overhead * 4 < memory.pinned_bytes)
    return "Most of what is pinned is the blocks themselves: '" + command("report", "--live-at", options) +
           "' shows them.";
  const std::string returned =
      returns_memory_by_itself(memory.allocator)
          ? "Then " + allocator_words(answer) + " returns it after a while, and " + trim_words(answer) + " at once."
          : "Then " + trim_words(answer) + " returns it.";
  for (std::size_t i = 0; i < answer.shown; ++i) {
    const findings::FrameRef site = answer.group_names[answer.groups[i].group].frame;
    if (!site.exists() || answer.groups[i].overhead_bytes <= 0) continue;
    const findings::Origin origin = answer.findings.frames().at(site).origin;
    if (origin == findings::Origin::kRuntime || origin == findings::Origin::kStandard ||
        origin == findings::Origin::kThirdParty)
      continue;
    return "Allocate the blocks of #" + std::to_string(i + 1) +
           " from memory of their own (a pool, an arena, one array), or free them together, so that they do not keep "
           "what others have freed. " +
           returned;
  }
  return "Libraries allocated the blocks: their stacks show which calls of the program cause it. " + returned;
}

void append_advice(ReportText& text, const PinsOptions& options, const PinsAnswer& answer) {
  text.heading("What to do");
  text.list_item(advice_on_groups(options, answer));
  const std::uint64_t bytes = returnable_bytes(answer);
  if (bytes == 0) return;
  const bool measured = answer.residency && answer.residency->measured;
  const std::string returnable = human_bytes(bytes);
  if (measured)
    text.list_item("No live block keeps the returnable " + returnable + ": " + trim_words(answer) + " returns it.");
  else if (returns_memory_by_itself(answer.memory.allocator))
    text.list_item("No live block keeps the returnable " + returnable + ": " + allocator_words(answer) +
                   " returns such memory by itself after a while, and " + trim_words(answer) +
                   " at once. The recording does not show whether it has.");
  else
    text.list_item("No live block keeps the returnable " + returnable + ": " + trim_words(answer) +
                   " returns what is resident of it.");
}

/// What the figures do not include, if it is more than they do.
std::string note_on_mappings(const PinsOptions& options, const PinsAnswer& answer) {
  const MappedByProgram& mapped = answer.mapped;
  if (mapped.bytes <= answer.memory.pinned_bytes || mapped.bytes < (std::uint64_t{1} << 20)) return "";
  std::string note = "not included: " + human_bytes(mapped.bytes) + " that the program mapped itself";
  if (!mapped.site.empty()) note += ", " + human_bytes(mapped.site_bytes) + " of it in " + mapped.site;
  if (mapped.site.starts_with("_PyObject_Arena") || mapped.site.starts_with("new_arena"))
    return note +
           ": Python's own allocator, whose blocks are not recorded. Record with PYTHONMALLOC=malloc to see "
           "them";
  return note + " ('" + command("rss", "--at", options) + "')";
}

}  // namespace

std::uint64_t PinsAnswer::overhead_of(std::size_t count) const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i)
    sum += static_cast<std::uint64_t>(std::max<std::int64_t>(groups[i].overhead_bytes, 0));
  return sum;
}

std::size_t groups_worth_showing(const PinsAnswer& answer, std::size_t max) {
  const double least = kMinShare * static_cast<double>(answer.overhead_of(answer.groups.size()));
  std::size_t count = 0;
  while (count < std::min(max, answer.groups.size()) && answer.groups[count].overhead_bytes > 0 &&
         static_cast<double>(answer.groups[count].overhead_bytes) >= least)
    ++count;
  return std::max(count, std::min<std::size_t>(1, answer.groups.size()));
}

std::string pins_text(const PinsOptions& options, const PinsAnswer& answer) {
  ReportText text(answer.profile, answer_style(options.trace.output, options.frames), &answer.findings);
  text.title().line();
  append_totals(text, answer);
  append_groups(text, options, answer);
  append_companions(text, options, answer);
  append_stacks(text, options, answer);
  append_advice(text, options, answer);
  text.line();
  text.line("By stack: --by stack");
  text.command("Flame graph", command("flamegraph", "--at", options) + " --cost pinned -o pinned.svg");
  text.command("Limit", command("check", "--to", options) + " --max-pinned SIZE");
  std::vector<std::string> warnings = answer.names.warnings();
  if (!answer.memory.note.empty()) warnings.insert(warnings.begin(), answer.memory.note);
  if (const std::string note = note_on_mappings(options, answer); !note.empty())
    warnings.insert(warnings.begin(), note);
  text.notes(warnings);
  return text.text();
}

}  // namespace heapprof::cli
