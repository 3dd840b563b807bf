// Micro benchmark: malloc/free pairs at the bottom of a stack of a given depth. The frames are of different
// functions, so that return addresses vary, and the pairs have several call sites. Prints nanoseconds per pair of the
// fastest of five rounds.
//
//   pair DEPTH PAIRS [THREADS]      THREADS: of the process, 1 by default; all but one wait
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

volatile void* g_sink;
long g_pairs;
double g_best = 1e9;

[[gnu::noinline]] void site_a(std::size_t size) {
  void* p = std::malloc(size);
  g_sink = p;
  std::free(p);
}
[[gnu::noinline]] void site_b(std::size_t size) {
  void* p = std::malloc(size);
  g_sink = p;
  std::free(p);
}
[[gnu::noinline]] void site_c(std::size_t size) {
  void* p = std::malloc(size);
  g_sink = p;
  std::free(p);
}
[[gnu::noinline]] void site_d(std::size_t size) {
  void* p = std::malloc(size);
  g_sink = p;
  std::free(p);
}

void* wait_forever(void*) {
  for (;;) pause();
}

[[gnu::noinline]] void bottom() {
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (long i = 0; i < g_pairs; i += 4) {
      site_a(24 + (i & 0xff));
      site_b(100);
      site_c(16 + (i & 0x3f));
      site_d(500);
    }
    const auto end = std::chrono::steady_clock::now();
    g_best = std::min(g_best,
                      std::chrono::duration<double, std::nano>(end - begin).count() / static_cast<double>(g_pairs));
  }
}

template <int kKind>
[[gnu::noinline]] int descend(int depth) {
  volatile char frame[16 + kKind * 16];
  frame[0] = static_cast<char>(depth);
  if (depth <= 0) {
    bottom();
    return frame[0];
  }
  return (depth % 2 == 0 ? descend<(kKind + 1) % 7>(depth - 1) : descend<(kKind + 3) % 7>(depth - 1)) + frame[0];
}

}  // namespace

int main(int argc, char** argv) {
  const int depth = argc > 1 ? std::atoi(argv[1]) : 5;
  g_pairs = argc > 2 ? std::atol(argv[2]) : 1'000'000;
  for (int threads = argc > 3 ? std::atoi(argv[3]) : 1; threads > 1; --threads) {
    pthread_t waiting;
    if (pthread_create(&waiting, nullptr, wait_forever, nullptr) != 0) return 2;
  }
  // main, its callers in libc, bottom and the call site are about five frames.
  const int result = descend<0>(std::max(0, depth - 5));
  std::printf("%.2f\n", g_best);
  return result == -1;
}
