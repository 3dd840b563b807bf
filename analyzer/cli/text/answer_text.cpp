#include "analyzer/cli/text/answer_text.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <numeric>
#include <set>
#include <utility>

#include "analyzer/base/shell_quote.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

using findings::Held;
using findings::Origin;
using render::exact_number;

/// "81%"; "<1%" and ">99%" where rounding would claim nothing or everything.
std::string whole_percent(std::uint64_t part, std::uint64_t of) {
  if (part == 0 || of == 0) return "0%";
  if (part >= of) return "100%";
  const double share = 100.0 * static_cast<double>(part) / static_cast<double>(of);
  if (share < 0.5) return "<1%";
  if (share >= 99.5) return ">99%";
  char text[8];
  std::snprintf(text, sizeof text, "%.0f%%", share);
  return text;
}

std::string whole_percent(double share) {
  constexpr std::uint64_t kWhole = 1'000'000;
  const double parts = std::clamp(share, 0.0, 1.0) * static_cast<double>(kWhole);
  // A share that is almost 0 or almost 1 must not become exactly that.
  return whole_percent(share <= 0   ? 0
                       : share >= 1 ? kWhole
                                    : std::clamp<std::uint64_t>(static_cast<std::uint64_t>(parts), 1, kWhole - 1),
                       kWhole);
}

std::optional<TextColour> colour_of(Origin origin) {
  switch (origin) {
    case Origin::kOwn: return TextColour::kBold;
    case Origin::kStandard:
    case Origin::kRuntime: return TextColour::kDim;
    case Origin::kThirdParty:
    case Origin::kUnresolved: return {};
  }
  return {};
}

Held shown_of(const SiteRanking& ranking) {
  Held shown;
  for (const SiteRow& row : ranking.rows) shown += row.site->held;
  return shown;
}

}  // namespace

std::string AnswerText::share_of(const SiteRanking& ranking, const Held& held) const {
  return ranks_by_blocks(ranking.cost) ? render::percent(held.blocks, ranking.total.blocks)
                                       : render::percent(held.bytes, ranking.total.bytes);
}

/// " (3 of 14; 88.3% of the bytes)"
std::string AnswerText::part_of(const SiteRanking& ranking, std::size_t shown, std::size_t all,
                                const Held& held) const {
  return " (" + exact_number(shown) + " of " + exact_number(all) + "; " + share_of(ranking, held) + " of the " +
         (ranks_by_blocks(ranking.cost) ? "blocks" : "bytes") + ")";
}

std::string AnswerText::name_of(const findings::CallSite& site) const {
  return site.frame.exists() ? ReportText::name_of(answers_.frame(site.frame)) : answers_.without_site();
}

/// Where a frame is. The program itself is not named: most frames are there.
std::string AnswerText::short_location(const Frame& frame) const {
  return frame.file.empty() && frame.module != nullptr && frame.module->is_main && !frame.function.empty()
             ? std::string()
             : location_of(frame);
}

/// Where a frame is. For code that has no line, the caller in the program's own code says more than a module.
std::string AnswerText::location_or_caller(findings::FrameRef ref, findings::FrameRef own_caller) const {
  if (!ref.exists()) return {};
  const Frame frame = answers_.frame(ref);
  if (frame.file.empty() && own_caller.exists()) return "from " + ReportText::name_of(answers_.frame(own_caller));
  return short_location(frame);
}

