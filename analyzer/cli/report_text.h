// Reports for people: the answer first, then where it comes from, at most 100 columns wide.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/cli/names.h"
#include "analyzer/cli/ranking.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

struct TextStyle {
  bool colour = false;
  std::size_t frames = 12;  ///< lines a stack at most; the middle of longer ones is left out. 0: all
};

class ReportText {
 public:
  ReportText(const model::Profile& profile, const TextStyle& style) : profile_(profile), style_(style) {}

  /// Program, how it ended, the totals.
  ReportText& head();
  /// A heading and the stacks under it, numbered; `of`: how many there are in all.
  ReportText& stacks(Cost cost, const std::vector<RankedStack>& stacks, std::size_t of, const Names& names);
  /// What `leaks` says instead of the whole head.
  ReportText& leak_head();
  ReportText& description();  ///< everything `info` prints
  /// Integrity, and what symbol lookup met.
  ReportText& notes(const std::vector<std::string>& symbol_warnings);
  ReportText& line(const std::string& text = {});

  const std::string& text() const noexcept { return out_; }

 private:
  void title();
  void row(const std::string& label, const std::string& value, const std::string& more = {});
  void frame(const Frame& frame);
  void paragraph(const std::string& text, std::size_t indent);
  std::string paint(const char* code, const std::string& text) const;

  const model::Profile& profile_;
  TextStyle style_;
  std::string out_;
};

/// "exited with status 0", "killed by signal 9 (Killed)", ...
std::string ending_of(const model::Profile& profile);
/// The command line as one would type it, else the program.
std::string command_of(const model::Profile& profile);

}  // namespace heapprof::cli
