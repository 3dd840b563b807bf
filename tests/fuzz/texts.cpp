// Texts that users write: suppressions, times and durations, selections, the command line of `record`.
#include <cstdlib>
#include <stdexcept>

#include "analyzer/cli/command_line/command_line.h"
#include "analyzer/cli/commands/leaks/suppressions.h"
#include "analyzer/cli/options/selection.h"
#include "tests/fuzz/input.h"

namespace {

using namespace heapprof;

/// The remaining input, split at zero bytes.
std::vector<std::string> words(fuzz::Input& input) {
  std::vector<std::string> result(1);
  for (const char c : input.text(input.left())) {
    if (c == '\0') result.emplace_back();
    else result.back() += c;
  }
  return result;
}

void selection(const std::vector<std::string>& given) {
  cli::SelectionTexts texts;
  std::string* const moments[] = {&texts.from, &texts.to, &texts.live_at, &texts.min_lifetime, &texts.max_lifetime};
  std::vector<std::string>* const lists[] = {&texts.threads,       &texts.modules,     &texts.functions,
                                             &texts.not_functions, &texts.not_threads, &texts.not_modules};
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (i < 5) *moments[i] = given[i];
    else lists[i % std::size(lists)]->push_back(given[i].substr(0, 20));
    // libc's regcomp takes exponential time for nested repetitions (twice as long for a+++ as for a++), so they are
    // replaced.
    std::string& text = i < 5 ? *moments[i] : lists[i % std::size(lists)]->back();
    for (std::size_t at = 0; at < text.size(); ++at)
      if (text[at] == '{' || (text[at] == '+' && at != 0 && text[at - 1] == '+')) text[at] = '(';
  }
  try {
    replay::Selection selection;
    cli::resolve_selection(texts, {}, selection);
  } catch (const std::invalid_argument&) {
    // The selection is rejected.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto what = input.take<std::uint8_t>() % 4;
  const std::vector<std::string> given = words(input);
  if (what == 0) {
    cli::Suppressions suppressions;
    std::string lines;
    for (const std::string& word : given) lines += word + '\n';
    suppressions.add(lines);
  } else if (what == 1) {
    for (const std::string& pattern : given) cli::pattern_matches(pattern, given.back());
  } else if (what == 2) {
    selection(given);
  } else {
    cli::RecordOptions options;
    bool wants_help = false;
    std::string error;
    if (!cli::parse_record_options(given, options, wants_help, error) && error.empty()) std::abort();
  }
  return 0;
}
