// Leaks of different trends, and phases with different peaks. Prints its own figures as JSON.
//
// Live blocks at the end: a leak that grows until the end; a cache that is filled early and then stable; a ring whose
// blocks are replaced continuously; one large block from the start; a leak of a few bytes that grows until the end.
// Three phases, separated by marks, each have a peak from two call sites; that of the second phase is the highest. A
// second, idle thread makes the program multi-threaded.
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#include "preload/heapprof.h"
#include "tests/support/ledger.h"

#define SITE extern "C" [[gnu::noinline, gnu::used]]
#define KEEP_FRAME asm volatile("" ::: "memory")

namespace {

constexpr int kRounds = 480;
constexpr int kRing = 40;
constexpr int kMaxKept = 4096;

void* kept[kMaxKept];
int kept_count = 0;
void* ring[kRing];

char text[16384];
std::size_t used = 0;
[[gnu::format(printf, 1, 2)]] void append(const char* format, ...) {
  va_list values;
  va_start(values, format);
  used += static_cast<std::size_t>(vsnprintf(text + used, sizeof text - used, format, values));
  va_end(values);
}

std::uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void* idle(void*) {
  pause();
  return nullptr;
}

}  // namespace

SITE void* request_steady(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* request_cache(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* request_ring(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* request_once(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* request_trickle(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* request_red(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* request_blue(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}

namespace {

struct Held {
  void* block;
  std::size_t size;
  bool red;
};

/// The red and blue blocks that are live. Prints how many blocks and bytes of each there were at the phase's peak.
Held held[200];

void phase(const char* name, std::uint64_t seed, int most, bool last) {
  seed += ledger::added_seed();
  usleep(3000);
  heapprof_mark(name);
  usleep(3000);
  std::uint64_t red = 0, blue = 0, red_blocks = 0, blue_blocks = 0;
  for (const Held& one : held) {
    if (one.block == nullptr) continue;
    (one.red ? red : blue) += one.size;
    ++(one.red ? red_blocks : blue_blocks);
  }
  std::uint64_t peak = red + blue, peak_red = red, peak_blue = blue, peak_red_blocks = red_blocks,
                peak_blue_blocks = blue_blocks;
  for (int step = 0; step < 3000; ++step) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    Held& one = held[(seed >> 33) % static_cast<unsigned>(most)];
    const bool is_red = (seed >> 20) % 3 == 0;
    if (one.block != nullptr) {
      (one.red ? red : blue) -= one.size;
      --(one.red ? red_blocks : blue_blocks);
      free(one.block);
      one.block = nullptr;
      continue;
    }
    one = {nullptr, 1 + (seed >> 40) % 5000, is_red};
    one.block = is_red ? request_red(one.size) : request_blue(one.size);
    (is_red ? red : blue) += one.size;
    ++(is_red ? red_blocks : blue_blocks);
    if (red + blue <= peak) continue;
    peak = red + blue;
    peak_red = red;
    peak_blue = blue;
    peak_red_blocks = red_blocks;
    peak_blue_blocks = blue_blocks;
  }
  append("{\"name\": \"%s\", \"red\": [%llu, %llu], \"blue\": [%llu, %llu]}", name,
         static_cast<unsigned long long>(peak_red), static_cast<unsigned long long>(peak_red_blocks),
         static_cast<unsigned long long>(peak_blue), static_cast<unsigned long long>(peak_blue_blocks));
  if (!last) append(", ");
}

std::uint64_t steady_bytes = 0, second_half_blocks = 0, second_half_bytes = 0;

/// A round was between these.
struct Times {
  std::uint64_t before, after;
} first_round, last_round;

[[gnu::noinline]] void before_round(int round, std::size_t size) {
  if (round == kRounds / 2) {
    usleep(3000);
    heapprof_mark("half");
    usleep(3000);
  }
  last_round.before = now();
  steady_bytes += size;
  if (round < kRounds / 2) return;
  ++second_half_blocks;
  second_half_bytes += size;
}

[[gnu::noinline]] void after_round(int round) {
  last_round.after = now();
  if (round == 0) first_round = last_round;
}

/// Has one caller, in a loop that a compiler does not split by conditions: each call site has one stack.
[[gnu::noinline]] void one_round(int round, std::size_t size) {
  kept[kept_count++] = request_steady(size);
  if (round < kRounds / 20) kept[kept_count++] = request_cache(40'000);
  free(ring[round % kRing]);
  ring[round % kRing] = request_ring(300);
  if (round % 12 == 11) kept[kept_count++] = request_trickle(12);
  KEEP_FRAME;
}

}  // namespace

int main() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, idle, nullptr) != 0) return 2;
  append("{\"phases\": [");
  phase("first", 1, 80, false);
  phase("second", 2, 200, false);
  phase("third", 3, 120, true);
  usleep(3000);
  heapprof_mark("rounds");
  usleep(3000);
  for (Held& one : held) free(one.block);
  append("], ");

  kept[kept_count++] = request_once(1 << 20);
  for (int round = 0; round < kRounds; ++round) {
    const std::size_t size = 100 + static_cast<std::size_t>(round % 50);
    before_round(round, size);
    one_round(round, size);
    after_round(round);
    usleep(700);
  }
  // Free the older half of the ring, so that the remaining blocks are younger than some freed ones.
  for (int i = 0; i < kRing / 2; ++i) {
    void*& block = ring[(kRounds + i) % kRing];
    free(block);
    block = nullptr;
  }
  append("\"steady\": [%llu, %d], \"half\": [%llu, %llu], ", static_cast<unsigned long long>(steady_bytes), kRounds,
         static_cast<unsigned long long>(second_half_bytes), static_cast<unsigned long long>(second_half_blocks));
  append("\"first\": [%llu, %llu], \"last\": [%llu, %llu], ", static_cast<unsigned long long>(first_round.before),
         static_cast<unsigned long long>(first_round.after), static_cast<unsigned long long>(last_round.before),
         static_cast<unsigned long long>(last_round.after));
  append(
      "\"cache\": [%d, %d], \"ring\": [%d, %d], \"ring_released\": %d, \"once\": [%d, 1], "
      "\"trickle\": [%d, %d]}\n",
      kRounds / 20 * 40'000, kRounds / 20, kRing / 2 * 300, kRing / 2, kRounds - kRing / 2, 1 << 20,
      kRounds / 12 * 12, kRounds / 12);
  return write(1, text, used) == static_cast<ssize_t>(used) ? 0 : 1;
}
