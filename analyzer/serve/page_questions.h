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

/// All moments of which the page has answers without a server.
struct PageMoments {
  std::uint64_t peak_ns = 0;
  std::vector<std::uint64_t> marks_ns;
};

inline constexpr std::size_t kPageRanges = 10;

/// A part of the questions. Earlier groups are more important.
struct PageGroup {
  std::string about;  ///< "the whole recording"
  std::vector<PageQuestion> questions;
};

/// About the whole recording, in the order of their importance.
PageGroup whole_questions();
/// About the peak, ten ranges, and the marks.
std::vector<PageGroup> part_questions(const PageMoments& moments);
/// The text of source files.
PageGroup source_questions(const std::vector<std::string>& files);

/// The same question with an answer of a fraction of the size. False: there is none.
bool make_coarser(PageQuestion& question);

}  // namespace heapprof::serve