namespace {

constexpr std::size_t kPathIndent = 2;
constexpr std::size_t kMaxPathLines = 2;
constexpr std::size_t kMaxPathName = 40;

/// A function's name with at most kMaxPathName letters, or with one scope where the name alone says little ("new").
std::string path_name(const std::string& name) {
  std::string fitted = render::fit_name(name, kMaxPathName);
  const bool has_scope = name.find("::") != std::string::npos;
  return has_scope && fitted.find("::") == std::string::npos ? render::fit_name(name, kMaxPathName * 3 / 2) : fitted;
}

/// Leaves out one of the functions `shown` of a path, but not the last: one of those that have least to do with the
/// memory, third parties' code before the program's own; of several the one in the middle, since the first and the
/// last say most. Returns which.
std::size_t leave_one_out(const findings::CommonPath& path, const findings::CodeFrames& frames,
                          std::vector<std::size_t>& shown) {
  // These count as much as such a share.
  constexpr double kOwnCode = 0.5;
  constexpr double kOutermostOwnCode = 1;
  constexpr double kAlike = 0.05;
  const auto is_own = [&](std::size_t position) {
    const findings::Function& function = frames.at(path.functions[shown[position]].frame);
    return function.origin == Origin::kOwn && !function.is_built_in;
  };
  std::size_t outermost = 0;
  while (outermost < shown.size() && !is_own(outermost)) ++outermost;
  const auto value = [&](std::size_t position) {
    return path.functions[shown[position]].share + (position == outermost ? kOutermostOwnCode
                                                    : is_own(position)    ? kOwnCode
                                                                          : 0);
  };
  double least = value(0);
  for (std::size_t i = 1; i + 1 < shown.size(); ++i) least = std::min(least, value(i));
  std::vector<std::size_t> alike;
  for (std::size_t i = 0; i + 1 < shown.size(); ++i)
    if (value(i) <= least + kAlike) alike.push_back(i);
  const auto one = shown.begin() + static_cast<std::ptrdiff_t>(alike[alike.size() / 2]);
  const std::size_t function = *one;
  shown.erase(one);
  return function;
}

}  // namespace

/// The functions `shown`, an ellipsis for those that are left out between them, and the place of the last one.
std::vector<std::string> AnswerText::path_lines(const findings::CommonPath& path,
                                                const std::vector<std::size_t>& shown) const {
  const std::string indent(kPathIndent, ' ');
  std::vector<std::string> lines(1, indent);
  std::size_t columns = kPathIndent;
  const auto add = [&](const std::string& text, std::optional<TextColour> colour, const std::string& after) {
    const std::size_t length = render::length_utf8(text + after);
    if (columns != kPathIndent && columns + length > style().width) {
      lines.push_back(indent);
      columns = kPathIndent;
    }
    lines.back() += (colour ? paint(*colour, text) : text) + after;
    columns += length;
  };
  std::size_t next = 0;
  for (const std::size_t i : shown) {
    const findings::FrameRef frame = path.functions[i].frame;
    const bool last = i + 1 == path.functions.size();
    if (i != next) add("…", TextColour::kDim, " → ");
    next = i + 1;
    const std::string name = name_in_table(answers_.frame(frame), style().full_names);
    add(style().full_names ? name : path_name(name), colour_of(answers_.frames().at(frame).origin),
        last ? " " : " → ");
  }
  if (const std::string place = short_location(answers_.frame(path.functions.back().frame)); !place.empty())
    add("(" + place + ")", TextColour::kDim, "");
  return lines;
}

