#include "analyzer/cli/options/spelling_suggestion.h"

#include <algorithm>
#include <set>

#include "analyzer/cli/options/option_values.h"

namespace heapprof::cli {

namespace {

constexpr std::size_t kMaxLength = 40;  // the edit distance takes time quadratic in it

/// "BEGIN'a', 'b'".
std::string listed(const std::string& begin, const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? begin : between) + ("'" + word + "'");
  return text;
}

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

std::string suggested_names(const std::string& typed, const std::vector<std::string>& names) {
  constexpr std::size_t kMaxNames = 5;
  const std::set<std::string> sorted(names.begin(), names.end());
  const std::string wanted = ascii_lower_case(typed);
  std::vector<std::string> found;
  for (const std::string& name : sorted)
    if (!wanted.empty() && found.size() < kMaxNames && ascii_lower_case(name).find(wanted) != std::string::npos)
      found.push_back(name);
  if (!found.empty()) return listed("; names that contain it: ", found, ", ");
  if (wanted.size() > kMaxLength) return {};
  constexpr std::size_t kMaxNearest = 3;
  std::size_t least = wanted.size() / 3;
  for (const std::string& name : sorted) {
    // A name may be typed without its scopes.
    const std::size_t scope = name.rfind("::");
    for (const std::size_t begin : {std::size_t{0}, scope == std::string::npos ? 0 : scope + 2}) {
      const std::string part = ascii_lower_case(name.substr(begin));
      if (part.size() > wanted.size() + least || wanted.size() > part.size() + least) continue;
      const std::size_t edits = edit_distance(wanted, part);
      if (edits > least) continue;
      if (edits < least) found.clear();
      least = edits;
      if (found.empty() || found.back() != name) found.push_back(name);
    }
  }
  if (found.empty() || found.size() > kMaxNearest) return {};
  return listed("; did you mean ", found, " or ") + "?";
}

}  // namespace heapprof::cli
