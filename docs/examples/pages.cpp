// The program of "Compare two moments of a recording" in docs/guide.md: a server with a cache, which keeps the pages
// that were read last, and an audit log, which keeps a record of every request and is never written out.
//
//   g++ -g -O1 -I preload docs/examples/pages.cpp -o pages && ./pages
//
// It serves five requests in each of 3500 steps, and marks the recording after 1000 and 2500 steps. Its argument is
// how long a step takes, in microseconds (default 1000).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "heapprof.h"

constexpr std::size_t kPages = 4352;  // 17 MiB
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kRecordBytes = 1000;

class PageCache {
 public:
  void read_page(int id) {
    pages_.push_back(std::make_unique<std::vector<char>>(kPageBytes, static_cast<char>(id)));
    if (pages_.size() > kPages) pages_.pop_front();
  }

 private:
  std::deque<std::unique_ptr<std::vector<char>>> pages_;
};

class AuditLog {
 public:
  void add_record(int id) { records_.push_back(std::string(kRecordBytes - 1, static_cast<char>('a' + id % 26))); }

 private:
  std::deque<std::string> records_;  // the leak: nothing removes a record
};

int main(int argc, char** argv) {
  const auto step = std::chrono::microseconds(argc > 1 ? std::atoi(argv[1]) : 1000);
  static auto& cache = *new PageCache;
  static auto& log = *new AuditLog;
  const auto begin = std::chrono::steady_clock::now();
  int requests = 0;
  for (int i = 0; i < 3500; ++i) {
    if (i == 1000) heapprof_mark("first");
    if (i == 2500) heapprof_mark("second");
    for (int request = 0; request < 5; ++request) {
      cache.read_page(requests);
      log.add_record(requests++);
    }
    std::this_thread::sleep_until(begin + i * step);
  }
  std::printf("%d requests served\n", requests);
}
