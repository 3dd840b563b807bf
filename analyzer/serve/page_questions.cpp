#include "analyzer/serve/page_questions.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/serve/page.h"

namespace heapprof::serve {
namespace {

using Json = nlohmann::ordered_json;

/// Of the whole recording. What is live at its end is what is leaked.
constexpr const char* kMetricNames[] = {"peak", "leaked", "allocated", "allocations", "temporary"};
/// Without functions and threads, whose rows other views show, and stacks.
constexpr const char* kOtherRows[] = {"line", "site", "module"};

/// As JavaScript's encodeURIComponent().
std::string encode(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          (c != '\0' && std::string_view("-_.!~*'()").find(c) != std::string_view::npos);
    if (is_plain) {
      result += c;
      continue;
    }
    constexpr const char* kDigits = "0123456789ABCDEF";
    result += '%';
    result += kDigits[static_cast<unsigned char>(c) >> 4];
    result += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return result;
}

struct Template {
  std::string name;
  std::string command;
  Parameters options;
  bool selects;  ///< whether the selection is added to its options
};

std::vector<Template> read_templates() {
  std::vector<Template> templates;
  const Asset* const asset = find_asset("questions.json");
  const Json list = asset == nullptr ? Json::array() : Json::parse(asset->text);
  for (const Json& entry : list) {
    Template one{entry.at("name"), entry.at("command"), {}, entry.at("selection")};
    for (const auto& [name, value] : entry.at("options").items()) one.options.push_back({name, value});
    templates.push_back(std::move(one));
  }
  return templates;
}

Template find_template(std::string_view name) {
  for (Template& one : read_templates())
    if (one.name == name) return std::move(one);
  throw std::logic_error("questions.json has no question " + std::string(name));
}

/// Whether a view asks it only after a choice, such as of rows that are no functions. It is less important.
bool is_of_choice(const Template& one) {
  return one.name == "rows" || one.name == "stack_rows" || one.name == "all_leaks" || one.name == "frees";
}

/// Whether a file needs no answer to it: that of `churn` has more rows.
bool is_in_another(const Template& one) { return one.name == "short_lived"; }

/// Replaces the placeholder; false: it is not there.
bool fill(std::string& text, const std::string& placeholder, const std::string& value) {
  const std::size_t at = text.find(placeholder);
  if (at == std::string::npos) return false;
  text.replace(at, placeholder.size(), value);
  return true;
}

/// The question of a template for a metric. False: it has placeholders that only a user fills, such as a function.
bool make_question(const Template& from, const std::string& metric, PageQuestion& question, bool& has_metric) {
  question = {from.command, from.options};
  has_metric = false;
  for (Parameter& option : question.parameters) {
    has_metric |= fill(option.value, "{metric}", metric);
    // The first page of blocks, as the view shows it first.
    fill(option.value, "{sort}", "size");
    fill(option.value, "{skip}", "0");
    if (option.value.find('{') != std::string::npos) return false;
  }
  return true;
}

/// The question of a template whose only placeholder has this value.
PageQuestion filled(const Template& from, const std::string& placeholder, const std::string& value) {
  PageQuestion question{from.command, from.options};
  for (Parameter& option : question.parameters) fill(option.value, placeholder, value);
  return question;
}

/// Appends the questions about the rows that are neither functions, threads nor stacks.
void add_rows(std::vector<PageQuestion>& questions, const Parameters& selection) {
  const Template rows = find_template("rows");
  for (const char* const by : kOtherRows) {
    questions.push_back(filled(rows, "{by}", by));
    Parameters& parameters = questions.back().parameters;
    parameters.insert(parameters.end(), selection.begin(), selection.end());
  }
}

/// Appends the questions of all templates about `selection`. A template without a metric is asked with the first one.
void add(std::vector<PageQuestion>& questions, const std::vector<Template>& templates,
         const std::vector<std::string>& metrics, const Parameters& selection) {
  for (const std::string& metric : metrics) {
    for (const Template& one : templates) {
      PageQuestion question;
      bool has_metric = false;
      if ((!one.selects && !selection.empty()) || !make_question(one, metric, question, has_metric)) continue;
      if (!has_metric && metric != metrics.front()) continue;
      question.parameters.insert(question.parameters.end(), selection.begin(), selection.end());
      questions.push_back(std::move(question));
    }
  }
}

Parameters at_moment(std::uint64_t ns) { return {{"live-at", std::to_string(ns) + "ns"}}; }

/// The selections of the ten ranges.
std::vector<Parameters> page_ranges() {
  std::vector<Parameters> ranges;
  for (std::size_t i = 0; i < kPageRanges; ++i)
    ranges.push_back({{"from", std::to_string(i * 100 / kPageRanges) + "%"},
                      {"to", std::to_string((i + 1) * 100 / kPageRanges) + "%"}});
  return ranges;
}

/// The times of the marks that have answers of their own.
std::vector<std::uint64_t> page_marks(const PageMoments& moments) {
  std::vector<std::uint64_t> times;
  for (std::size_t i = 0; i < std::min(kMaxPageMarks, moments.marks.size()); ++i)
    times.push_back(moments.marks[i].time_ns);
  return times;
}

/// Seconds as exact as a range of this length needs, as selection.seconds() of the page writes them.
std::string seconds_text(double ns, std::uint64_t range_ns) {
  constexpr double kSecond = 1e9;
  const double range = std::max(1.0, static_cast<double>(range_ns)) / kSecond;
  const int decimals = std::clamp(static_cast<int>(std::ceil(3 - std::log10(range))), 0, 9);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, ns / kSecond);
  std::string result = text;
  if (result.find('.') == std::string::npos) return result;
  result.erase(result.find_last_not_of('0') + 1);
  if (result.back() == '.') result.pop_back();
  return result;
}

/// Whether `diff` finds the mark by its text.
bool is_moment_name(const std::string& text, const std::vector<PageMark>& marks) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto may_follow = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == ' ' || c == '.' || c == '-';
  };
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), may_follow) &&
         text != "start" && text != "end" && text != "peak" &&
         std::count_if(marks.begin(), marks.end(), [&](const PageMark& mark) { return mark.text == text; }) == 1;
}

}  // namespace

