#include "analyzer/serve/question.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "analyzer/serve/metrics.h"

namespace heapprof::serve {
namespace {

using Names = std::string_view;  ///< words with a space between two

constexpr Names kSelection =
    "from to at live-at survivors min-size max-size thread not-thread min-lifetime max-lifetime freed module "
    "not-module function not-function kind";
constexpr Names kSymbolSwitches = "no-inlines short-names no-symbols interpreter-frames no-index";
constexpr Names kOwnCode = "own";
constexpr Names kOwnCodeSwitches = "only-own";
constexpr Names kCallSites = "helper";
constexpr Names kCallSiteSwitches = "no-helpers full-names";

/// Parts of the options that several commands have.
enum Parts : unsigned { kSelects = 1, kOwn = 2, kSites = 4, kSuppresses = 8 };

struct Command {
  std::string_view name;
  unsigned parts;
  Names options;      ///< that take a value
  Names switches;     ///< that take none
  bool has_argument;  ///< besides the trace
};

constexpr Command kCommands[] = {
    {"info", kSelects, "", "", false},
    {"report", kSelects | kOwn | kSites, "cost top stacks frames by sort columns",
     "history no-history shared-frames csv", false},
    {"tree", kSelects | kOwn | kSites, "cost by depth min-share", "inverted", false},
    {"callers", kSelects | kOwn | kSites, "cost by top", "", true},
    {"blocks", kSelects | kOwn | kSites, "cost sort top skip stacks frames", "csv", false},
    {"source", kSelects | kOwn | kSites, "cost context top", "all", true},
    {"flamegraph", kSelects | kOwn, "cost format", "bottom-up", false},
    {"pins", kOwn | kSites, "at live-at by top stacks frames", "", false},
    {"rss", kOwn | kSites, "at live-at top stacks frames", "", false},
    {"histogram", kSelects, "", "", false},
    {"churn", kSelects | kOwn | kSites, "within top", "", false},
    {"reallocs", kSelects | kOwn | kSites, "top", "", false},
    {"threads", kSelects | kOwn | kSites, "top", "", false},
    {"frees", kSelects, "top frames", "shared-frames", false},
    {"leaks", kSelects | kOwn | kSites | kSuppresses, "sort top stacks frames",
     "no-history shared-frames no-suppressions no-default-suppressions", false},
    {"top", kOwn | kSites, "by sort top", "once", false},
    {"timeline", kSelects | kOwn | kSites, "sites by format", "resident", false},
    {"diff", kSelects | kOwn | kSites, "cost top frames sort stacks format", "", false},
    {"check", kSelects | kSuppresses,
     "max-peak max-leaked max-leaked-blocks max-allocated max-allocations max-temporary max-pinned",
     "no-suppressions no-default-suppressions", false},
};

/// Not of the API: they have addresses of their own.
constexpr Command kPprof = {"pprof", kSelects, "", "", false};
constexpr Command kMetrics = {"metrics", 0, "", "", false};
constexpr Command kTop = {"top", kOwn | kSites, "", "", false};

bool has(Names names, std::string_view name) {
  while (!names.empty()) {
    const std::string_view one = names.substr(0, names.find(' '));
    if (one == name) return true;
    names.remove_prefix(std::min(one.size() + 1, names.size()));
  }
  return false;
}

bool takes_value(const Command& command, std::string_view name) {
  return has(command.options, name) || ((command.parts & kSelects) != 0 && has(kSelection, name)) ||
         ((command.parts & kOwn) != 0 && has(kOwnCode, name)) ||
         ((command.parts & kSites) != 0 && has(kCallSites, name));
}

bool is_switch(const Command& command, std::string_view name) {
  // `top` follows the trace itself, without an index.
  return has(command.switches, name) ||
         (has(kSymbolSwitches, name) && (command.name != "top" || name != "no-index")) ||
         ((command.parts & kOwn) != 0 && has(kOwnCodeSwitches, name)) ||
         ((command.parts & kSites) != 0 && has(kCallSiteSwitches, name));
}

/// With commas.
std::string joined(Names names) {
  std::string text;
  for (const char c : names) text += c == ' ' ? ", " : std::string(1, c);
  return text;
}

/// The options that the command has besides those of all commands, for a message.
std::string options_of(const Command& command) {
  std::string text = joined(command.options);
  if (const std::string switches = joined(command.switches); !switches.empty())
    text += (text.empty() ? "" : ", ") + switches;
  return text.empty() ? "those of the selection only" : text;
}

std::optional<std::size_t> read_position(std::string_view text, std::size_t count) {
  std::size_t position = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), position);
  if (error != std::errc() || end != text.data() + text.size() || position >= count) return std::nullopt;
  return position;
}

