// The questions of the page, which analyzer/page/questions.json lists: what `html` has to answer in advance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/serve/request.h"

namespace heapprof::serve {

/// A question that the page will ask.
struct PageQuestion {
  std::string command;
  Parameters parameters;

  /// What the page calls it: the command, and the options sorted by name and value.
  std::string key() const;
};

struct PageMark {
  std::uint64_t time_ns = 0;
  std::string text;
};

/// What the questions about moments depend on.
struct PageMoments {
  std::uint64_t duration_ns = 0;
  std::uint64_t peak_ns = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t leaked_bytes = 0;
  std::vector<PageMark> marks;  ///< all of the recording
};

/// Two moments as `diff` takes them: "0.4", "peak".
struct ComparedMoments {
  std::string before;
  std::string after;
};
/// Those that the view Compare shows if the user chose none.
ComparedMoments compared_moments(const PageMoments& moments);

/// Marks beyond this number have no answers of their own.
inline constexpr std::size_t kMaxPageMarks = 10;

inline constexpr std::size_t kPageRanges = 10;

/// A part of the questions. Earlier groups are more important.
struct PageGroup {
  std::string about;  ///< "the whole recording"
  std::vector<PageQuestion> questions;
  bool divides_room = false;  ///< equally among its questions, of which none is more important
};

/// About the whole recording, in the order of their importance: what each view shows first.
PageGroup whole_questions();
/// The rows of the table that are no functions. Those by thread are among whole_questions(): another view has them.
PageGroup row_questions();
/// What views show of the whole recording after a choice, and the comparison of two moments.
PageGroup variant_questions(const ComparedMoments& compared);
/// Who frees whose blocks, for recordings with the stacks of frees.
PageGroup free_questions();
/// The stacks with the highest costs: the last question of row_questions().
PageQuestion stack_question();
/// The stacks with the highest costs of other metrics. The page asks for none if stack_question() has all stacks.
PageGroup other_stack_questions();
/// About the peak, ten ranges, and the marks.
std::vector<PageGroup> part_questions(const PageMoments& moments);
/// The same rows as row_questions() about these parts, but no stacks.
PageGroup part_row_questions(const PageMoments& moments);
/// The stacks with the highest costs of the peak and of the ten ranges. They have more bytes than the other rows.
PageGroup part_stack_questions(const PageMoments& moments);
/// The text of source files.
PageGroup source_questions(const std::vector<std::string>& files);

/// The same question with an answer of a fraction of the size. False: there is none.
bool make_coarser(PageQuestion& question);

}  // namespace heapprof::serve
