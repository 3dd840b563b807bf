#include "analyzer/serve/answer_fitter.h"

#include <algorithm>
#include <utility>

namespace heapprof::serve {
namespace {

/// The question without its cost, order, range and moment.
std::string kind_of(const PageQuestion& question) {
  std::string kind = question.command;
  for (const Parameter& one : question.parameters)
    if (one.name != "cost" && one.name != "sort" && one.name != "from" && one.name != "to" && one.name != "live-at")
      kind += " " + one.name + "=" + one.value;
  return kind;
}

AnswerFitter::Attempt coarser_by(std::size_t steps, const PageQuestion& question) {
  AnswerFitter::Attempt attempt{question};
  while (attempt.steps < steps && make_coarser(attempt.question)) ++attempt.steps;
  return attempt;
}

double ratio(std::uint64_t finer_bytes, std::uint64_t bytes) {
  return static_cast<double>(finer_bytes) / static_cast<double>(bytes);
}

}  // namespace

AnswerFitter::Attempt AnswerFitter::first_attempt(const PageQuestion& question) const {
  const auto kind = kinds_.find(kind_of(question));
  return coarser_by(kind == kinds_.end() ? 0 : kind->second.steps, question);
}

AnswerFitter::Result AnswerFitter::fit(const PageQuestion& question, Attempt attempt, std::optional<Answered> answer,
                                       std::uint64_t limit, const Ask& ask) {
  Kind& kind = kinds_[kind_of(question)];
  Result result;
  std::uint64_t too_large_bytes = 0;  // of an answer with one step less
  for (; answer; answer = ask(attempt.question)) {
    const std::uint64_t bytes = answer->bytes;
    if (too_large_bytes != 0) kind.growth = ratio(too_large_bytes, bytes);
    if (result.answer) kind.growth = ratio(bytes, result.answer->bytes);
    if (answer->has_more_bytes || bytes > limit) {
      if (result.answer) break;
      kind.steps = attempt.steps;
      if (!make_coarser(attempt.question)) {
        kind.least_too_large = std::min(kind.least_too_large.value_or(bytes), bytes);
        result.is_too_large = true;
        break;
      }
      ++attempt.steps;
      too_large_bytes = bytes;
      continue;
    }
    result.answer = std::move(answer);
    result.is_coarser = attempt.steps != 0;
    kind.steps = attempt.steps;
    const bool may_be_finer = attempt.steps != 0 && too_large_bytes == 0 &&
                              static_cast<double>(bytes) * kind.growth <= static_cast<double>(limit);
    if (!may_be_finer) break;
    attempt = coarser_by(attempt.steps - 1, question);
  }
  return result;
}

bool AnswerFitter::is_hopeless(const PageQuestion& question, std::uint64_t room) const {
  const auto kind = kinds_.find(kind_of(question));
  return kind != kinds_.end() && kind->second.least_too_large.value_or(0) > 2 * room;
}

}  // namespace heapprof::serve
