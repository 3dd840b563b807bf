// Reports as text: the totals first, then the stacks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/cli/text/text_page.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

class ReportText : public TextPage {
 public:
  /// `profile` must outlive this.
  ReportText(const model::Profile& profile, const TextStyle& style) : TextPage(style), profile_(profile) {}

  /// Program, how it ended, the slice and the selection.
  ReportText& title();
  /// The title and the totals.
  ReportText& head();
  /// A heading and the numbered stacks under it. `all`: how many stacks have this cost.
  ReportText& stacks(Cost cost, const std::vector<RankedStack>& stacks, std::size_t all, const StackNames& names);
  /// A number and `headline`, then the frames of a stack.
  ReportText& stack(std::size_t number, const std::string& headline, std::uint32_t node, const StackNames& names);
  /// The frames of a stack, at most style().frames lines.
  ReportText& frames(std::uint32_t node, const StackNames& names);
  /// What is missing in the recording, its notes, and the warnings of symbol lookup.
  ReportText& notes(const std::vector<std::string>& symbol_warnings);

 private:
  void peak_rows();
  void moment_rows();
  void process_rows();
  void frame(const Frame& frame);
  void left_out(std::size_t frames, const std::string& adjective, const std::string& more = {});

  const model::Profile& profile_;
};

}  // namespace heapprof::cli