Refusal no_such_trace(std::string_view name, std::string_view text, const Subject& subject) {
  return {std::string(name) + "=" + std::string(text) + ": no such trace; expected a number from 0 to " +
          std::to_string(subject.traces.size() - 1) + " (GET /api/ lists the traces)"};
}

/// A flag of the query: "1" or nothing gives it, "0" does not. nullopt: another value.
std::optional<bool> read_switch(std::string_view value) {
  if (value.empty() || value == "1") return true;
  if (value == "0") return false;
  return std::nullopt;
}

/// What read_parameters() found besides options.
struct Given {
  std::vector<std::string> arguments;
  std::string format;  ///< "csv" also of the switch csv
};

/// Appends the options of the command to `words`.
std::variant<Given, Refusal> read_parameters(const Command& command, const Parameters& parameters,
                                             std::vector<std::string>& words) {
  const std::string name(command.name);
  const bool is_diff = command.name == "diff";
  Given given;
  for (const Parameter& one : parameters) {
    if (one.name == "trace" || (is_diff && (one.name == "arg" || one.name == "with"))) continue;
    if (one.name == "arg" && command.has_argument) {
      given.arguments.push_back(one.value);
    } else if (takes_value(command, one.name)) {
      if (one.name == "format") given.format = one.value;
      // The only value that can be left out on the command line; the end of the recording is meant then.
      const bool is_left_out = one.name == "survivors" && one.value.empty();
      words.push_back("--" + one.name + "=" + (is_left_out ? std::string("end") : one.value));
    } else if (is_switch(command, one.name)) {
      const std::optional<bool> is_on = read_switch(one.value);
      if (!is_on) return Refusal{one.name + "=" + one.value + ": invalid value; expected 1, or no such parameter"};
      if (!*is_on) continue;
      if (one.name == "csv") given.format = "csv";
      words.push_back("--" + one.name);
    } else {
      return Refusal{"unknown option '" + one.name + "' of " + name + "; expected " + options_of(command)};
    }
  }
  if (given.arguments.size() > 1)
    return Refusal{name + ": " + std::to_string(given.arguments.size()) + " parameters 'arg'; expected one at most"};
  return given;
}

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

/// The options that answers of the command get.
std::vector<std::string> words_of(const Command& command, const Subject& subject) {
  std::vector<std::string> words = subject.symbol_words;
  if (command.name == "source") append(words, subject.source_words);
  if ((command.parts & (kOwn | kSuppresses)) != 0) append(words, subject.project_words);
  if ((command.parts & kOwn) != 0) append(words, subject.own_words);
  if ((command.parts & kSites) != 0) append(words, subject.helper_words);
  if ((command.parts & kSuppresses) != 0) append(words, subject.suppression_words);
  return words;
}

/// As Question::followed: the trace, and the options that select blocks. Empty where these select times, lifetimes or
/// stacks: blocks can be selected so only when the whole recording is known.
std::string followed_blocks(std::size_t trace, const Parameters& parameters) {
  constexpr Names kFollowed = "min-size max-size thread not-thread kind";
  std::vector<std::string> options;
  for (const Parameter& one : parameters) {
    if (!has(kSelection, one.name)) continue;
    if (!has(kFollowed, one.name)) return {};
    options.push_back(one.name + "=" + one.value + '\0');
  }
  std::sort(options.begin(), options.end());
  std::string text = std::to_string(trace) + '\0';
  for (const std::string& option : options) text += option;
  return text;
}

