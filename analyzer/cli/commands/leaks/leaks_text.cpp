#include "analyzer/cli/commands/leaks/leaks_text.h"

#include <algorithm>
#include <utility>

#include "analyzer/cli/commands/shared/next_commands.h"
#include "analyzer/cli/text/answer_text.h"
#include "analyzer/cli/text/processes_text.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/small_rows.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/units.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

using findings::Held;
using model::LeakTrend;
using render::exact_number;
using render::human_bytes;
using render::human_time;

/// The live bytes over time of a table's row: those of LeakTrend with half the resolution.
std::vector<std::uint64_t> over_time(const LeakTrend& trend) {
  std::vector<std::uint64_t> values;
  for (unsigned part = 0; part < LeakTrend::kParts; part += 2)
    values.push_back(std::min(trend.low_bytes[part], trend.low_bytes[part + 1]));
  values.push_back(trend.low_bytes[LeakTrend::kParts]);
  return values;
}

std::string site_count(const ClassSums& sums) {
  return exact_number(sums.sites) + (sums.sites == 1 ? " call site" : " call sites");
}

/// Growth ends with the program's last allocation, which may be long before the end.
std::string words_for_growing(const ClassSums& sums, std::uint64_t end_ns) {
  const std::uint64_t freed = sums.allocated_bytes - std::min(sums.allocated_bytes, sums.left_bytes);
  const bool until_end = sums.grew_until_ns >= end_ns / 10 * 9;
  return site_count(sums) + " grew until " +
         (until_end ? "the end; " : "the last allocation (" + human_time(sums.grew_until_ns) + "); ") +
         (freed == 0 ? "none" : render::percent(freed, sums.allocated_bytes)) + " freed";
}
std::string words_for_load(const ClassSums& sums) {
  return site_count(sums) + " grew while the program allocated, until " + human_time(sums.grew_until_ns);
}
std::string words_for_stable(const ClassSums& sums, std::uint64_t end_ns) {
  // Memory that rose once, near the end, did not grow steadily either.
  if (sums.grew_until_ns > end_ns / 4 * 3) return site_count(sums) + " without steady growth";
  return site_count(sums) + (sums.sites == 1 ? " that did not grow after " : ", none of which grew after ") +
         human_time(sums.grew_until_ns);
}
std::string words_for_in_use(const ClassSums& sums) { return site_count(sums) + " allocated and freed throughout"; }

/// `end_ns`: of the recording or slice.
std::string words_for(LeakClass one, const ClassSums& sums, std::uint64_t end_ns) {
  switch (one) {
    case LeakClass::kGrowing: return words_for_growing(sums, end_ns);
    case LeakClass::kWithLoad: return words_for_load(sums);
    case LeakClass::kInUse: return words_for_in_use(sums);
    case LeakClass::kStable: break;
  }
  return words_for_stable(sums, end_ns);
}

std::string sizes_of(const LeakTrend& trend) {
  if (trend.smallest != trend.largest)
    return human_bytes(trend.smallest) + " to " + human_bytes(trend.largest) + " each, ";
  return trend.left_blocks == 1 ? std::string() : human_bytes(trend.smallest) + " each, ";
}

std::string times_of(const LeakTrend& trend) {
  const std::string first = human_time(trend.first_ns);
  const std::string last = human_time(trend.last_ns);
  return first == last ? "allocated at " + first : "allocated from " + first + " to " + last;
}

/// The order of the call sites, if it is not that of the first column.
const char* words_for(LeaksOptions::Order order, bool has_history) {
  switch (order) {
    case LeaksOptions::Order::kGrowth: return ", likeliest leaks first";
    case LeaksOptions::Order::kBlocks: return ", most blocks first";
    case LeaksOptions::Order::kAge: return has_history ? ", oldest first" : "";
    case LeaksOptions::Order::kBytes: break;
  }
  return "";
}

class LeaksText : public AnswerText {
 public:
  LeaksText(const LeaksOptions& options, const LeaksAnswer& answer, const TextStyle& style)
      : AnswerText(answer.profile, style, answer.names, answer.findings), options_(options), answer_(answer) {}

  void write() {
    title();
    summary();
    if (profile().together && profile().totals.leaked_blocks != 0)
      write_leaking_processes(*this, *profile().together);
    if (answer_.path)
      common_path("Look first at", Cost::kLeaked, *answer_.path,
                  {profile().totals.leaked_bytes, profile().totals.leaked_blocks});
    classes();
    if (answer_.sites.empty()) {
      if (answer_.suppressed.blocks != 0)
        line().paragraph(answer_.profile.integrity.ended_by == "running"
                             ? "All live blocks are suppressed (--no-suppressions shows them)."
                             : "All live blocks are suppressed: no leaks (--no-suppressions shows them).");
    } else {
      const SiteRanking ranking = this->ranking();
      call_sites(ranking);
      keepers(answer_.keepers, ranking.total);
      stacks(ranking, answer_.held, options_.stacks, [this](std::uint32_t node) { return details_of(node); });
      helpers(ranking);
      next_commands(ranking, options_.stacks, selection_words(options_.trace));
    }
    notes(answer_.names.warnings());
  }

