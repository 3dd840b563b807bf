// Calls five functions that allocate, each from 32,768 different stacks, and prints what each allocated as JSON.
//
//   keep        blocks that are not freed
//   discard     a block that is freed at once
//   grow        a block that is reallocated, then freed
//   hand_over   blocks that another thread frees at the end
//   sometimes   a block that is freed at once; from every 64th stack, one that is not freed
//
// A large block at the end of these calls makes the peak: the live blocks are then all of keep and hand_over, and the
// remaining ones of sometimes.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

#define SITE extern "C" [[gnu::noinline, gnu::used]]
#define KEEP_FRAME asm volatile("" ::: "memory")

namespace {

constexpr int kDepth = 15;
constexpr std::size_t kStacks = std::size_t{1} << kDepth;
constexpr std::size_t kKept = 64;
constexpr std::size_t kHandedOver = 48;
constexpr std::size_t kSometimes = 32;

void** handed_over;
std::size_t visited = 0;

}  // namespace

SITE void keep() {
  void* volatile block = malloc(kKept);
  (void)block;
  KEEP_FRAME;
}
SITE void discard() {
  void* volatile block = malloc(100);
  free(block);
  KEEP_FRAME;
}
SITE void grow() {
  void* volatile block = malloc(100);
  block = realloc(block, 200);
  free(block);
  KEEP_FRAME;
}
SITE void hand_over() {
  handed_over[visited] = malloc(kHandedOver);
  KEEP_FRAME;
}
SITE void sometimes() {
  void* volatile block = malloc(kSometimes);
  if (visited % 64 != 0) free(block);
  KEEP_FRAME;
}

SITE void descend(int depth) {
  if (depth == 0) {
    keep();
    discard();
    grow();
    hand_over();
    sometimes();
    ++visited;
    return;
  }
  descend(depth - 1);
  KEEP_FRAME;
  descend(depth - 1);
  KEEP_FRAME;
}

SITE void make_peak() {
  void* volatile block = malloc(kStacks * (kKept + kHandedOver));
  free(block);
  KEEP_FRAME;
}

int main() {
  handed_over = static_cast<void**>(calloc(kStacks, sizeof *handed_over));
  descend(kDepth);
  make_peak();
  std::thread([] {
    for (std::size_t i = 0; i < kStacks; ++i) free(handed_over[i]);
  }).join();
  free(handed_over);
  std::printf("{\"stacks\": %zu, \"keep\": %zu, \"hand_over\": %zu, \"sometimes\": %zu, \"sometimes_blocks\": %zu}\n",
              visited, visited * kKept, visited * kHandedOver, visited / 64 * kSometimes, visited / 64);
}
