// Which answers fit into a file with the page, and how many questions it takes to find out.
#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/serve/answer_fitter.h"

using heapprof::serve::AnswerFitter;
using heapprof::serve::PageQuestion;

namespace {

using Texts = std::vector<std::string>;

/// The size of an answer that has more bytes, unknown how many.
constexpr std::uint64_t kHuge = 1'000'000;

/// Answers trees with one cost, whose sizes are those of the branches of at least 0.1, 1 and 5 percent.
class Trees {
 public:
  void set(const std::string& cost, std::vector<std::uint64_t> bytes) { bytes_[cost] = std::move(bytes); }
  /// The share of the tree that fits; "none": there is no answer, "too large".
  std::string fit(const std::string& cost, std::uint64_t limit) {
    asked_.clear();
    const PageQuestion question{"tree", {{"cost", cost}, {"min-share", "0.1"}}};
    const AnswerFitter::Attempt attempt = fitter_.first_attempt(question);
    const auto ask = [this](const PageQuestion& one) { return answer(one); };
    const AnswerFitter::Result result = fitter_.fit(question, attempt, answer(attempt.question), limit, ask);
    if (result.is_too_large) return "too large";
    if (!result.answer) return "none";
    CHECK(result.answer->bytes <= limit);
    CHECK(result.is_coarser == (result.answer->text != "0.1"));
    return result.answer->text;
  }
  /// The shares that were asked for.
  const Texts& asked() const { return asked_; }
  bool is_hopeless(const std::string& cost, std::uint64_t room) const {
    return fitter_.is_hopeless({"tree", {{"cost", cost}, {"min-share", "0.1"}}}, room);
  }

 private:
  std::optional<AnswerFitter::Answered> answer(const PageQuestion& question) {
    const std::string& cost = question.parameters.at(0).value;
    const std::string& share = question.parameters.at(1).value;
    asked_.push_back(share);
    const auto bytes = bytes_.find(cost);
    if (bytes == bytes_.end()) return std::nullopt;
    const std::uint64_t its_bytes = bytes->second.at(share == "0.1" ? 0 : share == "1" ? 1 : 2);
    return AnswerFitter::Answered{share, its_bytes, its_bytes == kHuge};
  }

  AnswerFitter fitter_;
  std::map<std::string, std::vector<std::uint64_t>> bytes_;
  Texts asked_;
};

}  // namespace

TEST_CASE("an answer that is too large is asked for with less detail, the next of its kind with this at once") {
  Trees trees;
  for (const char* const cost : {"peak", "leaked", "allocated"}) trees.set(cost, {900, 300, 60});
  CHECK(trees.fit("peak", 100) == "5");
  CHECK(trees.asked() == Texts{"0.1", "1", "5"});
  for (const char* const cost : {"leaked", "allocated"}) {
    CHECK(trees.fit(cost, 100) == "5");
    CHECK(trees.asked() == Texts{"5"});
  }
}

TEST_CASE("an answer has as much detail as there is room for, also after one that needed less") {
  Trees trees;
  trees.set("peak", {900, 300, 60});
  trees.set("temporary", {60, 20, 5});
  trees.set("leaked", {500, 60, 50});
  CHECK(trees.fit("peak", 100) == "5");
  CHECK(trees.fit("temporary", 100) == "0.1");
  CHECK(trees.asked() == Texts{"5", "1", "0.1"});
  CHECK(trees.fit("peak", 100) == "5");
  CHECK(trees.asked() == Texts{"0.1", "1", "5"});
  // That it fits with one step less is not expected: others had five times as many bytes then.
  CHECK(trees.fit("leaked", 100) == "5");
  CHECK(trees.asked() == Texts{"5"});
  // Here it is, but it does not.
  trees.set("live", {900, 120, 10});
  CHECK(trees.fit("live", 100) == "5");
  CHECK(trees.asked() == Texts{"5", "1"});
}

TEST_CASE("a kind for which there is no room is not asked for, and what has no answer is not too large") {
  Trees trees;
  trees.set("peak", {900, 300, 60});
  CHECK(trees.fit("none", 100) == "none");
  CHECK(trees.asked() == Texts{"0.1"});
  CHECK_FALSE(trees.is_hopeless("peak", 0));
  CHECK(trees.fit("peak", 50) == "too large");
  CHECK(trees.asked() == Texts{"0.1", "1", "5"});
  CHECK(trees.is_hopeless("leaked", 29));
  CHECK_FALSE(trees.is_hopeless("leaked", 30));
  // Its room may be larger than for others: the least detail is tried first, and more if that fits.
  CHECK(trees.fit("peak", 2000) == "0.1");
  CHECK(trees.asked() == Texts{"5", "1", "0.1"});
}

TEST_CASE("an answer of unknown size is too large for any room, but others of its kind can fit") {
  constexpr std::uint64_t kRoom = kHuge * 1000;
  Trees trees;
  trees.set("peak", {kHuge, kHuge, kHuge});
  trees.set("leaked", {900, 300, 60});
  CHECK(trees.fit("peak", kRoom) == "too large");
  CHECK(trees.asked() == Texts{"0.1", "1", "5"});
  CHECK_FALSE(trees.is_hopeless("leaked", kRoom));
  CHECK(trees.fit("leaked", kRoom) == "0.1");
  // As of answers whose size is known, it is not asked for where it would need to be half as large.
  CHECK(trees.is_hopeless("leaked", kHuge / 2 - 1));
  CHECK_FALSE(trees.is_hopeless("leaked", kHuge / 2));
  // An answer can have less detail for its size.
  trees.set("allocated", {kHuge, 900, 300});
  CHECK(trees.fit("allocated", kRoom) == "1");
  CHECK(trees.asked() == Texts{"0.1", "1"});
}
