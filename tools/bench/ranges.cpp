// A program with many live blocks, for measurements of slices (ranges.py): it replaces a few of them all the time,
// and between two of these allocates and frees short-lived blocks. Each kind of block comes from 64 call stacks.
//
//   ranges EVENTS LIVE TURNOVER     TURNOVER: how many of the live blocks are replaced in each million events
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace {

using Allocate = void* (*)(std::size_t);

template <std::size_t kSite>
[[gnu::noinline]] void* allocate_at(std::size_t size) {
  void* const block = std::malloc(size + kSite);
  asm volatile("" : : "r"(block) : "memory");  // no tail call: each function is a frame
  return block;
}

template <std::size_t... kSites>
constexpr std::array<Allocate, sizeof...(kSites)> all_sites(std::index_sequence<kSites...>) {
  return {allocate_at<kSites>...};
}

constexpr auto kSites = all_sites(std::make_index_sequence<64>());

std::uint64_t random_number() {
  static std::uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

void* allocate() { return kSites[random_number() % kSites.size()](16 + random_number() % 200); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: ranges EVENTS LIVE TURNOVER\n");
    return 2;
  }
  const std::uint64_t events = std::strtoull(argv[1], nullptr, 10);
  std::vector<void*> live(std::strtoull(argv[2], nullptr, 10));
  const std::uint64_t turnover = std::strtoull(argv[3], nullptr, 10);
  std::uint64_t done = 0;
  for (void*& block : live) {
    block = allocate();
    ++done;
  }
  std::uint64_t replaced = 0;
  for (const std::uint64_t begin = done; done < events; done += 2) {
    if (replaced * 1'000'000 < (done - begin) * turnover) {
      void*& block = live[random_number() % live.size()];
      std::free(block);
      block = allocate();
      ++replaced;
    } else {
      std::free(allocate());
    }
  }
  return 0;
}
