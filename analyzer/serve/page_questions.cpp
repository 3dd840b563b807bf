#include "analyzer/serve/page_questions.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "analyzer/serve/page.h"

namespace heapprof::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMetricNames[] = {"peak", "leaked", "allocated", "allocations", "temporary", "live"};

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

}  // namespace

std::string PageQuestion::key() const {
  Parameters sorted = parameters;
  std::sort(sorted.begin(), sorted.end(), [](const Parameter& a, const Parameter& b) {
    return std::tie(a.name, a.value) < std::tie(b.name, b.value);
  });
  std::string text = command + "?";
  for (const Parameter& one : sorted)
    text += (text.back() == '?' ? "" : "&") + encode(one.name) + "=" + encode(one.value);
  return text;
}

PageGroup whole_questions() {
  PageGroup group{"the whole recording", {}};
  add(group.questions, read_templates(), {std::begin(kMetricNames), std::end(kMetricNames)}, {});
  return group;
}

std::vector<PageGroup> part_questions(const PageMoments& moments) {
  // The views that show what has which share of memory. The others read every event again, for each range.
  std::vector<Template> of_ranges;
  for (const Template& one : read_templates())
    if (one.selects && (one.command == "report" || one.command == "tree")) of_ranges.push_back(one);
  std::vector<Template> of_moments = of_ranges;
  for (const Template& one : read_templates())
    if (one.name == "blocks") of_moments.push_back(one);

  std::vector<PageGroup> groups;
  const auto at = [](std::uint64_t ns) { return Parameters{{"live-at", std::to_string(ns) + "ns"}}; };
  groups.push_back({"the peak", {}});
  add(groups.back().questions, of_moments, {"live", "peak"}, at(moments.peak_ns));
  groups.push_back({"ten ranges of the recording", {}});
  for (std::size_t i = 0; i < kPageRanges; ++i)
    add(groups.back().questions, of_ranges, {"peak"},
        {{"from", std::to_string(i * 100 / kPageRanges) + "%"},
         {"to", std::to_string((i + 1) * 100 / kPageRanges) + "%"}});
  if (!moments.marks_ns.empty()) groups.push_back({"the marks", {}});
  for (const std::uint64_t mark_ns : moments.marks_ns)
    add(groups.back().questions, of_moments, {"live"}, at(mark_ns));
  return groups;
}

PageGroup source_questions(const std::vector<std::string>& files) {
  PageGroup group{"source files", {}};
  for (const Template& one : read_templates()) {
    if (one.name != "lines") continue;
    for (const std::string& file : files) {
      PageQuestion question{one.command, one.options};
      for (Parameter& option : question.parameters) {
        fill(option.value, "{name}", file);
        fill(option.value, "{metric}", kMetricNames[0]);
      }
      group.questions.push_back(std::move(question));
    }
  }
  return group;
}

bool make_coarser(PageQuestion& question) {
  constexpr std::pair<const char*, const char*> kSteps[][3] = {
      {{"min-share", "0.1"}, {"min-share", "1"}, {"min-share", "5"}},
      {{"top", "0"}, {"top", "100"}, {"top", "20"}},
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
