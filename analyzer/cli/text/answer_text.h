// The first screen of `leaks` and `report`, after the sentences on what was recorded: the call path that most of the
// memory has in common; the call sites, one line each; the functions that keep what they allocate; stacks of these
// call sites; helpers; the commands to go on with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/common_path.h"
#include "analyzer/findings/folded_stacks.h"
#include "analyzer/findings/held.h"
#include "analyzer/findings/keepers.h"

namespace heapprof::cli {

/// Whether `cost` is what was live at a moment: a function can keep it, and it has a history.
constexpr bool is_of_live_blocks(Cost cost) noexcept {
  return cost == Cost::kPeak || cost == Cost::kLeaked || cost == Cost::kLive;
}

/// What a call site's line shows besides the site.
struct SiteRow {
  const findings::CallSite* site = nullptr;
  std::string trend{};                     ///< "growing"; empty: unknown
  std::vector<std::uint64_t> over_time{};  ///< empty: unknown
};

/// The call sites of one cost, in the order of their rank.
struct SiteRanking {
  Cost cost = Cost::kPeak;
  std::string heading;        ///< "Live at the peak"
  std::vector<SiteRow> rows;  ///< those that are shown
  std::size_t all_sites = 0;  ///< number of call sites that have this cost
  std::uint64_t all_stacks = 0;
  findings::Held total;        ///< what all stacks together hold: shares are of this
  findings::Held all_held;     ///< of all call sites: of the total, what is not suppressed
  bool lacks_history = false;  ///< live bytes over time were left out, since the trace is long
};

/// style_for(), with at most 100 columns: the distance from a figure to its name stays small.
TextStyle answer_style(const std::string& output, std::size_t frames);

class AnswerText : public ReportText {
 public:
  /// The arguments must outlive this.
  AnswerText(const model::Profile& profile, const TextStyle& style, const StackNames& names, const Findings& findings)
      : ReportText(profile, style, &findings), names_(names), answers_(findings) {}

  /// `words` ("Look first at"), the figures of the path, and its functions in at most two lines.
  AnswerText& common_path(const std::string& words, Cost cost, const findings::CommonPath& path,
                          const findings::Held& total);
  /// The table of call sites.
  AnswerText& call_sites(const SiteRanking& ranking);
  /// "Who keeps what it allocates": those with at least half a percent of `total`, which is what all stacks hold.
  AnswerText& keepers(std::vector<findings::Keeper> keepers, const findings::Held& total);
  /// At most `max` stacks (0: all) of the call sites in the table: the largest of each, then the second of each, and
  /// so on. `more_of` returns what the heading of a stack says besides its figures, one text for each line.
  AnswerText& stacks(const SiteRanking& ranking, const findings::HeldByNode& held, std::size_t max,
                     const std::function<std::vector<std::string>(std::uint32_t node)>& more_of = {});
  /// The helpers of the call sites in the table, and why they are skipped.
  AnswerText& helpers(const SiteRanking& ranking);
  /// Options and commands that answer the next question. `stacks`: how many were to be printed; 0: all. `selection`:
  /// what the commands end with.
  AnswerText& next_commands(const SiteRanking& ranking, std::size_t stacks, const std::string& selection);

 private:
  /// The stacks of a call site, largest first, and how many of them are printed.
  struct SiteStacks {
    std::vector<findings::FoldedStack> stacks;
    std::size_t shown = 0;
  };

  std::vector<SiteStacks> choose_stacks(const SiteRanking& ranking, const findings::HeldByNode& held,
                                        std::size_t max) const;
  void further_stacks(const SiteRanking& ranking, const SiteStacks& site);
  std::vector<findings::Helper> helpers_of(const SiteRanking& ranking) const;

  std::vector<std::string> path_lines(const findings::CommonPath& path, const std::vector<std::size_t>& shown) const;
  std::string share_of(const SiteRanking& ranking, const findings::Held& held) const;
  std::string part_of(const SiteRanking& ranking, std::size_t shown, std::size_t all,
                      const findings::Held& held) const;
  std::string name_of(const findings::CallSite& site) const;
  std::string name_of_function(std::uint32_t function) const;
  std::string short_location(const Frame& frame) const;
  std::string location_or_caller(findings::FrameRef frame, findings::FrameRef own_caller) const;

  const StackNames& names_;
  const Findings& answers_;
};

}  // namespace heapprof::cli
