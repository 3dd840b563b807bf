#include "preload/memory/own_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

using heapprof::memory::map_anonymous;
using heapprof::memory::own_alloc;
using heapprof::memory::own_free;
using heapprof::memory::unmap_anonymous;

namespace {

/// A block filled with a pattern of its own, so that an overlap shows.
struct Block {
  unsigned char* bytes;
  std::size_t size;
  unsigned char fill;
};

Block make(std::size_t size, unsigned char fill) {
  auto* bytes = static_cast<unsigned char*>(own_alloc(size));
  if (bytes != nullptr) std::memset(bytes, fill, size);
  return {bytes, size, fill};
}

bool intact(const Block& block) {
  for (std::size_t i = 0; i < block.size; ++i)
    if (block.bytes[i] != block.fill) return false;
  return true;
}

/// Allocates and frees at random; true when every block kept its content.
bool churn(unsigned seed, int rounds) {
  std::mt19937 random(seed);
  std::vector<Block> blocks;
  bool good = true;
  for (int i = 0; i < rounds; ++i) {
    if (blocks.size() < 200 && random() % 3 != 0) {
      const std::size_t size = random() % 64 == 0 ? random() % 400'000 : random() % 600;
      blocks.push_back(make(size, static_cast<unsigned char>(random())));
      const auto address = reinterpret_cast<std::uintptr_t>(blocks.back().bytes);
      good = good && address != 0 && address % 16 == 0;
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      good = good && intact(blocks.back());
      own_free(blocks.back().bytes);
      blocks.pop_back();
    }
  }
  for (const Block& block : blocks) {
    good = good && intact(block);
    own_free(block.bytes);
  }
  return good;
}

/// A line of /proc/self/smaps_rollup or status, in KB. Read without stdio, which takes memory itself; and not
/// statm, whose counters lag behind (linux/mm_types.h, percpu counters).
long memory_kb(const char* path, const char* name) {
  static char text[8192];
  const int file = open(path, O_RDONLY);
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  text[length > 0 ? length : 0] = '\0';
  const char* line = std::strstr(text, name);
  return line != nullptr ? std::atol(line + std::strlen(name)) : -1;
}

long addresses_kb() { return memory_kb("/proc/self/status", "VmSize:"); }
long dirty_kb() { return memory_kb("/proc/self/smaps_rollup", "Private_Dirty:"); }

}  // namespace

TEST_CASE("own memory: the first block takes little of the host", "[own_memory][kernel]") {
  // In a child, so that no other test has been there before.
  const pid_t child = fork();
  if (child == 0) {
    dirty_kb();  // touches what reading touches
    const long addresses_before = addresses_kb();
    const long dirty_before = dirty_kb();
    const bool made = own_alloc(100) != nullptr;
    const long dirty = dirty_kb() - dirty_before;
    const long addresses = addresses_kb() - addresses_before;
    std::printf("first block: %ld KB of addresses, %ld KB resident\n", addresses, dirty);
    std::fflush(stdout);
    _exit(made && dirty_before > 0 && addresses >= 4096 && addresses <= 8 * 1024 && dirty > 0 && dirty <= 256 ? 0
                                                                                                              : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(status == 0);
}

TEST_CASE("own memory: blocks keep their content", "[own_memory]") {
  REQUIRE(churn(1, 50'000));
  own_free(nullptr);
  REQUIRE(own_alloc(SIZE_MAX) == nullptr);
  REQUIRE(own_alloc(SIZE_MAX / 2) == nullptr);
  void* empty = own_alloc(0);
  REQUIRE(empty != nullptr);
  own_free(empty);
}

TEST_CASE("own memory: threads do not wait for each other", "[own_memory]") {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([&good, i] { good += churn(100 + i, 15'000) ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  REQUIRE(good == 4);
}

TEST_CASE("own memory: a block may be freed by another thread", "[own_memory]") {
  std::vector<Block> blocks;
  std::thread maker([&] {
    for (int i = 0; i < 1000; ++i) blocks.push_back(make(200, static_cast<unsigned char>(i)));
  });
  maker.join();
  for (const Block& block : blocks) {
    REQUIRE(intact(block));
    own_free(block.bytes);
  }
}

namespace {

std::atomic<int> g_interruptions{0};
std::atomic<bool> g_handler_failed{false};

/// Runs on top of whatever the program was doing, inside own_alloc too.
void allocate_in_handler(int) {
  const Block block = make(300, 0x5a);
  if (block.bytes == nullptr || !intact(block)) g_handler_failed = true;
  own_free(block.bytes);
  ++g_interruptions;
}

}  // namespace

TEST_CASE("own memory: signal handlers may allocate at any moment", "[own_memory]") {
  struct sigaction action {};
  struct sigaction old_action {};
  action.sa_handler = allocate_in_handler;
  sigaction(SIGALRM, &action, &old_action);
  itimerval every{{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &every, nullptr);
  bool good = true;
  for (unsigned seed = 0; good && g_interruptions < 200; ++seed) good = churn(seed, 5'000);
  every = {};
  setitimer(ITIMER_REAL, &every, nullptr);
  sigaction(SIGALRM, &old_action, nullptr);
  REQUIRE(good);
  REQUIRE_FALSE(g_handler_failed);
  REQUIRE(g_interruptions >= 200);
}

TEST_CASE("own memory: a forked child goes on, whatever other threads were doing", "[own_memory]") {
  std::atomic<bool> stop{false};
  std::thread busy([&stop] {
    for (unsigned seed = 0; !stop; ++seed) churn(seed, 100);
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a child that waits for the lost lock dies, and the test fails
      bool good = true;
      for (int k = 0; k < 20; ++k) {
        const Block block = make(100, 1);
        good = good && block.bytes != nullptr && intact(block);
        own_free(block.bytes);
      }
      _exit(good ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  stop = true;
  busy.join();
}

TEST_CASE("own memory: pages are zero and come back", "[own_memory]") {
  auto* memory = static_cast<unsigned char*>(map_anonymous(10'000));
  REQUIRE(memory != nullptr);
  REQUIRE(reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0);
  for (int i = 0; i < 10'000; ++i) REQUIRE(memory[i] == 0);
  unmap_anonymous(memory, 10'000);
}