std::string PageQuestion::key() const {
  Parameters sorted = parameters;
  // Arguments keep their order.
  std::stable_sort(sorted.begin(), sorted.end(), [](const Parameter& a, const Parameter& b) {
    return a.name != b.name ? a.name < b.name : a.name != "arg" && a.value < b.value;
  });
  std::string text = command + "?";
  for (const Parameter& one : sorted)
    text += (text.back() == '?' ? "" : "&") + encode(one.name) + "=" + encode(one.value);
  return text;
}

// As momentsOf() in analyzer/page/view_compare.js.
ComparedMoments compared_moments(const PageMoments& moments) {
  const std::vector<PageMark>& marks = moments.marks;
  const auto text_of = [&](const PageMark& mark) {
    return is_moment_name(mark.text, marks) ? mark.text : std::to_string(mark.time_ns) + "ns";
  };
  if (marks.size() > 1) return {text_of(marks[marks.size() - 2]), text_of(marks.back())};
  const bool is_until_peak = moments.leaked_bytes * 2 < moments.peak_bytes;
  const std::uint64_t end_ns = is_until_peak ? moments.peak_ns : moments.duration_ns;
  const std::string after = is_until_peak ? "peak" : "end";
  if (marks.size() == 1 && marks.front().time_ns < end_ns) return {text_of(marks.front()), after};
  return {seconds_text(static_cast<double>(end_ns) * 2 / 3, moments.duration_ns), after};
}

PageGroup whole_questions() {
  PageGroup group{"the whole recording", {}};
  std::vector<Template> templates = read_templates();
  std::erase_if(templates, [](const Template& one) { return is_of_choice(one) || is_in_another(one); });
  add(group.questions, templates, {std::begin(kMetricNames), std::end(kMetricNames)}, {});
  return group;
}

PageQuestion stack_question() { return filled(find_template("stack_rows"), "{metric}", kMetricNames[0]); }

PageGroup row_questions() {
  PageGroup group{"rows by line, call site, module and stack", {}};
  add_rows(group.questions, {});
  group.questions.push_back(stack_question());
  return group;
}

