// Reports as text: the recording and the totals, stacks, notes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/text/stack_lines.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/cli/text/text_page.h"
#include "analyzer/findings/origin.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

/// What `cost` counts, as a heading: "Live at the peak", "Temporary allocations".
std::string heading_of(Cost cost, const model::Profile& profile);

class ReportText : public TextPage {
 public:
  /// The arguments must outlive this. Without `findings`, helpers are recognised by their names only, and the style
  /// alone decides whether names are full.
  ReportText(const model::Profile& profile, const TextStyle& style, const Findings* findings = nullptr)
      : TextPage(with_names_of(findings, style)), profile_(profile), findings_(findings),
        origins_(profile.recording.program) {}

  /// name_in_table() in this page's style.
  std::string name_of(const Frame& frame) const { return name_in_table(frame, style().full_names); }

  enum class Title {
    kWithEvents,
    kWithoutEvents,  ///< the trace was read in part, so that its events were not counted
  };
  /// Program, how it ended, whether the recording is complete, the slice and the selection.
  ReportText& title(Title title = Title::kWithEvents);
  /// The title and the totals.
  ReportText& head();
  /// A number and `headline`, then the frames of a stack.
  ReportText& stack(std::size_t number, const std::string& headline, std::uint32_t node, const StackNames& names);
  /// The frames of a stack, at most style().frames lines (stack_lines.h).
  ReportText& frames(std::uint32_t node, const StackNames& names);
  /// What is missing in the recording, its notes, and the warnings of symbol lookup.
  ReportText& notes(const std::vector<std::string>& symbol_warnings);

 protected:
  const model::Profile& profile() const noexcept { return profile_; }
  /// "  1.79 MiB   80.5%  in 2,090 blocks": the beginning of a stack's headline. The share is that of `total`.
  std::string figures_of_stack(Cost cost, const RankedStack& stack, const RankedStack& total) const;

 private:
  static TextStyle with_names_of(const Findings* findings, TextStyle style) {
    if (findings != nullptr) style.full_names = findings->view().full_names;
    return style;
  }
  void peak_rows();
  void moment_rows();
  void survivor_rows();
  void process_rows();
  findings::Origin origin_of(const Frame& frame) const;
  std::vector<FrameRole> roles_of(std::uint32_t node, const std::vector<Frame>& frames) const;
  void frame(const Frame& frame, FrameRole role);

  const model::Profile& profile_;
  const Findings* findings_;  ///< may be null
  findings::OriginRules origins_;
};

}  // namespace heapprof::cli
