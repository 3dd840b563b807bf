#include "analyzer/serve/answers.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstring>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "analyzer/base/reason_of.h"
#include "analyzer/serve/compact_json.h"

namespace heapprof::serve {
namespace {

/// The sentences that a command printed on standard error, without the program's name.
std::string messages_of(const std::string& error) {
  constexpr std::string_view kPrefix = "heapprof: ";
  std::string text;
  for (std::size_t begin = 0; begin < error.size();) {
    const std::size_t end = std::min(error.find('\n', begin), error.size());
    std::string_view line(error.data() + begin, end - begin);
    if (line.starts_with(kPrefix)) line.remove_prefix(kPrefix.size());
    if (!line.empty()) text += (text.empty() ? "" : "; ") + std::string(line);
    begin = end + 1;
  }
  return text;
}

Answer answer_of(const Question& question, ChildResult&& result) {
  using End = ChildResult::End;
  const std::string messages = messages_of(result.error);
  switch (result.end) {
    case End::kExited: break;
    case End::kSignal:
      return error_answer(500, "the process that computed this answer was ended by signal " +
                                   std::to_string(result.code) + " (" + ::strsignal(result.code) + ")" +
                                   (messages.empty() ? "" : ": " + messages));
    case End::kKilled: return error_answer(503, "the server is ending");
    case End::kTooMuchOutput: {
      Answer answer = error_answer(422, "the answer has more than " + std::to_string(Answers::kMaxAnswerBytes >> 20) +
                                            " MB; ask for less, with top for example, or use the command line");
      answer.is_too_large = true;
      return answer;
    }
    case End::kTooLong:
      return error_answer(422, "no answer within " + std::to_string(Answers::kMaxTime.count()) +
                                   " s; use the command line, which has no limit");
    case End::kNotStarted:
      return error_answer(503, "the process that computes answers cannot be started: " + result.error);
  }
  // Status 1 with output: the trace is incomplete, which the output says. Status 3: a limit of `check`.
  if (result.output.empty() || result.code == 2) {
    if (result.code == 0) return error_answer(500, "the command printed nothing");
    Answer answer =
        error_answer(result.code == 2 ? 400 : 422,
                     messages.empty() ? "the command failed with status " + std::to_string(result.code) : messages);
    // Commands print the end of their memory, see guarded() in analyzer/cli/commands/shared/run_on_trace.cpp.
    answer.is_refusal = !messages.empty() && messages.find(kNotEnoughMemory) == messages.npos;
    return answer;
  }
  if (question.is_json && !result.output.ends_with('\n')) result.output += '\n';
  if (question.convert != nullptr) {
    try {
      result.output = question.convert(result.output);
    } catch (const std::exception& error) {
      return error_answer(500, reason_of(error));
    }
  }
  Answer answer{200, question.content_type, std::make_shared<const std::string>(std::move(result.output))};
  answer.messages = messages;
  return answer;
}

}  // namespace

Answer error_answer(unsigned status, const std::string& sentence) {
  const nlohmann::ordered_json json = {{"error", sentence}};
  return {status, "application/json",
          std::make_shared<const std::string>(
              json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n")};
}

Answers::Answers(boost::asio::io_context& context, StateOf state_of, IndexWords index_words, bool keeps_processes,
                 std::size_t max_running)
    : context_(context), state_of_(std::move(state_of)), index_words_(std::move(index_words)),
      keeps_processes_(keeps_processes), max_running_(max_running), idle_timer_(context) {}

/// Starts to write the index of a trace that needs one, unless too many are being written. True: an index is being
/// written, or will be.
bool Answers::waits_for_index(const Question& question) {
  if (!index_words_) return false;
  bool waits = false;
  for (const std::size_t trace : question.traces) {
    const std::string state = state_of_(trace);
    IndexOf& index = indexes_[trace];
    if (index.child == nullptr && !state.empty() && index.state != state) {
      index.state = state;
      index.words = index_words_(trace);
    }
    if (!index.words.empty() && writers_ < kMaxIndexWriters) {
      ++writers_;
      index.started = Clock::now();
      // If it fails, the questions are answered without an index.
      index.child =
          ChildProcess::start(context_, std::exchange(index.words, {}),
                              {.output_bytes = kMaxAnswerBytes, .time = kMaxTime}, [this, trace](ChildResult&&) {
                                --writers_;
                                indexes_[trace].child.reset();
                                start_next();
                              });
    }
    waits |= index.child != nullptr || !index.words.empty();
  }
  return waits;
}

std::vector<Answers::Running> Answers::running() const {
  std::vector<Running> result;
  const Clock::time_point now = Clock::now();
  for (const auto& [trace, index] : indexes_)
    if (index.child != nullptr) result.push_back({"index", now - index.started, index.child->progress()});
  for (const std::shared_ptr<Task>& task : tasks_) {
    const auto standing = task->standing.lock();
    if (task->child != nullptr)
      result.push_back({task->question.words.front(), now - task->started, task->child->progress()});
    else if (task->runs && standing != nullptr)
      result.push_back({task->question.words.front(), now - task->started, standing->progress()});
  }
  std::ranges::stable_sort(result, std::ranges::greater(), &Running::time);
  return result;
}

std::string Answers::state_of(const Question& question) const {
  std::string states;
  for (const std::size_t trace : question.traces) {
    const std::string state = state_of_(trace);
    if (state.empty()) return {};
    states += state + "\n";
  }
  return states;
}

Answers::Ticket Answers::ask(const Question& question, Done done) {
  const Ticket ticket = ++last_ticket_;
  const std::string state = state_of(question);
  std::string key;
  for (const std::string& word : question.words) key += word + '\0';
  key += question.content_type + '\0' + state;
  if (!state.empty()) {
    if (const auto found = kept_by_key_.find(key); found != kept_by_key_.end()) {
      kept_.splice(kept_.begin(), kept_, found->second);
      boost::asio::post(context_, [answer = found->second->answer, done = std::move(done)] { done(answer); });
      return ticket;
    }
    for (const std::shared_ptr<Task>& task : tasks_) {
      if (task->key != key) continue;
      task->waiting.emplace(ticket, std::move(done));
      return ticket;
    }
  }
  const auto task = std::make_shared<Task>(context_);
  task->question = question;
  task->key = std::move(key);
  task->state = state;
  task->waiting.emplace(ticket, std::move(done));
  tasks_.push_back(task);
  queue_.push_back(task);
  start_next();
  return ticket;
}

void Answers::cancel(Ticket ticket) {
  for (const std::shared_ptr<Task>& task : tasks_) {
    if (task->waiting.erase(ticket) == 0) continue;
    if (!task->waiting.empty()) return;
    if (task->child != nullptr) return task->child->kill();
    if (task->runs) return;  // in a process that stays
    std::erase(queue_, task);
    std::erase(tasks_, task);
    return;
  }
}

void Answers::start_next() {
  for (auto next = queue_.begin(); next != queue_.end() && running_ < max_running_ && processes_ < kMaxProcesses;) {
    const std::shared_ptr<Task> task = *next;
    if (waits_for_index(task->question)) {
      ++next;
      continue;
    }
    if (must_wait(*task)) {
      ++next;
      continue;
    }
    next = queue_.erase(next);
    ++running_;
    ++processes_;
    task->is_slow = false;
    task->timer.expires_after(kSlow);
    task->timer.async_wait([this, weak = std::weak_ptr(task)](boost::system::error_code stopped) {
      const auto running = weak.lock();
      if (stopped || !running || !running->runs) return;
      running->is_slow = true;
      if (running->child != nullptr) running->child->lower_priority();
      --running_;
      start_next();
    });
    task->started = Clock::now();
    task->runs = true;
    start(task);
  }
}

/// Whether the process that answers it is busy, or would be one too many that reads a running program's recording
/// from its beginning.
bool Answers::must_wait(const Task& task) {
  if (may_stand(task)) {
    if (const auto process = standing(task.question); process != nullptr) return process->is_busy();
    if (standing_.size() < kMaxStanding) return false;
  }
  const auto reads_running = [](const Task& one) {
    return one.state.empty() && one.question.words.front() != "control";
  };
  return reads_running(task) && std::ranges::count_if(tasks_, [&](const std::shared_ptr<Task>& one) {
                                  return one->child != nullptr && reads_running(*one);
                                }) >= static_cast<std::ptrdiff_t>(kMaxFromBeginning);
}

/// Starts the process that answers, or lets one that stays answer.
void Answers::start(const std::shared_ptr<Task>& task) {
  const std::vector<std::string>& words = task->question.words;
  const ChildLimits limits{.output_bytes = kMaxAnswerBytes, .time = kMaxTime, .is_json = task->question.is_json};
  // The processes that followed a program are of no use after its end.
  if (!task->state.empty())
    std::erase_if(standing_, [&](const auto& one) {
      return one.second.trace == task->question.traces.front() && !one.second.process->is_busy();
    });
  if (keeps_processes_ && task->state.empty() && !task->question.followed.empty()) {
    const auto [entry, is_first] = asked_.try_emplace(task->key);
    if (asked_.size() == 1 && is_first) wait_for_idle();
    entry->second.asked = Clock::now();
    std::shared_ptr<StandingProcess> process = may_stand(*task) ? standing(task->question) : nullptr;
    if (process == nullptr && entry->second.can_stand && can_start_standing()) {
      process = StandingProcess::start(context_, words, limits);
      standing_[task->question.followed] = {task->question.traces.front(), Clock::now(), process};
    }
    if (process != nullptr) {
      standing_[task->question.followed].asked = Clock::now();
      task->standing = process;
      return process->ask(words, [this, weak = std::weak_ptr(task)](std::optional<ChildResult>&& result) {
        const auto ended = weak.lock();
        if (!ended) return;
        // A command that needs more than one pass over the recording prints no answer. If it crashes, it may not
        // without this.
        const bool is_answer = result && !result->output.empty() && result->code < 128;
        if (is_answer) {
          if (ended->question.is_json) compact_json(result->output);
          return finish(ended, std::move(*result));
        }
        asked_[ended->key].can_stand = false;
        if (!ended->waiting.empty()) return start(ended);
        ChildResult nobody_waits;
        nobody_waits.end = ChildResult::End::kKilled;
        finish(ended, std::move(nobody_waits));
      });
    }
  }
  task->child =
      ChildProcess::start(context_, words, limits, [this, weak = std::weak_ptr(task)](ChildResult&& result) {
        // Not a shared pointer: the process and its task would keep each other, and the process would survive the
        // server.
        if (const auto ended = weak.lock()) finish(ended, std::move(result));
      });
}

/// Whether a process that stays may answer it.
bool Answers::may_stand(const Task& task) const {
  if (!keeps_processes_ || !task.state.empty() || task.question.followed.empty()) return false;
  const auto found = asked_.find(task.key);
  return found == asked_.end() || found->second.can_stand;
}

/// The process that stays and can answer this question; null: there is none.
std::shared_ptr<StandingProcess> Answers::standing(const Question& question) {
  const auto found = standing_.find(question.followed);
  if (found == standing_.end()) return nullptr;
  if (!found->second.process->has_ended()) return found->second.process;
  standing_.erase(found);
  return nullptr;
}

/// Whether another process may stay. Ends the one that nobody asked for the longest time if there are too many.
bool Answers::can_start_standing() {
  std::erase_if(standing_, [](const auto& one) { return one.second.process->has_ended(); });
  if (standing_.size() < kMaxStanding) return true;
  auto oldest = standing_.end();
  for (auto one = standing_.begin(); one != standing_.end(); ++one)
    if (!one->second.process->is_busy() && (oldest == standing_.end() || one->second.asked < oldest->second.asked))
      oldest = one;
  if (oldest == standing_.end() || Clock::now() - oldest->second.asked < kMinIdle) return false;
  standing_.erase(oldest);
  return true;
}

/// As long as there are questions about running programs: forgets those that were not asked for a while, and ends
/// the processes that nobody asks.
void Answers::wait_for_idle() {
  idle_timer_.expires_after(kMaxIdle);
  idle_timer_.async_wait([this](boost::system::error_code stopped) {
    if (stopped) return;
    const Clock::time_point now = Clock::now();
    std::erase_if(asked_, [&](const auto& one) { return now - one.second.asked >= kMaxIdle; });
    std::erase_if(standing_, [&](const auto& one) {
      return now - one.second.asked >= kMaxIdle && !one.second.process->is_busy();
    });
    if (!asked_.empty() || !standing_.empty()) wait_for_idle();
  });
}

void Answers::finish(const std::shared_ptr<Task>& task, ChildResult&& result) {
  --processes_;
  if (!task->is_slow) --running_;
  task->timer.cancel();
  task->child.reset();
  task->runs = false;
  std::erase(tasks_, task);
  const bool was_killed = result.end == ChildResult::End::kKilled;
  const Answer answer = answer_of(task->question, std::move(result));
  if (!was_killed && answer.status == 200 && !task->state.empty() && task->state == state_of(task->question))
    keep(task->key, answer);
  const std::map<Ticket, Done> waiting = std::exchange(task->waiting, {});
  if (was_killed && !waiting.empty()) {
    // Somebody asked the same between the kill and the end of the process.
    task->waiting = waiting;
    tasks_.push_back(task);
    queue_.push_back(task);
  } else {
    for (const auto& [ticket, done] : waiting) done(answer);
  }
  start_next();
}

void Answers::keep(const std::string& key, const Answer& answer) {
  if (answer.body->size() > kMaxKeptBytes / 4 || kept_by_key_.contains(key)) return;
  kept_.push_front({key, answer});
  kept_by_key_.emplace(key, kept_.begin());
  kept_bytes_ += answer.body->size() + key.size();
  while (kept_bytes_ > kMaxKeptBytes) {
    kept_bytes_ -= kept_.back().answer.body->size() + kept_.back().key.size();
    kept_by_key_.erase(kept_.back().key);
    kept_.pop_back();
  }
}

}  // namespace heapprof::serve
