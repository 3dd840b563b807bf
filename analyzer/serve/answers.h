// Answers questions: runs the command that answers, and keeps answers about recordings that have ended. Equal
// questions that are asked at the same time are answered once. At most two processes run at once; those that take
// longer than a second do not count, up to four in all, so that two slow answers do not delay the others; they get a
// lower priority.
//
// A question about a running program starts a process that stays (standing_process.h) and answers all questions about
// the same blocks. It ends when nobody asked for a while. Of processes that read a running program's recording from
// its beginning, at most two run at once: each has a table of the live blocks.
//
// Questions about a large recording without an index wait until one is written: with it, the first answers and all
// later ones take less time in total than the first answers alone without it. At most two are written at once; they
// are finished when nobody waits any more, since the next question needs them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/serve/child_process.h"
#include "analyzer/serve/question.h"
#include "analyzer/serve/standing_process.h"

namespace heapprof::serve {

struct Answer {
  unsigned status = 200;  ///< of HTTP
  std::string content_type = "application/json";
  std::shared_ptr<const std::string> body;
  bool is_too_large = false;  ///< an error: it would have more than Answers::kMaxAnswerBytes
  bool is_refusal = false;    ///< an error: the command states why there is no such answer
  std::string messages = {};  ///< sentences that the command printed beside its answer
};

/// {"error": SENTENCE}
Answer error_answer(unsigned status, const std::string& sentence);

class Answers {
 public:
  static constexpr std::size_t kMaxRunning = 2;  ///< without slow ones
  static constexpr std::size_t kMaxProcesses = 4;
  static constexpr std::size_t kMaxFromBeginning = 2;  ///< of running programs
  static constexpr std::size_t kMaxIndexWriters = 2;
  static constexpr std::chrono::seconds kSlow{1};
  static constexpr std::size_t kMaxAnswerBytes = 32 << 20;
  static constexpr std::size_t kMaxKeptBytes = 64 << 20;  ///< of all kept answers
  static constexpr std::chrono::seconds kMaxTime{300};    ///< of one answer
  static constexpr std::size_t kMaxStanding = 3;          ///< processes that stay
  static constexpr std::chrono::seconds kMaxIdle{30};     ///< of these
  /// Of these, if all are in use: then another question takes the place of the least recently asked one.
  static constexpr std::chrono::seconds kMinIdle{3};

  /// The state of a trace: equal texts mean that it has not changed. Empty: it may change at any time, so answers
  /// about it are not kept.
  using StateOf = std::function<std::string(std::size_t trace)>;
  /// The command line that writes an index of a trace to the cache; empty: it needs none. Called once for each state
  /// of a trace.
  using IndexWords = std::function<std::vector<std::string>(std::size_t trace)>;
  using Done = std::function<void(const Answer&)>;
  using Ticket = std::uint64_t;
  struct Running {
    std::string command;  ///< "index" for an index
    std::chrono::steady_clock::duration time;
    ChildProgress progress;
  };

  /// Without `index_words`, no index is written. `keeps_processes`: of questions about running programs; `context`
  /// then has work to do until nobody has asked one for a while. `max_running`: at most kMaxProcesses.
  Answers(boost::asio::io_context& context, StateOf state_of, IndexWords index_words = {},
          bool keeps_processes = false, std::size_t max_running = kMaxRunning);

  /// `done` is called once, later, unless the ticket is cancelled before.
  Ticket ask(const Question& question, Done done);
  /// Nobody waits for this answer any more: if nobody else does, its process is killed.
  void cancel(Ticket ticket);
  /// The processes that run, the oldest first.
  std::vector<Running> running() const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Task {
    explicit Task(boost::asio::io_context& context) : timer(context) {}

    Question question;
    std::string key;
    std::string state;  ///< of its traces, when it was asked
    std::map<Ticket, Done> waiting;
    std::shared_ptr<ChildProcess> child;
    std::weak_ptr<const StandingProcess> standing;  ///< that answers, instead of `child`
    bool runs = false;                              ///< in a process of its own or in one that stays
    Clock::time_point started;
    boost::asio::steady_timer timer;  ///< until it is slow
    bool is_slow = false;
  };
  struct Kept {
    std::string key;
    Answer answer;
  };

  /// The index of a trace, which is being written or need not be.
  struct IndexOf {
    std::string state;                    ///< of the trace
    std::vector<std::string> words;       ///< that write it, as soon as fewer are being written
    std::shared_ptr<ChildProcess> child;  ///< null: it is not being written
    Clock::time_point started;
  };

  std::string state_of(const Question& question) const;
  bool waits_for_index(const Question& question);
  void start_next();
  void start(const std::shared_ptr<Task>& task);
  void wait_for_idle();
  bool can_start_standing();
  bool may_stand(const Task& task) const;
  bool must_wait(const Task& task);
  std::shared_ptr<StandingProcess> standing(const Question& question);
  void finish(const std::shared_ptr<Task>& task, ChildResult&& result);
  void keep(const std::string& key, const Answer& answer);

  boost::asio::io_context& context_;
  StateOf state_of_;
  IndexWords index_words_;
  const bool keeps_processes_;
  const std::size_t max_running_;
  std::map<std::size_t, IndexOf> indexes_;
  std::size_t writers_ = 0;  ///< of indexes
  Ticket last_ticket_ = 0;
  std::size_t processes_ = 0;
  std::size_t running_ = 0;  ///< of these, those that are not slow
  std::deque<std::shared_ptr<Task>> queue_;
  std::vector<std::shared_ptr<Task>> tasks_;  ///< queued and running
  /// About a running program.
  struct Asked {
    Clock::time_point asked;  ///< last
    bool can_stand = true;    ///< the process that stays has answered it, or was not asked
  };
  struct Standing {
    std::size_t trace = 0;
    Clock::time_point asked;
    std::shared_ptr<StandingProcess> process;
  };
  std::map<std::string, Asked> asked_;        ///< by key
  std::map<std::string, Standing> standing_;  ///< by Question::followed
  boost::asio::steady_timer idle_timer_;
  std::list<Kept> kept_;  ///< the most recently used first
  std::unordered_map<std::string, std::list<Kept>::iterator, ChosenTextHash> kept_by_key_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace heapprof::serve
