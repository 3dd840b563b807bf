// The host of residency.py: touches memory, then measures how long mmap and munmap take in one thread while another
// one allocates, so that the recorder reads control requests and takes snapshots.
//
// usage: residency MEBIBYTES STEP SECONDS     every STEP-th page is touched, until MEBIBYTES are resident
//
// Prints "ready" when the memory is touched. In the end prints the number of calls of mmap, and the median, p99 and
// maximum of their times in microseconds.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  using Clock = std::chrono::steady_clock;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t pages = std::strtoul(argv[1], nullptr, 10) * (1 << 20) / page;
  const std::size_t step = std::strtoul(argv[2], nullptr, 10);
  auto* const memory = static_cast<char*>(
      mmap(nullptr, pages * step * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (memory == MAP_FAILED) return 1;
  madvise(memory, pages * step * page, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < pages; ++i) memory[i * step * page] = 1;

  std::vector<double> microseconds;
  microseconds.reserve(10'000'000);
  std::atomic<bool> over = false;
  std::thread allocating([&] {
    while (!over) {
      for (int i = 0; i < 1000; ++i) std::free(std::malloc(100));
      usleep(1000);
    }
  });
  std::puts("ready");
  std::fflush(stdout);
  const auto end = Clock::now() + std::chrono::seconds(std::atoi(argv[3]));
  while (Clock::now() < end && microseconds.size() < microseconds.capacity()) {
    const auto begin = Clock::now();
    void* const mapped = mmap(nullptr, 16 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    munmap(mapped, 16 * page);
    usleep(20);
  }
  over = true;
  allocating.join();
  std::sort(microseconds.begin(), microseconds.end());
  const std::size_t count = microseconds.size();
  std::printf("%zu %.1f %.1f %.1f\n", count, microseconds[count / 2], microseconds[count - 1 - count / 100],
              microseconds[count - 1]);
  return 0;
}