PageGroup variant_questions(const ComparedMoments& compared) {
  PageGroup group{"two moments, suppressed leaks, and the timeline by module and thread", {}};
  const Template moments = find_template("moments"), all_leaks = find_template("all_leaks"),
                 timeline = find_template("timeline");
  PageQuestion comparison{moments.command, moments.options};
  std::erase_if(comparison.parameters, [](const Parameter& one) { return one.name == "arg"; });
  comparison.parameters.push_back({"arg", "@" + compared.before});
  comparison.parameters.push_back({"arg", "@" + compared.after});
  group.questions.push_back(std::move(comparison));
  group.questions.push_back({all_leaks.command, all_leaks.options});
  for (const char* const by : {"module", "thread"}) {
    group.questions.push_back({timeline.command, timeline.options});
    group.questions.back().parameters.push_back({"by", by});
  }
  return group;
}

PageGroup free_questions() {
  const Template frees = find_template("frees");
  return {"frees by allocating and freeing stack", {{frees.command, frees.options}}};
}

PageGroup other_stack_questions() {
  PageGroup group{"rows by stack of other metrics than \"Live at peak\"", {}};
  const Template stacks = find_template("stack_rows");
  for (const char* const metric : std::span(kMetricNames).subspan(1))
    group.questions.push_back(filled(stacks, "{metric}", metric));
  return group;
}

std::vector<PageGroup> part_questions(const PageMoments& moments) {
  // The views that show what has which share of memory. The others read every event again, for each range.
  std::vector<Template> of_ranges;
  for (const Template& one : read_templates())
    if (one.selects && !is_of_choice(one) && (one.command == "report" || one.command == "tree"))
      of_ranges.push_back(one);
  std::vector<Template> of_peak = of_ranges;
  of_peak.push_back(find_template("blocks"));
  // Lines over time of the blocks that are live at a moment need every event, too; there can be many marks.
  std::vector<Template> of_marks = of_peak;
  std::erase_if(of_marks, [](const Template& one) { return one.name == "function_over_time"; });

  std::vector<PageGroup> groups;
  groups.push_back({"the peak", {}});
  add(groups.back().questions, of_peak, {"live"}, at_moment(moments.peak_ns));
  groups.push_back({"ten ranges of the recording", {}});
  for (const Parameters& range : page_ranges()) add(groups.back().questions, of_ranges, {"peak"}, range);
  if (!moments.marks.empty()) groups.push_back({"the marks", {}});
  for (const std::uint64_t mark_ns : page_marks(moments))
    add(groups.back().questions, of_marks, {"live"}, at_moment(mark_ns));
  return groups;
}

PageGroup part_row_questions(const PageMoments& moments) {
  PageGroup group{"rows by line, call site and module of the peak, the ten ranges and the marks", {}};
  add_rows(group.questions, at_moment(moments.peak_ns));
  for (const Parameters& range : page_ranges()) add_rows(group.questions, range);
  for (const std::uint64_t mark_ns : page_marks(moments)) add_rows(group.questions, at_moment(mark_ns));
  return group;
}

PageGroup part_stack_questions(const PageMoments& moments) {
  PageGroup group{"rows by stack of the peak and the ten ranges", {}, true};
  const Template stacks = find_template("stack_rows");
  const auto add_stacks = [&](const char* metric, const Parameters& selection) {
    PageQuestion question = filled(stacks, "{metric}", metric);
    question.parameters.insert(question.parameters.end(), selection.begin(), selection.end());
    group.questions.push_back(std::move(question));
  };
  add_stacks("live", at_moment(moments.peak_ns));
  for (const Parameters& range : page_ranges()) add_stacks("peak", range);
  return group;
}

PageGroup source_questions(const std::vector<std::string>& files) {
  PageGroup group{"source files", {}};
  const Template lines = find_template("lines");
  for (const std::string& file : files) group.questions.push_back(filled(lines, "{name}", file));
  return group;
}

bool make_coarser(PageQuestion& question) {
  constexpr std::pair<const char*, const char*> kSteps[][3] = {
      {{"min-share", "0.1"}, {"min-share", "1"}, {"min-share", "5"}},
      {{"top", "0"}, {"top", "100"}, {"top", "20"}},
      {{"top", "500"}, {"top", "100"}, {"top", "20"}},
      {{"top", "200"}, {"top", "50"}, {"top", "10"}},
  };
  for (Parameter& one : question.parameters)
    for (const auto& steps : kSteps)
      for (std::size_t i = 0; i + 1 < std::size(steps); ++i)
        if (one.name == steps[i].first && one.value == steps[i].second) {
          one.value = steps[i + 1].second;
          return true;
        }
  return false;
}

}  // namespace heapprof::serve
