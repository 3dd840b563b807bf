#include "analyzer/cli/options/spelling_suggestion.h"

#include <algorithm>

namespace heapprof::cli {

namespace {

/// The Damerau-Levenshtein distance of two words, in which no character is edited twice.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        edits[i][j] = i + j;
        continue;
      }
      const std::size_t wrong = a[i - 1] != b[j - 1] ? 1 : 0;
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, edits[i - 1][j - 1] + wrong});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::string nearest_word(const std::string& typed, const std::vector<std::string>& words) {
  constexpr std::size_t kMaxLength = 40;  // the distance takes time quadratic in it
  const std::size_t characters = typed.size() - std::min(typed.find_first_not_of('-'), typed.size());
  if (characters == 0 || typed.size() > kMaxLength) return {};
  std::string nearest;
  std::size_t least = characters / 3 + 1;  // one more than is allowed
  bool unique = true;
  for (const std::string& word : words) {
    const std::size_t edits = characters > 1 && word.starts_with(typed) ? 0 : edit_distance(typed, word);
    if (edits > least || (edits == least && nearest.empty())) continue;
    unique = edits < least;
    least = edits;
    nearest = word;
  }
  return unique ? nearest : std::string();
}

std::string did_you_mean(const std::string& typed, const std::vector<std::string>& words) {
  const std::string nearest = nearest_word(typed, words);
  return nearest.empty() ? nearest : "; did you mean '" + nearest + "'?";
}

}  // namespace heapprof::cli
