#include "analyzer/cli/options/selection.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fnmatch.h>
#include <stdexcept>
#include <utility>

#include "analyzer/cli/options/spelling_suggestion.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/name_pattern.h"

namespace heapprof::cli {
namespace {

bool module_matches(const std::vector<std::string>& patterns, const std::string& path) {
  return !path.empty() && std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), path.c_str(), 0) == 0 ||
           ::fnmatch(pattern.c_str(), base_name(path).c_str(), 0) == 0;
  });
}

/// `names`: those that the value could have matched.
UnmatchedValue unmatched_value(const std::string& option, const std::string& text,
                               const std::vector<std::string>& names) {
  const bool excludes = option.starts_with("--not-");
  std::string near = suggested_names(text, names);
  if (near.empty())
    near = option.ends_with("function") ? "; 'heapprof report --by function --top 0' lists the functions"
                                        : "; 'heapprof info' lists the threads and modules";
  return {excludes, option + " " + text + ": matches nothing" +
                        (excludes ? ", so nothing is excluded" : " in the recording") + near};
}

/// Whether `name` matches one of the patterns. Sets `occurs` at each pattern that matches.
bool mark_matches(const std::vector<NamePattern>& patterns, const std::string& name, std::vector<bool>& occurs) {
  bool any = false;
  for (std::size_t i = 0; i < patterns.size(); ++i)
    if (patterns[i].matches(name)) any = occurs[i] = true;
  return any;
}

/// A number that is not negative, and the text after it.
std::optional<std::pair<double, std::string>> parse_number(const std::string& text) {
  if (text.empty() || (!(text[0] >= '0' && text[0] <= '9') && text[0] != '.')) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(value)) return std::nullopt;
  return std::pair(value, std::string(end));
}

std::optional<double> seconds_in(const std::string& unit) {
  static constexpr std::pair<const char*, double> kUnits[] = {{"", 1},      {"s", 1},    {"ms", 1e-3}, {"us", 1e-6},
                                                              {"ns", 1e-9}, {"min", 60}, {"m", 60},    {"h", 3600}};
  for (const auto& [name, seconds] : kUnits)
    if (unit == name) return seconds;
  return std::nullopt;
}

template <typename Parse>
auto parsed(const char* option, const std::string& text, const char* expected, Parse&& parse) {
  auto value = parse(text);
  if (!value) throw std::invalid_argument("invalid value '" + text + "' for " + option + "; expected " + expected);
  return value;
}

}  // namespace

std::optional<replay::Moment> parse_moment(const std::string& text) {
  if (text == "start") return replay::Moment{0, true, text};
  if (text == "end") return replay::Moment{100, true, text};
  const auto number = parse_number(text);
  if (!number) return std::nullopt;
  if (number->second == "%")
    return number->first <= 100 ? std::optional(replay::Moment{number->first, true, text}) : std::nullopt;
  const auto unit = seconds_in(number->second);
  if (!unit) return std::nullopt;
  return replay::Moment{number->first * *unit, false, text};
}

std::optional<replay::Moment> parse_moment_or_mark(const std::string& text) {
  constexpr std::string_view kMark = "mark:";
  const auto mark = [&](std::string name) {
    return name.empty() ? std::nullopt : std::optional(replay::Moment{.text = text, .mark = std::move(name)});
  };
  if (text.starts_with(kMark)) return mark(text.substr(kMark.size()));
  if (auto moment = parse_moment(text)) return moment;
  return text.find_first_of("0123456789.+-") == 0 ? std::nullopt : mark(text);
}

std::optional<std::uint64_t> parse_duration_ns(const std::string& text) {
  const auto moment = parse_moment(text);
  if (!moment || moment->percent || moment->value > 9e9) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(moment->value * 1e9));
}