 private:
  void summary() {
    const model::Costs& total = profile().totals;
    const bool running = profile().integrity.ended_by == "running";
    if (total.leaked_blocks == 0) {
      line(profile().slice ? live_words(profile()) + ": no block."
           : running       ? "No block is live."
           : !profile().selection_text.empty()
               ? (total.empty() ? "Nothing matches the selection." : "No selected block was live at the end.")
           : profile().together ? "No block was live at the end of any process: no leaks."
                                : "No block was live at the end: no leaks.");
      return;
    }
    std::string text = live_words(profile()) + ": " + human_bytes(total.leaked_bytes) + " in " +
                       count_of_kind(profile(), total.leaked_blocks);
    if (!profile().slice && !profile().is_moment() && total.peak_bytes != 0)
      text += ", " + render::percent(total.leaked_bytes, total.peak_bytes) +
              (profile().together ? " of the peaks" : " of the peak");
    for (const std::string& piece : render::wrapped(text + ".", style().width)) line(piece);
    if (ends_early()) line("Of these, still live at the end of the recording: --survivors");
  }

  /// Whether the slice ends before the recording, so that its blocks may have been freed later.
  bool ends_early() const {
    const std::optional<model::Slice>& slice = profile().slice;
    return slice && slice->from_ns != 0 && slice->to_ns < profile().recording.duration_ns && !profile().survivors_ns;
  }

  /// A line for each trend, and for what is suppressed.
  void classes() {
    std::vector<std::pair<std::string, Held>> labels;
    std::vector<std::string> words;
    if (answer_.histories != nullptr) {
      for (const LeakClass one : kLeakClasses) {
        const ClassSums sums = sums_of(answer_.sites, one);
        if (sums.sites == 0) continue;
        labels.emplace_back(label_of(one), sums.held);
        words.push_back(words_for(one, sums, profile().end_ns()));
      }
    }
    // Built-in suppressions are one line: there are many of them, and none is the program's.
    Held built_in;
    std::string names;
    for (const Suppressions::Hits& hit : answer_.suppressed.by) {
      if (!hit.built_in) {
        labels.emplace_back("suppressed", Held{hit.bytes, hit.blocks});
        words.push_back(hit.name);
        continue;
      }
      built_in += {hit.bytes, hit.blocks};
      names += (names.empty() ? "" : ", ") + hit.name;
    }
    if (built_in.blocks != 0) {
      labels.emplace_back("suppressed", built_in);
      words.push_back("(built in) " + names);
    }
    if (labels.empty()) return;
    line();
    std::uint64_t largest = 0;
    for (const auto& [label, held] : labels) largest = std::max(largest, held.bytes);
    const render::ByteColumn sizes(largest);
    constexpr std::size_t kNarrow = 60;  // the words need lines of their own
    if (style().width < kNarrow) {
      for (std::size_t i = 0; i < labels.size(); ++i)
        row(labels[i].first, sizes.text(labels[i].second.bytes),
            count_of_kind(profile(), labels[i].second.blocks) + ": " + words[i]);
      return;
    }
    std::vector<std::vector<Cell>> rows;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto& [label, held] = labels[i];
      const bool growing = label == "growing";
      rows.push_back({{label, growing ? std::optional(TextColour::kWarning) : std::nullopt},
                      {sizes.text(held.bytes), TextColour::kBold},
                      {count_of_kind(profile(), held.blocks)},
                      {words[i]}});
    }
    write_rows(*this, {{"", Column::Kind::kText}, {""}, {"", {}, 1}, {"", Column::Kind::kText}}, rows);
  }

  SiteRanking ranking() const {
    SiteRanking ranking;
    ranking.cost = Cost::kLeaked;
    ranking.heading = live_words(profile()) + words_for(options_.order, answer_.histories != nullptr);
    ranking.all_sites = answer_.sites.size();
    ranking.total = {profile().totals.leaked_bytes, profile().totals.leaked_blocks};
    for (const LeakingSite& leaking : answer_.sites) {
      ranking.all_stacks += leaking.site->nodes.size();
      ranking.all_held += leaking.site->held;
      if (options_.top != 0 && ranking.rows.size() == options_.top) continue;
      SiteRow row{leaking.site};
      if (leaking.trend != nullptr) {
        row.trend = label_of(class_of(*leaking.trend));
        row.over_time = over_time(*leaking.trend);
      }
      ranking.rows.push_back(std::move(row));
    }
    if (options_.top != 0) leave_out_small_rows(ranking);
    return ranking;
  }

  std::vector<std::string> details_of(std::uint32_t node) const {
    if (answer_.histories == nullptr) return {};
    const LeakTrend& trend = answer_.histories->of_stack(node);
    std::string text = sizes_of(trend) + times_of(trend);
    if (trend.freed_blocks != 0)
      text += "; " + render::block_count(trend.freed_blocks) + " freed, longest lifetime " +
              human_time(trend.longest_life_ns);
    return {text};
  }

  const LeaksOptions& options_;
  const LeaksAnswer& answer_;
};

}  // namespace

std::string leaks_text(const LeaksOptions& options, const LeaksAnswer& answer) {
  LeaksText text(options, answer, answer_style(options.trace.output, options.frames));
  text.write();
  return text.text();
}

}  // namespace heapprof::cli
