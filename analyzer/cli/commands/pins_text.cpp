#include "analyzer/cli/commands/pins_text.h"

#include <algorithm>

#include "analyzer/cli/text/answer_text.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/render/byte_column.h"
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

void append_totals(ReportText& text, const PinsAnswer& answer) {
  const pins::PinnedMemory& memory = answer.memory;
  pins::LiveSum live;
  for (const pins::LiveSum& one : memory.kept.by_node) live += one;
  text.line("What " + allocator_words(answer) + " cannot return, since blocks are live in it, at " +
            render::human_time(answer.profile.end_ns()) + ":");
  text.line();
  text.row("pinned", human_bytes(memory.pinned_bytes),
           "by " + render::block_count(live.blocks) +
               (live.blocks == 1 ? "; estimated" : "; estimated: all of it counts as resident"));
  text.row("own bytes", human_bytes(memory.usable_bytes),
           "usable in these blocks; " + human_bytes(live.requested_bytes) + " were requested");
  text.row("overhead", human_bytes(memory.overhead_bytes()), "pinned beyond the blocks");
  text.row("returnable", human_bytes(memory.returnable_bytes), "at most, free without a live block");
}

std::string signed_bytes(std::int64_t bytes, const render::ByteColumn& column) {
  return bytes < 0 ? "-" + column.text(static_cast<std::uint64_t>(-bytes))
                   : column.text(static_cast<std::uint64_t>(bytes));
}

const char* words_for(PinsOptions::By by) {
  switch (by) {
    case PinsOptions::By::kStack: return "stack";
    case PinsOptions::By::kFunction: return "function";
    case PinsOptions::By::kSite: break;
  }
  return "call site";
}

/// What the table leaves out.
void append_rest(ReportText& text, const PinsAnswer& answer) {
  const std::size_t left_out = answer.groups.size() - answer.shown;
  if (left_out == 0) return;
  const std::uint64_t bytes = answer.overhead_of(answer.groups.size()) - answer.overhead_of(answer.shown);
  text.line("  +" + exact_number(left_out) + " more, with " + human_bytes(bytes) +
            (left_out == 1 ? " of overhead" : " of overhead together") + "; --top 0 prints all");
}

void append_groups(ReportText& text, const PinsOptions& options, const PinsAnswer& answer) {
  std::string heading = std::string("Who pins it, by ") + words_for(options.by);
  if (answer.shown < answer.groups.size())
    heading += " (" + exact_number(answer.shown) + " of " + exact_number(answer.groups.size()) + "; " +
               render::percent(answer.overhead_of(answer.shown), answer.overhead_of(answer.groups.size())) +
               " of the overhead)";
  text.heading(heading);
  if (answer.shown == 0) {
    text.line("  none");
    return;
  }
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < answer.shown; ++i)
    largest = std::max(largest, answer.groups[i].alone_bytes + answer.groups[i].shared_bytes);
  const render::ByteColumn sizes(largest);
  using Kind = Column::Kind;
  const std::vector<Column> columns = {{"#"},
                                       {"overhead"},
                                       {"alone"},
                                       {"shared", Kind::kFigure, 1},
                                       {"live", Kind::kFigure, 2},
                                       {"blocks", Kind::kFigure, 3},
                                       {"function", Kind::kFunction},
                                       {"line", Kind::kLocation}};
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < answer.shown; ++i) {
    const pins::PinGroup& group = answer.groups[i];
    const PinGroupName& name = answer.group_names[group.group];
    std::string function = "(no stack recorded)";
    std::string location;
    bool own = false;
    if (name.frame.exists()) {
      const Frame frame = answer.findings.frame(name.frame);
      function = frame.function.empty() ? unresolved_name(frame) : function_name(frame.function);
      if (options.by != PinsOptions::By::kFunction) location = location_of(frame);
      own = answer.findings.frames().at(name.frame).origin == findings::Origin::kOwn;
    }
    rows.push_back({{std::to_string(i + 1)},
                    {signed_bytes(group.overhead_bytes, sizes), TextColour::kBold},
                    {sizes.text(group.alone_bytes)},
                    {sizes.text(group.shared_bytes)},
                    {sizes.text(group.live.requested_bytes)},
                    {exact_number(group.live.blocks)},
                    {function, own ? std::optional(TextColour::kBold) : std::nullopt},
                    {location, TextColour::kDim}});
  }
  write_columns(text, columns, rows);
  append_rest(text, answer);
}

/// For each row the groups with which it keeps granules: numbers of rows, and names of what is not in the table. Only
/// as far as their granules add at least kMinShare of the overhead.
void append_companions(ReportText& text, const PinsAnswer& answer) {
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
    std::string others;
    std::uint64_t bytes = 0;
    for (auto one = with.begin(); one != last.base(); ++one) {
      others += (others.empty() ? "" : ", ") + (row_of_group[one->group] != 0
                                                    ? "#" + std::to_string(row_of_group[one->group])
                                                    : answer.group_names[one->group].name);
      bytes += one->completed_bytes;
    }
    if (!any) text.heading("Kept together (what could be returned beyond alone, without the blocks of all of them)");
    any = true;
    text.list_item("#" + std::to_string(i + 1) + " with " + others + ": " + human_bytes(bytes));
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

void append_advice(ReportText& text, const PinsAnswer& answer) {
  const pins::PinnedMemory& memory = answer.memory;
  const std::string call = trim_call(memory.allocator);
  text.heading("What to do");
  if (memory.overhead_bytes() * 4 < memory.pinned_bytes)
    text.list_item("Most of what is pinned is the blocks themselves: heapprof report TRACE shows them.");
  else
    text.list_item(
        "Allocate the blocks of #1 from memory of their own (a pool, an arena, one array), or free them together, so "
        "that they do not keep what others have freed. Then " +
        call + " returns it.");
  if (memory.returnable_bytes == 0) return;
  const std::string returnable = human_bytes(memory.returnable_bytes);
  if (returns_memory_by_itself(memory.allocator))
    text.list_item("Nothing keeps the returnable " + returnable + ": " + allocator_words(answer) +
                   " returns such memory by itself after a while, and " + call +
                   " at once. The recording does not show whether it has.");
  else text.list_item("Nothing keeps the returnable " + returnable + ": " + call + " returns it.");
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
  append_companions(text, answer);
  append_stacks(text, options, answer);
  append_advice(text, answer);
  text.line();
  text.line("By stack: --by stack    Flame graph: heapprof flamegraph TRACE --cost pinned -o pinned.svg");
  text.line("Limit: heapprof check TRACE --max-pinned SIZE");
  std::vector<std::string> warnings = answer.names.warnings();
  if (!answer.memory.note.empty()) warnings.insert(warnings.begin(), answer.memory.note);
  text.notes(warnings);
  return text.text();
}

}  // namespace heapprof::cli
