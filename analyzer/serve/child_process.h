// Runs this program again, with other words on its command line, and reads what it prints.
//
// Each answer of the server is computed in a process of its own: a crash, or an answer that needs too much memory or
// time, ends that process only, and the output is that of the command line.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/serve/compact_json.h"

namespace heapprof::serve {

/// How a child is started.
struct ChildLimits {
  std::size_t output_bytes = 0;  ///< on standard output, of JSON without white space
  std::chrono::seconds time{0};  ///< 0: none
  bool stands = false;           ///< it answers again and again (standing_process.h), and reads request()
  bool is_json = false;          ///< the white space of its output is left out
};

/// What became of a child.
struct ChildResult {
  enum class End {
    kExited,
    kSignal,         ///< a signal that this program did not send
    kKilled,         ///< kill() was called
    kTooMuchOutput,  ///< it was killed
    kTooLong,        ///< it was killed
    kNotStarted,     ///< `error` has the reason
  };
  End end = End::kNotStarted;
  int code = 0;  ///< the exit status, or the number of the signal
  std::string output;
  std::string error;  ///< what it printed on standard error, at most 16 KB
};

/// How far a child is with what it does at the moment: the newest line that cli::ProgressLine printed.
struct ChildProgress {
  double share = 0;               ///< from 0 to 1
  std::uint64_t events = 0;       ///< that were read
  std::string what;               ///< "Reading trace.heapprof"
  nlohmann::ordered_json so_far;  ///< an object with sums of what was read; null: there are none
};

class ChildProcess : public std::enable_shared_from_this<ChildProcess> {
 public:
  using Done = std::function<void(ChildResult&&)>;
  /// Called with each piece of standard output. Then ChildResult::output stays empty and is not limited.
  using OnOutput = std::function<void(std::string_view)>;

  /// Starts the program with `words`. `done` is called once, later, from `context`. The child is killed when this
  /// process ends.
  static std::shared_ptr<ChildProcess> start(boost::asio::io_context& context, const std::vector<std::string>& words,
                                             const ChildLimits& limits, Done done, OnOutput on_output = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Of a child that stands: asks it to run a command.
  void request(const std::vector<std::string>& words) noexcept;
  /// Kills the child; `done` is called later.
  void kill();
  /// Gives other processes precedence over this one.
  void lower_priority() noexcept;
  const ChildProgress& progress() const noexcept { return progress_; }

 private:
  ChildProcess(boost::asio::io_context& context, const ChildLimits& limits, Done done, OnOutput on_output);
  void spawn(const std::vector<std::string>& words);
  void read_output();
  void read_error();
  void take_output(std::string_view piece);
  void take_error(std::string_view piece);
  void stop(ChildResult::End reason);
  void closed();

  ChildLimits limits_;
  Done done_;
  OnOutput on_output_;
  boost::asio::posix::stream_descriptor output_;
  boost::asio::posix::stream_descriptor error_;
  boost::asio::steady_timer timer_;
  int input_ = -1;  ///< of a child that stands: request() writes to it
  pid_t pid_ = -1;
  int open_ = 2;  ///< pipes that have not ended
  bool stopped_ = false;
  ChildResult result_;
  JsonCompactor compactor_;
  ChildProgress progress_;
  std::string unfinished_;  ///< the begin of a line on standard error
  char output_buffer_[64 * 1024];
  char error_buffer_[4 * 1024];
};

}  // namespace heapprof::serve
