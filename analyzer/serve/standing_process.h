// A process that answers all questions with one selection about a running program. It has replayed what was recorded
// so far, so an answer takes as long as what was recorded since the one before.
//
// The process is an ordinary command whose environment has HEAPPROF_ANSWERS=standing;
// analyzer/cli/commands/shared/standing_answers.h describes what it prints.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/serve/child_process.h"

namespace heapprof::serve {

class StandingProcess : public std::enable_shared_from_this<StandingProcess> {
 public:
  /// nullopt: the process has ended.
  using Done = std::function<void(std::optional<ChildResult>&&)>;

  /// Starts the program with the words of one of the questions. `limits`: of each answer.
  static std::shared_ptr<StandingProcess> start(boost::asio::io_context& context,
                                                const std::vector<std::string>& words, const ChildLimits& limits);
  ~StandingProcess() { end(); }
  StandingProcess(const StandingProcess&) = delete;
  StandingProcess& operator=(const StandingProcess&) = delete;

  /// `done` is called once, later. Precondition: neither is_busy() nor has_ended().
  void ask(const std::vector<std::string>& words, Done done);
  bool is_busy() const noexcept { return done_ != nullptr; }
  /// Of the first answer: how much of what was recorded before is read.
  ChildProgress progress() const { return has_answered_ ? ChildProgress() : child_->progress(); }
  bool has_ended() const noexcept { return ended_; }
  void end() {
    if (child_ != nullptr) child_->kill();
  }

 private:
  StandingProcess(boost::asio::io_context& context, const ChildLimits& limits) : limits_(limits), timer_(context) {}
  void take(std::string_view output);
  void answer(std::optional<ChildResult>&& result);

  const ChildLimits limits_;
  boost::asio::steady_timer timer_;  ///< of the answer that is computed
  std::shared_ptr<ChildProcess> child_;
  Done done_;
  bool ended_ = false;
  bool has_answered_ = false;
  std::string printed_;  ///< of the answer that is computed
};

}  // namespace heapprof::serve
