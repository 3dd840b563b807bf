// The program that docs/guide.md records: a server with two worker threads. It never frees one session in ten, unless
// its second argument is "fixed".
//
//   g++ -g -O1 -I preload docs/examples/gateway.cpp -o gateway -pthread && ./gateway 10000
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "heapprof.h"

struct Session {
  std::string user;
  std::vector<char> history;
};

class SessionStore {
 public:
  explicit SessionStore(bool fixed) : fixed_(fixed) {}

  void open_session(int id) {
    auto session = std::make_unique<Session>();
    session->user = "user-" + std::to_string(id) + "@example.org";
    session->history.resize(900);
    std::lock_guard guard(mutex_);
    sessions_[id] = std::move(session);
  }

  void close_session(int id) {
    if (id % 10 == 0 && !fixed_) return;  // the leak
    std::lock_guard guard(mutex_);
    sessions_.erase(id);
  }

 private:
  bool fixed_;
  std::mutex mutex_;
  std::unordered_map<int, std::unique_ptr<Session>> sessions_;
};

/// A table that is filled at the start and kept: no leak.
struct RouteTable {
  std::vector<std::string> routes;
  RouteTable() {
    for (int i = 0; i < 2000; ++i) routes.push_back("/api/v1/tenants/" + std::to_string(i) + "/sessions");
  }
};

/// Grows its buffer by realloc, and frees it at the end of the request.
std::size_t read_request(int id) {
  std::size_t capacity = 64;
  char* buffer = static_cast<char*>(std::malloc(capacity));
  for (; capacity < 4096; capacity *= 2) buffer = static_cast<char*>(std::realloc(buffer, capacity * 2));
  std::memset(buffer, id, capacity);
  std::free(buffer);
  return capacity;
}

void serve(SessionStore& store, int first, int requests) {
  for (int i = first; i < first + requests; ++i) {
    read_request(i);
    store.open_session(i);
    if (i >= first + 50) store.close_session(i - 50);  // fifty sessions are open at a time
    if (i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

int main(int argc, char** argv) {
  const int requests = argc > 1 ? std::atoi(argv[1]) : 10000;
  const bool fixed = argc > 2 && std::string(argv[2]) == "fixed";
  static auto& routes = *new RouteTable;
  static auto& store = *new SessionStore(fixed);
  heapprof_mark("load begins");
  std::thread first(serve, std::ref(store), 0, requests);
  std::thread second(serve, std::ref(store), 1000000, requests);
  first.join();
  second.join();
  std::printf("%zu routes, %d requests served\n", routes.routes.size(), 2 * requests);
}
