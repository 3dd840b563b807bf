// Forks processes that allocate and free blocks of 16 to 2,015 bytes at random, at most 10,000 of them at once, from
// eight call sites: a tree of processes for the analyzer.
//
// many_processes PROCESSES EVENTS PARALLEL
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

namespace {

std::uint64_t state;

std::uint32_t next_random() {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<std::uint32_t>(state >> 33);
}

template <int kSite>
[[gnu::noinline]] void* allocate(std::size_t bytes) {
  void* const block = malloc(bytes + kSite % 7);
  *static_cast<volatile char*>(block) = kSite;
  return block;
}

constexpr void* (*kSites[])(std::size_t) = {allocate<0>, allocate<1>, allocate<2>, allocate<3>,
                                            allocate<4>, allocate<5>, allocate<6>, allocate<7>};
void* blocks[20'000];

void work(std::uint64_t number, std::uint64_t events) {
  state = number * 77'777 + 1;
  for (std::uint64_t event = 0; event < events; ++event) {
    const std::uint32_t random = next_random();
    void*& block = blocks[random % (1'000 + event * 19'000 / events)];
    if (block != nullptr) {
      free(block);
      block = nullptr;
    } else {
      block = kSites[(random >> 8) % 8](16 + (random >> 4) % 2'000);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: many_processes PROCESSES EVENTS PARALLEL\n"), 2;
  const int processes = std::atoi(argv[1]), parallel = std::atoi(argv[3]);
  const std::uint64_t events = std::strtoull(argv[2], nullptr, 10);
  for (int number = 0; number < processes; ++number) {
    if (number >= parallel) wait(nullptr);
    if (fork() == 0) {
      work(static_cast<std::uint64_t>(number), events);
      _exit(0);
    }
  }
  while (wait(nullptr) > 0) {
  }
}
