// The web server of `heapprof serve`: HTTP/1.1 in one thread. Every answer is computed by another process
// (answers.h), so a slow question does not delay the others.
//
//   GET  /                      the page; with ?token=T once, which sets the cookie
//   GET  /api/                  the traces
//   GET  /api/COMMAND?...       what `heapprof COMMAND ... --json` prints (question.h)
//   GET  /api/progress          what is being computed, and how far it is
//   GET  /api/events            how far a running program is, twice a second (text/event-stream)
//   POST /api/control/ACTION    pause, resume, mark?text=T, snapshot
//   GET  /debug/pprof/heap, /debug/pprof/allocs?seconds=N, /metrics
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "analyzer/serve/answers.h"
#include "analyzer/serve/question.h"

namespace heapprof::serve {

struct ServerSettings {
  std::string address = "127.0.0.1";  ///< an IP address
  std::uint16_t port = 0;             ///< 0: any that is free
  Subject subject;
  std::string version;
  Answers::StateOf state_of;
  Answers::IndexWords index_words;
  std::function<bool(std::size_t trace)> is_running;
  /// Nanoseconds since the start of the recording.
  std::function<std::uint64_t(std::size_t trace)> elapsed_ns;
};

/// The server cannot listen. what() is a sentence.
class ServeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Server {
 public:
  /// Listens. Throws ServeError.
  explicit Server(ServerSettings settings);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const noexcept;
  /// Of the address, as a browser on this machine needs it: "127.0.0.1", "[::1]".
  std::string host() const;
  /// "http://127.0.0.1:1234/?token=..."
  std::string url() const;
  /// Whether the page was sent, so that a browser has it.
  bool has_sent_page() const noexcept;
  /// `ended` is called by run() after a child of this process has ended, also if that was before run(): the process
  /// of an answer, or one that the caller has started since the constructor. It must not wait.
  void on_end_of_child(std::function<void()> ended);
  /// Serves until SIGINT, SIGTERM or SIGHUP.
  void run();

  struct State;  // server.cpp

 private:
  std::unique_ptr<State> state_;
};

}  // namespace heapprof::serve
