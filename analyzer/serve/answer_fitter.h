// Which answers there is room for in a file with the page. An answer that is too large is asked for again with less
// detail (make_coarser()).
//
// Answers of one kind have similar sizes, whatever they are about. So the next question of the kind is asked with the
// detail of the last one that fitted. With more detail it is asked only if the answer would fit then, as far as it
// grows by that as others did: the result can have less detail than there is room for if it grows by less. A question
// of a kind for which there is no room is not asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "analyzer/serve/page_questions.h"

namespace heapprof::serve {

class AnswerFitter {
 public:
  struct Answered {
    std::string text;
    std::uint64_t bytes = 0;      ///< that it takes in the file, more than 0
    bool has_more_bytes = false;  ///< than `bytes`, unknown how many: there is no room for it
  };
  /// nullopt: the question has no answer.
  using Ask = std::function<std::optional<Answered>(const PageQuestion&)>;

  /// A question as it is asked.
  struct Attempt {
    PageQuestion question;
    std::size_t steps = 0;  ///< how often it was made coarser
  };
  Attempt first_attempt(const PageQuestion& question) const;

  struct Result {
    std::optional<Answered> answer;  ///< null: there is none, or it is too large
    bool is_coarser = false;
    bool is_too_large = false;  ///< even with the least detail
  };
  /// `answer`: of first_attempt(). `limit`: bytes of the result. `ask` is called for the same question with other
  /// detail.
  Result fit(const PageQuestion& question, Attempt attempt, std::optional<Answered> answer, std::uint64_t limit,
             const Ask& ask);

  /// Whether an answer of this kind was too large for twice this room, even with the least detail.
  bool is_hopeless(const PageQuestion& question, std::uint64_t room) const;

 private:
  struct Kind {
    std::size_t steps = 0;                         ///< of the last answer
    double growth = 1;                             ///< how much larger the answers are with one step less
    std::optional<std::uint64_t> least_too_large;  ///< bytes of the smallest answer of Result::is_too_large
  };

  std::map<std::string, Kind> kinds_;
};

}  // namespace heapprof::serve