/// Appends them to what the client asks for, which has priority: the command line refuses both.
void append_words_of(const Command& command, const Subject& subject, std::vector<std::string>& words) {
  const auto is_given = [asked = words](std::string_view word) {
    return std::find(asked.begin(), asked.end(), word) != asked.end();
  };
  for (std::string& word : words_of(command, subject)) {
    if ((word == "--full-names" && is_given("--short-names")) ||
        (word == "--short-names" && is_given("--full-names")) ||
        (word.starts_with("--suppressions=") && is_given("--no-suppressions")))
      continue;
    words.push_back(std::move(word));
  }
}

/// The two traces of `diff`: `arg=@TIME&arg=@TIME` are moments of one, `with=N` is another trace.
std::variant<std::vector<std::string>, Refusal> compared_traces(std::size_t trace, const Parameters& parameters,
                                                                const Subject& subject, Question& question) {
  const std::string& path = subject.traces[trace];
  std::vector<std::string> result;
  for (const Parameter& one : parameters) {
    if (one.name != "arg") continue;
    if (!one.value.starts_with('@') || one.value.size() < 2)
      return Refusal{"arg=" + one.value + ": invalid moment; expected @TIME, such as @2.5, @40% or @end"};
    // A file of that whole name has priority on the command line, and the client must not choose files.
    std::error_code ignored;
    if (std::filesystem::exists(path + one.value, ignored))
      return Refusal{"arg=" + one.value + ": there is a file of the name of the trace with this moment"};
    result.push_back(path + one.value);
  }
  const std::string* const with = find(parameters, "with");
  if (with != nullptr) {
    const auto other = read_position(*with, subject.traces.size());
    if (!other) return no_such_trace("with", *with, subject);
    if (result.empty()) result.push_back(path);
    if (result.size() != 1) return Refusal{"diff: expected two moments (arg=@TIME&arg=@TIME), or with=N"};
    question.traces.push_back(*other);
    result.push_back(subject.traces[*other]);
  }
  if (result.size() != 2)
    return Refusal{"diff: expected two moments (arg=@TIME&arg=@TIME), or another trace (with=N)"};
  return result;
}

}  // namespace

std::vector<CommandWords> words_of_answers(const Subject& subject) {
  std::vector<CommandWords> result;
  for (const Command& command : kCommands) {
    result.push_back({command.name, words_of(command, subject)});
    std::erase(result.back().words, "--no-symbol-cache");
  }
  return result;
}

std::variant<std::size_t, Refusal> trace_of(const Parameters& parameters, const Subject& subject) {
  const std::string* const text = find(parameters, "trace");
  if (text == nullptr) return std::size_t{0};
  const auto position = read_position(*text, subject.traces.size());
  if (!position) return no_such_trace("trace", *text, subject);
  return *position;
}

std::variant<Question, Refusal> question_of(std::string_view name, const Parameters& parameters,
                                            const Subject& subject) {
  const auto command =
      std::find_if(std::begin(kCommands), std::end(kCommands), [&](const Command& one) { return one.name == name; });
  if (command == std::end(kCommands)) {
    std::string names;
    for (const Command& one : kCommands) names += (names.empty() ? "" : ", ") + std::string(one.name);
    return Refusal{"unknown command '" + std::string(name) + "'; expected one of " + names};
  }
  const auto trace = trace_of(parameters, subject);
  if (const auto* const refusal = std::get_if<Refusal>(&trace)) return *refusal;

  Question question;
  question.traces = {std::get<std::size_t>(trace)};
  question.words.emplace_back(name);
  auto read = read_parameters(*command, parameters, question.words);
  if (const auto* const refusal = std::get_if<Refusal>(&read)) return *refusal;
  const Given& given = std::get<Given>(read);

  const bool is_diff = name == "diff";
  question.is_json = given.format.empty() || given.format == "json" || (is_diff && given.format == "text");
  if (question.is_json) question.content_type = "application/json";
  else if (given.format == "svg") question.content_type = "image/svg+xml";
  else if (given.format == "csv") question.content_type = "text/csv; charset=utf-8";
  else question.content_type = "text/plain; charset=utf-8";
  if (name == "flamegraph") {
    question.is_json = false;
    if (given.format.empty()) question.content_type = "image/svg+xml";
  }
  // An answer is one table, whether the client asks for it or not.
  if (name == "top" && std::find(question.words.begin(), question.words.end(), "--once") == question.words.end())
    question.words.emplace_back("--once");
  if (question.is_json) question.words.emplace_back("--json");
  if (question.is_json && name != "top" && !is_diff)
    question.followed = followed_blocks(question.traces.front(), parameters);
  append_words_of(*command, subject, question.words);
  question.words.emplace_back("--");
  if (is_diff) {
    auto compared = compared_traces(question.traces.front(), parameters, subject, question);
    if (const auto* const refusal = std::get_if<Refusal>(&compared)) return *refusal;
    append(question.words, std::get<std::vector<std::string>>(compared));
  } else {
    question.words.push_back(subject.traces[question.traces.front()]);
    append(question.words, given.arguments);
  }
  return question;
}

