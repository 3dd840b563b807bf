#include "analyzer/push/name_lookup.h"

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace heapprof::push {
namespace {

struct Found {
  std::string error;
  std::vector<SocketAddress> addresses;
};

Found look_up(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_protocol = IPPROTO_TCP;
  addrinfo* list = nullptr;
  Found found;
  if (const int failed = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &list); failed != 0) {
    found.error = failed == EAI_SYSTEM ? std::generic_category().message(errno) : ::gai_strerror(failed);
    return found;
  }
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    SocketAddress address;
    address.size = std::min<socklen_t>(one->ai_addrlen, sizeof address.bytes);
    std::memcpy(&address.bytes, one->ai_addr, address.size);
    found.addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  if (found.addresses.empty()) found.error = "it has no IPv4 or IPv6 address";
  return found;
}

}  // namespace

struct NameLookup::State {
  State(std::string of_host, std::string of_port) : host(std::move(of_host)), port(std::move(of_port)) {}

  bool has_ended() {
    const std::lock_guard lock(mutex);
    return ended;
  }

  const std::string host;
  const std::string port;
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  Found found;  // does not change after it has ended
};

NameLookup::NameLookup(const std::string& host, const std::string& port) {
  static std::mutex mutex;
  static std::shared_ptr<State> latest;
  const std::lock_guard lock(mutex);
  if (latest == nullptr || latest->host != host || latest->port != port || latest->has_ended()) {
    const auto fresh = std::make_shared<State>(host, port);
    std::thread([fresh] {
      Found found = look_up(fresh->host, fresh->port);
      const std::lock_guard lock_of_state(fresh->mutex);
      fresh->found = std::move(found);
      fresh->ended = true;
      fresh->changed.notify_all();
    }).detach();
    latest = fresh;
  }
  state_ = latest;
}

bool NameLookup::wait_for(std::chrono::milliseconds time) const {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, time, [this] { return state_->ended; });
}

const std::string& NameLookup::error() const noexcept { return state_->found.error; }

const std::vector<SocketAddress>& NameLookup::addresses() const noexcept { return state_->found.addresses; }

}  // namespace heapprof::push
