// How far programs that run have come: one process for each trace that somebody watches prints two tables each
// second (`heapprof top --batch`), and every listener of that trace gets its main figures.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/serve/child_process.h"

namespace heapprof::serve {

class LiveEvents {
 public:
  using Id = std::uint64_t;
  /// `data`: {"events": N, "at_ns": T, "live_bytes": B, "live_blocks": N, "ended": bool}. After one with "ended":
  /// true there are no more.
  using Listener = std::function<void(const std::string& data, bool ended)>;

  LiveEvents(boost::asio::io_context& context, std::vector<std::string> traces);

  /// Calls `listener` about twice a second, and at once with what is known already.
  Id listen(std::size_t trace, Listener listener);
  /// When nobody listens to a trace any more, its process is killed.
  void leave(Id id);

 private:
  struct Figures {
    std::uint64_t events = 0;
    std::uint64_t at_ns = 0;
    std::uint64_t live_bytes = 0;
    std::uint64_t live_blocks = 0;
  };
  struct Watch {
    std::size_t trace = 0;
    std::shared_ptr<ChildProcess> child;
    std::map<Id, Listener> listeners;
    std::string unfinished;  ///< the beginning of a line
    Figures figures;
    bool has_figures = false;
  };

  static std::string data_of(const Figures& figures, bool ended);
  void start(const std::shared_ptr<Watch>& watch);
  void take(Watch& watch, std::string_view output);
  void publish(Watch& watch, bool ended);

  boost::asio::io_context& context_;
  const std::vector<std::string> traces_;
  Id last_id_ = 0;
  std::map<std::size_t, std::shared_ptr<Watch>> watches_;  ///< by trace
};

}  // namespace heapprof::serve
