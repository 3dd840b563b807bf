// Answers questions about a running program again and again, in one process that has replayed what was recorded so
// far. `serve` starts it (analyzer/serve/standing_process.h) with HEAPPROF_ANSWERS=standing and the words of one
// question, whose selection is that of all.
//
// A request on standard input is the words of a command line, each followed by a 0 byte, after a line with their
// bytes. The process replays what was recorded since the last one, and makes a copy of itself, which runs the
// command. It takes over the replay instead of reading the recording. The process itself writes what the copy printed
// to its standard output:
//
//   STATUS OUTPUT_BYTES ERROR_BYTES\n   the exit status of the copy, 128 + n if signal n ended it
//   its standard output, then its standard error
//
// It ends with its input, and when the program that is recorded has ended.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analyzer/replay/analysis/followed.h"

namespace heapprof::cli {

/// What a command sums of all events. The process sums for every command, since any may be asked for later.
class FollowedSums {
 public:
  virtual ~FollowedSums() = default;
  virtual void add(std::span<const replay::ProfileEvent> events) = 0;
};

template <typename Sums>
class FollowedSumsOf : public FollowedSums {
 public:
  explicit FollowedSumsOf(Sums sums) : sums_(std::move(sums)) {}
  void add(std::span<const replay::ProfileEvent> events) override {
    for (const replay::ProfileEvent& one : events) sums_.add(one);
  }
  Sums& sums() noexcept { return sums_; }

 private:
  Sums sums_;
};

std::unique_ptr<FollowedSums> new_churn_sums();
std::unique_ptr<FollowedSums> new_histogram_sums();
std::unique_ptr<FollowedSums> new_realloc_sums();
std::unique_ptr<FollowedSums> new_thread_sums();

/// How a copy runs the command of a request; returns the exit status. Set it first.
void set_command_runner(int (*run)(const std::vector<std::string>& words));

/// In the process that `serve` started: answers requests, and returns only in copies. There, the replay that the
/// first analysis takes over; null for others, and in other processes.
replay::Followed* followed_program(const std::string& trace, const replay::Selection& selection,
                                   const replay::Progress& progress);

std::span<const std::unique_ptr<FollowedSums>> all_followed_sums();
/// The sums up to the moment that an analysis took over. Null: no sums of this kind are kept.
template <typename Sums>
Sums* followed_sums() {
  for (const std::unique_ptr<FollowedSums>& one : all_followed_sums())
    if (auto* const found = dynamic_cast<FollowedSumsOf<Sums>*>(one.get())) return &found->sums();
  return nullptr;
}

}  // namespace heapprof::cli