std::variant<Question, Refusal> pprof_question(const Parameters& parameters, const Subject& subject) {
  const auto trace = trace_of(parameters, subject);
  if (const auto* const refusal = std::get_if<Refusal>(&trace)) return *refusal;
  Question question{{"export", "pprof", "--output=-"}, {std::get<std::size_t>(trace)}, "application/octet-stream"};
  question.is_json = false;
  const auto read = read_parameters(kPprof, parameters, question.words);
  if (const auto* const refusal = std::get_if<Refusal>(&read)) return *refusal;
  append(question.words, subject.symbol_words);
  append(question.words, {"--", subject.traces[question.traces.front()]});
  return question;
}

std::variant<unsigned, Refusal> take_seconds(Parameters& parameters) {
  const std::string* const text = find(parameters, "seconds");
  if (text == nullptr) return 0U;
  unsigned seconds = 0;
  const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (failed != std::errc() || end != text->data() + text->size() || seconds == 0 || seconds > kMaxSeconds)
    return Refusal{"seconds=" + *text + ": invalid value; expected a whole number from 1 to " +
                   std::to_string(kMaxSeconds)};
  std::erase_if(parameters, [](const Parameter& one) { return one.name == "seconds"; });
  for (const char* const name : {"from", "to", "at", "live-at"})
    if (find(parameters, name) != nullptr) return Refusal{std::string("seconds and ") + name + " exclude each other"};
  return seconds;
}

std::variant<Question, Refusal> metrics_question(const Parameters& parameters, const Subject& subject) {
  const auto trace = trace_of(parameters, subject);
  if (const auto* const refusal = std::get_if<Refusal>(&trace)) return *refusal;
  Question question{{"top"}, {std::get<std::size_t>(trace)}, kMetricsType};
  question.is_json = false;
  question.convert = metrics_of;
  const auto read = read_parameters(kMetrics, parameters, question.words);
  if (const auto* const refusal = std::get_if<Refusal>(&read)) return *refusal;
  append(question.words, {"--once", "--json", "--by=site", "--top=20"});
  append_words_of(kTop, subject, question.words);
  append(question.words, {"--", subject.traces[question.traces.front()]});
  return question;
}

std::variant<Question, Refusal> control_question(std::string_view action, const Parameters& parameters,
                                                 const Subject& subject) {
  constexpr Names kActions = "pause resume mark snapshot";
  if (!has(kActions, action))
    return Refusal{"unknown action '" + std::string(action) + "'; expected one of " + joined(kActions)};
  const auto trace = trace_of(parameters, subject);
  if (const auto* const refusal = std::get_if<Refusal>(&trace)) return *refusal;
  const std::size_t position = std::get<std::size_t>(trace);
  Question question{
      {"control", "--json", "--", subject.traces[position], std::string(action)}, {position}, "application/json"};
  const std::string* const text = find(parameters, "text");
  const bool is_mark = action == "mark";
  if (is_mark && (text == nullptr || text->empty())) return Refusal{"mark: missing parameter text"};
  if (is_mark) question.words.push_back(*text);
  for (const Parameter& one : parameters)
    if (one.name != "trace" && !(is_mark && one.name == "text"))
      return Refusal{"unknown parameter '" + one.name + "' of control; expected " +
                     (is_mark ? "trace or text" : "trace")};
  return question;
}

}  // namespace heapprof::serve
