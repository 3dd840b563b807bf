// The questions that a file has answers to: the page finds an answer by the text of its question, so both must write
// the same one. tests/consumers/page_figures.py calls the page's momentsOf() with the same recordings.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/serve/page_questions.h"

using heapprof::serve::ComparedMoments;
using heapprof::serve::PageGroup;
using heapprof::serve::PageMoments;
using heapprof::serve::PageQuestion;

namespace {

using Texts = std::vector<std::string>;

/// Of a recording with these marks, one each tenth of a second.
Texts compared(std::uint64_t leaked_bytes, const Texts& marks) {
  PageMoments moments{900'000'000, 600'000'000, 10, leaked_bytes, {}};
  for (const std::string& text : marks) moments.marks.push_back({(moments.marks.size() + 1) * 100'000'000, text});
  const ComparedMoments found = heapprof::serve::compared_moments(moments);
  return {found.before, found.after};
}

Texts keys(const PageGroup& group) {
  Texts keys;
  for (const PageQuestion& question : group.questions) keys.push_back(question.key());
  return keys;
}

}  // namespace

TEST_CASE("the moments that are compared are those of the page") {
  CHECK(compared(9, {}) == Texts{"0.6", "end"});
  CHECK(compared(4, {}) == Texts{"0.4", "peak"});
  CHECK(compared(9, {"a"}) == Texts{"a", "end"});
  CHECK(compared(4, {"a"}) == Texts{"a", "peak"});
  CHECK(compared(9, {"x", "a", "b"}) == Texts{"a", "b"});
  CHECK(compared(9, {"b", "a", "a"}) == Texts{"200000000ns", "300000000ns"});
  CHECK(compared(9, {"peak", "7"}) == Texts{"100000000ns", "200000000ns"});
}

TEST_CASE("arguments of a question keep their order, options are sorted") {
  CHECK(PageQuestion{"diff", {{"top", "5"}, {"arg", "@9"}, {"arg", "@10"}}}.key() == "diff?arg=%409&arg=%4010&top=5");
  CHECK(PageQuestion{"report", {{"to", "2"}, {"function", "b"}, {"function", "a"}}}.key() ==
        "report?function=a&function=b&to=2");
}

TEST_CASE("each kind of rows of the table is asked for once") {
  CHECK(keys(heapprof::serve::row_questions()) == Texts{"report?by=line&top=0", "report?by=site&top=0",
                                                        "report?by=module&top=0",
                                                        "report?by=stack&shared-frames=1&sort=peak&top=500"});
  const Texts whole = keys(heapprof::serve::whole_questions());
  for (const char* const key :
       {"report?by=function&top=0", "report?by=thread&top=0", "report?cost=peak&shared-frames=1&top=5"})
    CHECK(std::count(whole.begin(), whole.end(), key) == 1);
  CHECK(keys(heapprof::serve::other_stack_questions()).front() ==
        "report?by=stack&shared-frames=1&sort=leaked&top=500");
}

TEST_CASE("answers that would be the same, or that another one has, are asked for once") {
  const Texts whole = keys(heapprof::serve::whole_questions());
  const auto count = [&](const std::string& command, const std::string& part) {
    return std::count_if(whole.begin(), whole.end(), [&](const std::string& key) {
      return key.starts_with(command + "?") && key.find(part) != std::string::npos;
    });
  };
  CHECK(count("report", "cost=leaked") == 1);
  CHECK(count("tree", "cost=leaked") == 2);
  // What is live at the end is leaked, and files have the figures of all metrics.
  CHECK(count("report", "cost=live") + count("tree", "cost=live") == 0);
  CHECK(count("source", "") == 1);
  CHECK(count("churn", "") == 1);
}

TEST_CASE("lines over time, which need every event, are asked of the peak but not of each mark") {
  const PageMoments moments{900'000'000, 600'000'000, 10, 0, {{100'000'000, "a"}, {200'000'000, "b"}}};
  const std::vector<PageGroup> groups = heapprof::serve::part_questions(moments);
  REQUIRE(groups.size() == 3);
  const auto count = [&](const PageGroup& group, const std::string& part) {
    const Texts all = keys(group);
    return std::count_if(all.begin(), all.end(),
                         [&](const std::string& key) { return key.find(part) != std::string::npos; });
  };
  for (const char* const command : {"report?by=function&live-at=", "tree?cost=live&live-at=", "blocks?live-at="}) {
    CHECK(count(groups[0], command) == 1);
    CHECK(count(groups[2], command) == 2);
  }
  CHECK(count(groups[0], "over-time") == 1);
  CHECK(count(groups[1], "over-time") == 10);
  CHECK(count(groups[2], "over-time") == 0);
  CHECK(count(groups[0], "cost=peak") == 1);  // of these lines
}

TEST_CASE("stacks of parts divide the room among them, and frees are asked for once") {
  const PageMoments moments{900'000'000, 600'000'000, 10, 0, {}};
  const PageGroup stacks = heapprof::serve::part_stack_questions(moments);
  CHECK(stacks.divides_room);
  const Texts of_parts = keys(stacks);
  REQUIRE(of_parts.size() == 11);
  CHECK(of_parts[0] == "report?by=stack&live-at=600000000ns&shared-frames=1&sort=live&top=500");
  CHECK(of_parts[1] == "report?by=stack&from=0%25&shared-frames=1&sort=peak&to=10%25&top=500");
  CHECK(of_parts[10] == "report?by=stack&from=90%25&shared-frames=1&sort=peak&to=100%25&top=500");
  CHECK_FALSE(heapprof::serve::part_row_questions(moments).divides_room);
  CHECK(keys(heapprof::serve::free_questions()) == Texts{"frees?shared-frames=1&top=500"});
  const Texts whole = keys(heapprof::serve::whole_questions());
  CHECK(std::count_if(whole.begin(), whole.end(), [](const std::string& key) { return key.starts_with("frees?"); }) ==
        0);
}

TEST_CASE("a large answer about stacks is replaced by one with fewer stacks") {
  PageQuestion question = heapprof::serve::stack_question();
  REQUIRE(heapprof::serve::make_coarser(question));
  CHECK(question.key() == "report?by=stack&shared-frames=1&sort=peak&top=100");
}
