// Reports for people: the answer first, then where it comes from, as wide as the terminal, else 100 columns. Where
// the locale is not UTF-8, all that heapprof itself writes is ASCII; names stay as they are.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/text/text_style.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

class ReportText {
 public:
  ReportText(const model::Profile& profile, const TextStyle& style) : profile_(profile), style_(style) {}

  /// Program, how it ended, the totals.
  ReportText& head();
  /// A heading and the stacks under it, numbered; `of`: how many there are in all.
  ReportText& stacks(Cost cost, const std::vector<RankedStack>& stacks, std::size_t of, const StackNames& names);
  /// One stack under a line of its own: its number, then `headline`.
  ReportText& stack(std::size_t number, const std::string& headline, std::uint32_t node, const StackNames& names);
  /// The frames of a stack.
  ReportText& frames(std::uint32_t node, const StackNames& names);
  /// Program, how it ended, the slice.
  ReportText& title();
  ReportText& heading(const std::string& text);
  /// A label, a figure in bold, and what belongs to it.
  ReportText& row(const std::string& label, const std::string& value, const std::string& more = {});
  /// Columns set right, but for the last, which is set left and cut where the line ends.
  ReportText& table(const std::vector<std::string>& headers, const std::vector<std::vector<std::string>>& rows);
  ReportText& description();  ///< everything `info` prints
  /// Integrity, and what symbol lookup met.
  ReportText& notes(const std::vector<std::string>& symbol_warnings);
  ReportText& line(const std::string& text = {});

  /// A row of small bars, one for each value.
  std::string sparkline(const std::uint64_t* values, std::size_t count) const;
  std::string bar(std::uint64_t value, std::uint64_t of, std::size_t columns) const;
  std::string bold(const std::string& text) const { return paint("1", text); }
  std::string dim(const std::string& text) const { return paint("2", text); }

  std::string text() const;

 private:
  void frame(const Frame& frame);
  std::string things(std::uint64_t count) const;
  std::string plain(const std::string& text) const { return plain_text(text, style_.unicode); }
  std::string clip(const std::string& text, std::size_t width) const;
  std::string clip_front(const std::string& text, std::size_t width) const;
  void paragraph(const std::string& text, std::size_t indent);
  std::string paint(const char* code, const std::string& text) const;

  const model::Profile& profile_;
  TextStyle style_;
  std::string out_;
};

/// "exited with status 0", "killed by signal 9 (Killed)", ...
std::string ending_of(const model::Profile& profile);
/// "Leaked (live at the end)", "Live now", ...: what is said of blocks that nobody released.
std::string live_words(const model::Profile& profile);
/// "std::map<…>::operator[]()": a function's name without its return type, template arguments and parameters.
std::string short_function(const std::string& function);
/// "fun() at file.cpp:12", "libx.so+0x12": a frame in one line.
std::string one_line(const Frame& frame);
/// The command line as one would type it, else the program.
std::string command_of(const model::Profile& profile);

}  // namespace heapprof::cli
