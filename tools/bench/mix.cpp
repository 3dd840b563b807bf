// What C++ servers do with the heap: maps of strings, vectors that grow, shared objects, callbacks.
//
//   mix THREADS ROUNDS
//
// Each thread does ROUNDS rounds with a table of its own; a tenth of the objects goes to a table that all threads
// share, so that blocks are freed by other threads than those that allocated them. Prints rounds per second.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

struct Session {
  std::string user;
  std::vector<std::string> requests;
  std::map<std::string, std::shared_ptr<std::string>> headers;
  std::function<std::size_t()> size;
};

class Exchange {
 public:
  std::unique_ptr<Session> swap(std::size_t place, std::unique_ptr<Session> session) {
    Shard& shard = shards_[place % shards_.size()];
    const std::lock_guard lock(shard.mutex);
    std::swap(shard.sessions[place / shards_.size() % shard.sessions.size()], session);
    return session;
  }

 private:
  struct Shard {
    std::mutex mutex;
    std::array<std::unique_ptr<Session>, 16> sessions;
  };
  std::array<Shard, 16> shards_;
};

std::unique_ptr<Session> make_session(std::uint32_t number) {
  auto session = std::make_unique<Session>();
  session->user = "user number " + std::to_string(number);
  const auto shared = std::make_shared<std::string>("text/html; charset=" + std::to_string(number % 10));
  for (std::uint32_t i = 0; i < 3 + number % 5; ++i) {
    session->requests.push_back("/path/to/page/" + std::to_string(number * 31 + i));
    session->headers["header-of-request-" + std::to_string(i)] = shared;
  }
  session->size = [copy = session->requests, shared] { return copy.size() + shared->size(); };
  return session;
}

std::size_t work(std::uint32_t seed, std::uint32_t rounds, Exchange& exchange) {
  std::unordered_map<std::uint32_t, std::unique_ptr<Session>> sessions;
  std::size_t sum = 0;
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    state = state * 1664525 + 1013904223;
    const std::uint32_t number = state >> 12;
    auto session = make_session(number);
    sum += session->size();
    if (number % 10 == 0) session = exchange.swap(number, std::move(session));
    if (session) sessions[number % 2000] = std::move(session);
    if (number % 3 == 0) sessions.erase(number / 3 % 2000);
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto threads = static_cast<std::uint32_t>(std::atoi(argv[1]));
  const auto rounds = static_cast<std::uint32_t>(std::atoi(argv[2]));
  Exchange exchange;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> running;
  for (std::uint32_t i = 1; i < threads; ++i)
    running.emplace_back([&exchange, i, rounds] { work(i, rounds, exchange); });
  const std::size_t sum = work(0, rounds, exchange);
  for (std::thread& thread : running) thread.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%.0f\n", threads * rounds / seconds.count());
  return sum == 0 ? 1 : 0;
}