std::vector<std::uint8_t> match_stacks(const model::Profile& profile, const SelectionTexts& texts,
                                       const symbols::Options& symbols, std::vector<UnmatchedValue>& unmatched) {
  const std::vector<NamePattern> wanted = name_patterns(texts.functions);
  const std::vector<NamePattern> unwanted = name_patterns(texts.not_functions);
  // Expressions match the full name, also where names are printed short.
  symbols::Options in_full = symbols;
  in_full.short_names = false;
  StackNames names(profile, in_full);
  if (!wanted.empty() || !unwanted.empty()) {
    std::vector<std::uint32_t> nodes;
    for (std::uint32_t node = 1; node < profile.nodes.size(); ++node) nodes.push_back(node);
    names.resolve(nodes);
  }
  // Each address is matched once. A node inherits the matches of its callers, which come before it in the profile.
  constexpr std::uint8_t kMatched = 1, kModule = 2, kFunction = 4, kExcluded = 8;
  std::vector<std::uint8_t> of_address(profile.addresses.size(), 0);
  std::vector<std::uint8_t> of_node(profile.nodes.size(), 0);
  std::vector<bool> wanted_occurs(wanted.size(), false);
  std::vector<bool> unwanted_occurs(unwanted.size(), false);
  std::vector<std::string> all_names;
  const auto match = [&](std::uint32_t node) {
    std::uint8_t matches = kMatched;
    for (const Frame& frame : names.frames_of_node(node)) {
      const std::string name = frame.function.empty() ? unresolved_name(frame) : frame.function;
      if (module_matches(texts.modules, frame.module->path)) matches |= kModule;
      if (mark_matches(wanted, name, wanted_occurs)) matches |= kFunction;
      if (!wanted.empty() || !unwanted.empty()) all_names.push_back(function_name(name));
      const bool excluded = mark_matches(unwanted, name, unwanted_occurs);
      if (excluded || module_matches(texts.not_modules, frame.module->path)) matches |= kExcluded;
    }
    return matches;
  };
  std::vector<std::uint8_t> chosen(profile.nodes.size(), 0);
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node) {
    const model::CallNode& call = profile.nodes[node];
    if (node != 0) {
      of_node[node] = of_node[call.parent];
      if (call.address != model::kNoIndex) {
        std::uint8_t& matches = of_address[call.address];
        if (matches == 0) matches = match(node);
        of_node[node] |= matches;
      }
    }
    chosen[node] = (texts.modules.empty() || (of_node[node] & kModule) != 0) &&
                   (wanted.empty() || (of_node[node] & kFunction) != 0) && (of_node[node] & kExcluded) == 0;
  }
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!wanted_occurs[i]) unmatched.push_back(unmatched_value("--function", texts.functions[i], all_names));
  for (std::size_t i = 0; i < unwanted.size(); ++i)
    if (!unwanted_occurs[i])
      unmatched.push_back(unmatched_value("--not-function", texts.not_functions[i], all_names));
  return chosen;
}

std::vector<SelectingOption> selecting_options(const SelectionTexts& texts, const replay::Selection& selection) {
  std::vector<SelectingOption> options;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) options.push_back({option, value});
  };
  const auto add_all = [&](const char* option, const std::vector<std::string>& values) {
    for (const std::string& value : values) add(option, value);
  };
  add("--from", texts.from);
  add("--to", texts.to);
  add("--survivors", texts.survivors);
  add_all("--thread", texts.threads);
  add_all("--not-thread", texts.not_threads);
  add_all("--module", texts.modules);
  add_all("--not-module", texts.not_modules);
  add_all("--function", texts.functions);
  add_all("--not-function", texts.not_functions);
  const replay::Selection all;
  if (selection.min_size != all.min_size) add("--min-size", std::to_string(selection.min_size));
  if (selection.max_size != all.max_size) add("--max-size", std::to_string(selection.max_size));
  add("--min-lifetime", texts.min_lifetime);
  add("--max-lifetime", texts.max_lifetime);
  if (selection.freed != replay::Freed::kAny) add("--freed", selection.freed == replay::Freed::kYes ? "yes" : "no");
  add("--live-at", texts.live_at);
  if (selection.kind == model::Kind::kMmap) add("--kind", "mmap");
  if (selection.kind == model::Kind::kAll) add("--kind", "all");
  return options;
}

std::vector<UnmatchedValue> unmatched_modules_and_threads(const model::Profile& profile,
                                                          const SelectionTexts& texts) {
  std::vector<UnmatchedValue> unmatched;
  std::vector<std::string> names;
  for (const model::Module& module : profile.modules)
    if (!module.path.empty()) names.push_back(base_name(module.path));
  const auto check_modules = [&](const char* option, const std::vector<std::string>& values) {
    for (const std::string& text : values)
      if (std::none_of(profile.modules.begin(), profile.modules.end(),
                       [&](const model::Module& module) { return module_matches({text}, module.path); }))
        unmatched.push_back(unmatched_value(option, text, names));
  };
  check_modules("--module", texts.modules);
  check_modules("--not-module", texts.not_modules);
  names.clear();
  for (const model::Thread& thread : profile.threads) names.push_back(thread.name);
  const auto check_threads = [&](const char* option, const std::vector<std::string>& values) {
    for (const std::string& text : values)
      if (std::none_of(profile.threads.begin(), profile.threads.end(), [&](const model::Thread& thread) {
            return thread.name == text || std::to_string(thread.tid) == text;
          }))
        unmatched.push_back(unmatched_value(option, text, names));
  };
  check_threads("--thread", texts.threads);
  check_threads("--not-thread", texts.not_threads);
  return unmatched;
}