AnswerText& AnswerText::common_path(const std::string& words, Cost cost, const findings::CommonPath& path,
                                    const Held& total) {
  const std::string bytes = render::human_bytes(path.held.bytes);
  const std::string blocks = count_of_kind(profile(), path.held.blocks);
  const std::string figures =
      ranks_by_blocks(cost) ? blocks + " (" + whole_percent(path.held.blocks, total.blocks) + "), " + bytes
                            : bold(bytes) + " (" + whole_percent(path.held.bytes, total.bytes) + ") in " + blocks;
  for (const std::string& piece : render::wrapped(words + " " + figures + ", allocated by", style().width))
    line(piece);
  std::vector<std::size_t> shown(path.functions.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  std::vector<std::size_t> left_out;
  // Full names take what room they need, and no function is left out for them.
  while (!style().full_names && shown.size() > 1 && path_lines(path, shown).size() > kMaxPathLines)
    left_out.push_back(leave_one_out(path, answers_.frames(), shown));
  // A long name may have left room for shorter ones.
  for (auto one = left_out.rbegin(); one != left_out.rend(); ++one) {
    std::vector<std::size_t> more = shown;
    more.insert(std::lower_bound(more.begin(), more.end(), *one), *one);
    if (path_lines(path, more).size() <= kMaxPathLines) shown = std::move(more);
  }
  for (const std::string& one : path_lines(path, shown)) line(one);
  return *this;
}

AnswerText& AnswerText::call_sites(const SiteRanking& ranking) {
  const bool by_blocks = ranks_by_blocks(ranking.cost);
  std::string text = ranking.heading + ", by call site";
  if (ranking.rows.size() < ranking.all_sites)
    text += part_of(ranking, ranking.rows.size(), ranking.all_sites, shown_of(ranking));
  line();
  for (const std::string& piece : render::wrapped(text, style().width)) line(bold(piece));
  if (ranking.rows.empty()) {
    line("  none");
    return *this;
  }
  std::uint64_t largest = 0;
  for (const SiteRow& row : ranking.rows) largest = std::max(largest, row.site->held.bytes);
  const render::ByteColumn sizes(largest);
  const std::string count_header = profile().kind == model::Kind::kHeap ? "blocks" : "number";
  using Kind = Column::Kind;
  const std::string bytes_header = is_of_live_blocks(ranking.cost) ? "live" : "bytes";
  const std::vector<Column> columns = {{"#"},
                                       {by_blocks ? count_header : bytes_header},
                                       {"share", Kind::kFigure, 4},
                                       {by_blocks ? bytes_header : count_header, Kind::kFigure, 2},
                                       {"freed", Kind::kFigure, 5},
                                       {"over time", Kind::kText, 3},
                                       {"trend", Kind::kText, 1},
                                       {"function", Kind::kFunction},
                                       {"line", Kind::kLocation}};
  std::vector<std::vector<Cell>> lines;
  for (const SiteRow& row : ranking.rows) {
    const findings::CallSite& site = *row.site;
    const Cell bytes{sizes.text(site.held.bytes), by_blocks ? std::nullopt : std::optional(TextColour::kBold)};
    const Cell blocks{exact_number(site.held.blocks), by_blocks ? std::optional(TextColour::kBold) : std::nullopt};
    // A block that a realloc moves goes on: what it was before was not freed.
    const model::Costs& costs = site.costs;
    const std::uint64_t allocated = costs.allocated_bytes - std::min(costs.allocated_bytes, costs.moved_bytes);
    const Cell share{by_blocks ? whole_percent(site.held.blocks, ranking.total.blocks)
                               : whole_percent(site.held.bytes, ranking.total.bytes)};
    const Origin origin = site.frame.exists() ? answers_.frames().at(site.frame).origin : Origin::kUnresolved;
    lines.push_back({{std::to_string(lines.size() + 1)},
                     by_blocks ? blocks : bytes,
                     share,
                     by_blocks ? bytes : blocks,
                     {whole_percent(allocated - std::min(allocated, costs.leaked_bytes), allocated)},
                     {sparkline(row.over_time.data(), row.over_time.size())},
                     {row.trend, row.trend == "growing" ? std::optional(TextColour::kWarning) : std::nullopt},
                     {name_of(site), colour_of(origin)},
                     {location_or_caller(site.frame, site.own_caller), TextColour::kDim}});
  }
  write_columns(*this, columns, lines);
  if (ranking.rows.size() < ranking.all_sites) {
    Held rest = ranking.all_held;
    const Held shown = shown_of(ranking);
    rest.bytes -= std::min(rest.bytes, shown.bytes);
    rest.blocks -= std::min(rest.blocks, shown.blocks);
    line("  +" + exact_number(ranking.all_sites - ranking.rows.size()) + " more, " +
         (by_blocks ? count_of_kind(profile(), rest.blocks) : render::human_bytes(rest.bytes)));
  }
  return *this;
}

AnswerText& AnswerText::keepers(std::vector<findings::Keeper> keepers, const Held& total) {
  // The share would be printed as "<1%": such a function explains nothing.
  std::erase_if(keepers, [&](const findings::Keeper& keeper) {
    return static_cast<double>(keeper.held.bytes) < 0.005 * static_cast<double>(total.bytes);
  });
  if (keepers.empty()) return *this;
  heading("Who keeps what it allocates (at most 5; callees included)");
  std::uint64_t largest = 0;
  for (const findings::Keeper& keeper : keepers) largest = std::max(largest, keeper.held.bytes);
  const render::ByteColumn sizes(largest);
  using Kind = Column::Kind;
  const std::vector<Column> columns = {{"live"},
                                       {"share", Kind::kFigure, 1},
                                       {"blocks"},
                                       {"blocks kept", Kind::kFigure, 2},
                                       {"bytes kept", Kind::kFigure, 3},
                                       {"function", Kind::kFunction},
                                       {"line", Kind::kLocation}};
  std::vector<std::vector<Cell>> lines;
  for (const findings::Keeper& keeper : keepers) {
    const Frame frame = answers_.frame(keeper.frame);
    lines.push_back({{sizes.text(keeper.held.bytes), TextColour::kBold},
                     {whole_percent(keeper.held.bytes, total.bytes)},
                     {exact_number(keeper.held.blocks)},
                     {whole_percent(keeper.blocks_share)},
                     {whole_percent(keeper.bytes_share)},
                     {ReportText::name_of(frame), colour_of(answers_.frames().functions()[keeper.function].origin)},
                     {location_or_caller(keeper.frame, keeper.own_caller), TextColour::kDim}});
  }
  write_columns(*this, columns, lines);
  return *this;
}

AnswerText& AnswerText::stacks(const SiteRanking& ranking, const findings::HeldByNode& held, std::size_t max,
                               const std::function<std::vector<std::string>(std::uint32_t)>& more_of) {
  if (ranking.rows.empty()) return *this;
  const std::vector<SiteStacks> all = choose_stacks(ranking, held, max);
  Held shown;
  std::size_t printed = 0;
  std::size_t stacks = 0;
  for (const SiteStacks& site : all)
    for (std::size_t i = 0; i < site.shown; ++i) {
      shown += site.stacks[i].held;
      ++printed;
      stacks += site.stacks[i].stacks;
    }
  // One of several similar stacks is printed for all of them.
  const std::string similar =
      printed < stacks ? ": " + exact_number(printed) + ", each the largest of similar ones" : "";
  heading("Stacks" + similar +
          (stacks < ranking.all_stacks ? part_of(ranking, stacks, ranking.all_stacks, shown) : ""));
  for (std::size_t row = 0; row < all.size() && all[row].shown != 0; ++row) {
    for (std::size_t i = 0; i < all[row].shown; ++i) {
      const findings::FoldedStack& one = all[row].stacks[i];
      std::string headline = figures_of_stack(ranking.cost, {one.node, one.held.bytes, one.held.blocks},
                                              {0, ranking.total.bytes, ranking.total.blocks});
      if (one.stacks > 1) headline += " of " + exact_number(one.stacks) + " similar stacks";
      constexpr std::size_t kIndent = 7;
      if (more_of && one.stacks == 1)
        for (const std::string& part : more_of(one.node))
          for (const std::string& piece : render::wrapped(part, style().width - kIndent))
            headline += "\n" + std::string(kIndent, ' ') + piece;
      stack(row + 1, headline, one.node, names_);
    }
    further_stacks(ranking, all[row]);
  }
  return *this;
}

/// The stacks of each row's call site, and how many of them are shown: the largest of each site, then the second of
/// each, until there are `max`.
std::vector<AnswerText::SiteStacks> AnswerText::choose_stacks(const SiteRanking& ranking,
                                                              const findings::HeldByNode& held,
                                                              std::size_t max) const {
  std::vector<SiteStacks> sites;
  for (const SiteRow& row : ranking.rows) {
    std::vector<findings::FoldedStack> stacks =
        findings::fold(answers_.frames(), answers_.helpers(), held, row.site->nodes);
    if (ranks_by_blocks(ranking.cost))
      std::stable_sort(stacks.begin(), stacks.end(),
                       [](const auto& a, const auto& b) { return a.held.blocks > b.held.blocks; });
    sites.push_back({std::move(stacks), 0});
  }
  std::size_t number = 0;
  for (bool found = true; found;) {
    found = false;
    for (SiteStacks& site : sites) {
      if (site.shown == site.stacks.size() || (max != 0 && number == max)) continue;
      ++site.shown;
      ++number;
      found = true;
    }
  }
  return sites;
}

void AnswerText::further_stacks(const SiteRanking& ranking, const SiteStacks& site) {
  const std::size_t number = site.stacks.size() - site.shown;
  if (number == 0) return;
  Held held;
  for (std::size_t i = site.shown; i < site.stacks.size(); ++i) held += site.stacks[i].held;
  const std::string figure =
      ranks_by_blocks(ranking.cost) ? count_of_kind(profile(), held.blocks) : render::human_bytes(held.bytes);
  line("      " +
       paint(TextColour::kDim, "(" + exact_number(number) + " further " + (number == 1 ? "stack" : "stacks") +
                                   " of this call site: " + figure + ", " + share_of(ranking, held) + ")"));
}

/// The helpers inside the call sites of the table, by bytes. Others would not explain a line of it.
std::vector<findings::Helper> AnswerText::helpers_of(const SiteRanking& ranking) const {
  std::set<std::uint32_t> used;
  for (const SiteRow& row : ranking.rows)
    for (const std::uint32_t node : row.site->nodes)
      for (const findings::FrameRef& frame : answers_.frames().stack(node)) {
        const std::uint32_t function = answers_.frames().function_of(frame);
        if (!answers_.helpers().skips(function)) break;
        used.insert(function);
      }
  std::vector<findings::Helper> helpers;
  for (const findings::Helper& helper : answers_.helpers().all())
    if (used.contains(helper.function)) helpers.push_back(helper);
  return helpers;
}

AnswerText& AnswerText::helpers(const SiteRanking& ranking) {
  constexpr std::size_t kMaxNames = 6;
  constexpr std::size_t kMaxExplained = 2;
  using Reason = findings::Helper::Reason;
  const std::vector<findings::Helper> helpers = helpers_of(ranking);
  if (helpers.empty()) return *this;
  heading("Helpers, whose callers are the call sites (--no-helpers)");
  const auto list_names = [&](Reason reason, const std::string& words) {
    std::string names;
    std::size_t number = 0;
    for (const findings::Helper& helper : helpers)
      if (helper.reason == reason && ++number <= kMaxNames)
        names += (number == 1 ? "" : ", ") + name_of_function(helper.function);
    if (number > kMaxNames) names += " and " + exact_number(number - kMaxNames) + " more";
    if (number != 0) list_item(words + ": " + names);
  };
  list_names(Reason::kPattern, "by --helper");
  list_names(Reason::kName, "by name");
  std::size_t number = 0;
  for (const findings::Helper& helper : helpers)
    if (helper.reason == Reason::kStructure && ++number <= kMaxExplained)
      list_item(name_of_function(helper.function) + ": " + findings::explain(helper));
  if (number > kMaxExplained) list_item(exact_number(number - kMaxExplained) + " more by structure");
  return *this;
}

std::string AnswerText::name_of_function(std::uint32_t function) const {
  return ReportText::name_of(answers_.frame(answers_.frames().functions()[function].frame));
}

AnswerText& AnswerText::next_commands(const SiteRanking& ranking, std::size_t stacks, const std::string& selection) {
  std::vector<std::string> options;
  if (ranking.rows.size() < ranking.all_sites)
    options.push_back("all " + exact_number(ranking.all_sites) + " call sites: --top 0");
  if (stacks != 0 && stacks < ranking.all_stacks)
    options.push_back("more stacks: --stacks " + std::to_string(std::max<std::size_t>(10, stacks * 4)));
  if (!ranking.rows.empty() && ranking.rows.front().site->frame.exists()) {
    const Frame frame = answers_.frame(ranking.rows.front().site->frame);
    // The option takes a regular expression: "[tail of f]" would match any of these letters.
    std::string name = searched_name(frame.function);
    if (name.starts_with('[')) name.insert(0, 1, '\\');
    const std::string option = "only the first: --function " + shell_quoted(name);
    if (!frame.function.empty() && render::length_utf8(option) <= style().width) options.push_back(option);
  }
  if (ranking.lacks_history) options.emplace_back("live bytes over time: --history");
  line();
  std::string text;
  for (std::string& option : options) {
    constexpr const char* kGap = "    ";
    if (!text.empty() && render::length_utf8(text + kGap + option) > style().width) {
      line(text);
      text.clear();
    }
    text += text.empty() ? option : kGap + option;
    if (text == option) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  }
  if (!text.empty()) line(text);
  const auto add = [&](const std::string& label, const std::string& words) {
    command(label, "heapprof " + words + selection);
  };
  // Without the name of the trace: a copy of it, compacted or bundled, has the same text.
  if (!ranking.rows.empty() && ranking.rows.front().site->frame.exists()) {
    std::string words =
        "callers TRACE " + shell_quoted(name_in_table(answers_.frame(ranking.rows.front().site->frame), false));
    for (const auto& [name, cost] : cost_names())
      if (cost == ranking.cost && cost != Cost::kPeak) words += " --cost " + name;
    add("Callers of the first", words);
  }
  if (ranking.cost != Cost::kLeaked) add("Never freed", "leaks TRACE");
  add("Over time", "timeline TRACE");
  command("In a browser", "heapprof serve TRACE");
  return *this;
}

TextStyle answer_style(const std::string& output, std::size_t frames) {
  constexpr std::size_t kMaxWidth = 100;
  TextStyle style = style_for(output, frames);
  style.width = std::min(style.width, kMaxWidth);
  return style;
}

}  // namespace heapprof::cli
