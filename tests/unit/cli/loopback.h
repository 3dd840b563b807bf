// Connections of the loopback interface, for tests of commands that serve or send.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace heapprof::test {

/// A TCP socket at 127.0.0.1. Reading from it, connecting and accepting take at most a minute.
class LoopbackSocket {
 public:
  /// `descriptor`: of a connection.
  explicit LoopbackSocket(int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
      : descriptor_(descriptor) {
    const timeval minute{60, 0};
    if (descriptor_ < 0) throw std::runtime_error("no socket");
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
    ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &minute, sizeof minute);
  }
  ~LoopbackSocket() { ::close(descriptor_); }
  LoopbackSocket(const LoopbackSocket&) = delete;
  LoopbackSocket& operator=(const LoopbackSocket&) = delete;

  int descriptor() const noexcept { return descriptor_; }

  /// Takes a port that is free, and returns it. Nobody can connect to it before listen().
  std::uint16_t bind() {
    sockaddr_in address = address_of(0);
    socklen_t bytes = sizeof address;
    if (::bind(descriptor_, as_any(address), bytes) != 0 || ::getsockname(descriptor_, as_any(address), &bytes) != 0)
      throw std::runtime_error("no port is free");
    return ntohs(address.sin_port);
  }
  void listen() {
    if (::listen(descriptor_, 1) != 0) throw std::runtime_error("cannot listen");
  }
  bool connect(std::uint16_t port) {
    sockaddr_in address = address_of(port);
    return ::connect(descriptor_, as_any(address), sizeof address) == 0;
  }

  void send(const std::string& text) {
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t more = ::send(descriptor_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) return;
      sent += static_cast<std::size_t>(more);
    }
  }
  /// What the other side sends until `is_enough(text)`, or until it sends nothing more.
  template <typename IsEnough>
  std::string receive(IsEnough&& is_enough) {
    std::string text;
    char piece[4096];
    while (!is_enough(text)) {
      const ssize_t more = ::recv(descriptor_, piece, sizeof piece, 0);
      if (more <= 0) break;
      text.append(piece, static_cast<std::size_t>(more));
    }
    return text;
  }

 private:
  static sockaddr_in address_of(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }
  static sockaddr* as_any(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

  const int descriptor_;
};

}  // namespace heapprof::test