namespace {

/// A thread's name can be a number, so a number is matched both as a name and as a tid.
void read_threads(const std::vector<std::string>& texts, std::vector<std::uint32_t>& ids,
                  std::vector<std::string>& names) {
  for (const std::string& text : texts) {
    names.push_back(text);
    char* end = nullptr;
    const unsigned long number = std::strtoul(text.c_str(), &end, 10);
    if (!text.empty() && *end == '\0') ids.push_back(static_cast<std::uint32_t>(number));
  }
}

/// The selecting options with their values, except those whose meaning a text states in words of its own.
std::string description_of(const SelectionTexts& texts, const replay::Selection& selection) {
  std::string words;
  for (const auto& [option, value] : selecting_options(texts, selection)) {
    if (option == "--from" || option == "--to" || option == "--survivors" || option == "--kind") continue;
    words += (words.empty() ? "" : ", ") + option + ' ' + value;
  }
  return words;
}

}  // namespace

std::shared_ptr<const std::vector<UnmatchedValue>> resolve_selection(const SelectionTexts& texts,
                                                                     const symbols::Options& symbols,
                                                                     replay::Selection& selection) {
  read_threads(texts.threads, selection.thread_ids, selection.thread_names);
  read_threads(texts.not_threads, selection.excluded_thread_ids, selection.excluded_thread_names);
  const auto moment = [&](const char* option, const std::string& text,
                          const std::optional<replay::Moment>& otherwise) -> std::optional<replay::Moment> {
    if (text.empty()) return otherwise;
    auto read = parsed(option, text, kMomentOrMarkExamples, parse_moment_or_mark);
    if (texts.peak && text == texts.peak->text) read->position = texts.peak->position;
    return read;
  };
  const auto duration = [](const char* option, const std::string& text) -> std::optional<std::uint64_t> {
    if (text.empty()) return std::nullopt;
    return parsed(option, text, kDurationExamples, parse_duration_ns);
  };
  selection.from = moment("--from", texts.from, selection.from);
  selection.to = moment("--to", texts.to, selection.to);
  selection.live_at = moment("--live-at", texts.live_at, selection.live_at);
  selection.survivors = moment("--survivors", texts.survivors, selection.survivors);
  if (selection.survivors && !selection.is_slice())
    throw std::invalid_argument(
        "--survivors selects of the blocks that are allocated between --from and --to; give at least one of these, "
        "or "
        "use --live-at to select all blocks that are live at a time");
  if (selection.survivors && selection.live_at)
    throw std::invalid_argument("--survivors and --live-at exclude each other; give one of them");
  selection.min_lifetime_ns = duration("--min-lifetime", texts.min_lifetime);
  selection.max_lifetime_ns = duration("--max-lifetime", texts.max_lifetime);
  if (selection.needs_lifetimes() && selection.kind != model::Kind::kHeap)
    throw std::invalid_argument(
        "--live-at, --min-lifetime, --max-lifetime and --freed select single blocks of the heap; use --kind heap");
  if (selection.min_size > selection.max_size) throw std::invalid_argument("--min-size exceeds --max-size");
  if (selection.min_lifetime_ns && selection.max_lifetime_ns &&
      *selection.min_lifetime_ns > *selection.max_lifetime_ns)
    throw std::invalid_argument("--min-lifetime exceeds --max-lifetime");
  selection.description = description_of(texts, selection);
  const auto unmatched = std::make_shared<std::vector<UnmatchedValue>>();
  if (!texts.selects_stacks()) return unmatched;
  name_patterns(texts.functions);  // reports an invalid one before the trace is read
  name_patterns(texts.not_functions);
  selection.select_stacks = [texts, symbols, unmatched](const model::Profile& profile) {
    unmatched->clear();
    return match_stacks(profile, texts, symbols, *unmatched);
  };
  return unmatched;
}

}  // namespace heapprof::cli
