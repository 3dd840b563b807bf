// Memory that is lost, beside more memory that is not: what heapprof should name first is known. Prints the bytes and
// blocks that each function holds at the end, as JSON.
//
//   open_session   leaks a block a round, through a private allocator (take) that many functions call
//   fill_cache     a cache that is full after a tenth of the rounds
//   turn_over      a cache that replaces a block a round
//   grow_table     one table, enlarged by realloc
//   build_cycle    leaks objects of many kinds, through functions that also make temporary ones
//   descend        leaks below recursion of different depth
//
// Arguments: `killed`: ends by SIGKILL. `idle`: the load ends, and the program goes on for as long again.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#define SITE extern "C" [[gnu::noinline, gnu::used]]
#define KEEP_FRAME asm volatile("" ::: "memory")

namespace {

constexpr int kRounds = 600;
constexpr int kCycleRounds = 300;  // of kRounds
constexpr std::size_t kSession = 200;
constexpr std::size_t kCached = 20'000;
constexpr std::size_t kTurned = 20'000;
constexpr int kTurnedBlocks = 60;
constexpr std::size_t kPart = 64;

void* kept[16 * kRounds];
int kept_count = 0;
void* turned[kTurnedBlocks];
char* table = nullptr;
std::size_t table_bytes = 0;

void keep(void* block) { kept[kept_count++] = block; }

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

SITE void* take(std::size_t size) {
  void* const block = malloc(size);
  memset(block, 1, size);
  KEEP_FRAME;
  return block;
}

SITE void open_session() {
  keep(take(kSession));
  KEEP_FRAME;
}

SITE void fill_cache() {
  keep(malloc(kCached));
  KEEP_FRAME;
}

SITE void turn_over(int round) {
  free(turned[round % kTurnedBlocks]);
  turned[round % kTurnedBlocks] = malloc(kTurned);
  KEEP_FRAME;
}

SITE void grow_table() {
  table_bytes += 100;
  table = static_cast<char*>(realloc(table, table_bytes));
  KEEP_FRAME;
}

/// Functions that make objects: kept ones for build_cycle, and temporary ones for use_parts.
#define PART(n)                     \
  SITE void* make_part_##n() {      \
    void* const part = take(kPart); \
    KEEP_FRAME;                     \
    return part;                    \
  }
PART(1)
PART(2)
PART(3)
PART(4)
PART(5)
PART(6)
PART(7)
PART(8)

namespace {
void* (*const kMake[])() = {make_part_1, make_part_2, make_part_3, make_part_4,
                            make_part_5, make_part_6, make_part_7, make_part_8};
}

SITE void build_cycle() {
  for (const auto make : kMake) keep(make());
  KEEP_FRAME;
}

SITE void use_parts() {
  for (const auto make : kMake) free(make());
  KEEP_FRAME;
}

SITE void descend(int depth) {
  if (depth > 0) descend(depth - 1);
  else keep(malloc(50));
  KEEP_FRAME;
}

SITE void one_round(int round) {
  open_session();
  // The caches are full from the beginning: on a loaded machine the first rounds may take half of the time.
  for (int i = 0; round == 0 && i < kRounds / 10; ++i) fill_cache();
  for (int i = 0; round == 0 && i < kTurnedBlocks; ++i) turn_over(i);
  turn_over(round);
  grow_table();
  if (round % (kRounds / kCycleRounds) == 0) build_cycle();
  use_parts();
  if (round % 10 == 0) descend(1 + round / 10 % 12);
  usleep(300);
  KEEP_FRAME;
}

int main(int count, char** arguments) {
  const bool killed = count > 1 && strcmp(arguments[1], "killed") == 0;
  const bool idle = count > 1 && strcmp(arguments[1], "idle") == 0;
  const std::uint64_t begin = now_ns();
  for (int round = 0; round < kRounds; ++round) one_round(round);
  const std::uint64_t end_of_load = now_ns();
  printf(
      "{\"open_session\": [%zu, %d], \"fill_cache\": [%zu, %d], \"turn_over\": [%zu, %d], "
      "\"grow_table\": [%zu, 1], \"build_cycle\": [%zu, %d], \"descend\": [%d, %d]}\n",
      kRounds * kSession, kRounds, kRounds / 10 * kCached, kRounds / 10, kTurnedBlocks * kTurned, kTurnedBlocks,
      table_bytes, std::size_t{8} * kCycleRounds * kPart, 8 * kCycleRounds, kRounds / 10 * 50, kRounds / 10);
  fflush(stdout);
  if (killed) raise(SIGKILL);
  // By the clock: the sleeps of the rounds, which are shorter, take many times as long on a busy machine.
  while (idle && now_ns() - end_of_load < end_of_load - begin) {
    free(malloc(10));
    usleep(5000);
  }
  return 0;
}
