// Looks up the addresses of a host, without waiting longer than its caller wants.
//
// getaddrinfo() cannot be cancelled, and takes as long as name servers are silent. That of Boost.Asio is called in a
// thread that the destructor of its io_context joins; so it ends in time, and is then waited for. Here the thread is
// detached: what it needs belongs to it, too, and the program can exit meanwhile. glibc's getaddrinfo_a() cannot
// cancel a request that has begun either, and musl does not have it.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace heapprof::push {

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

class NameLookup {
 public:
  /// Begins. If the latest lookup is of the same host and has not ended, this is that one, so that a program that
  /// tries again has one thread. Throws std::system_error if no thread can be started.
  NameLookup(const std::string& host, const std::string& port);

  /// Waits at most this long. False: it has not ended.
  bool wait_for(std::chrono::milliseconds time) const;
  /// Why no address was found; empty: some were. Precondition: wait_for() returned true.
  const std::string& error() const noexcept;
  /// In the order in which they should be tried. Precondition: as that of error().
  const std::vector<SocketAddress>& addresses() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace heapprof::push
