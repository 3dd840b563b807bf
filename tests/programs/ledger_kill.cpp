// Allocates until it is killed or ends itself.
//
// usage: ledger_kill NANOSECONDS [SEED] [THREADS] [HOW]
//
//   kill (default)                     a kernel timer sends SIGKILL, NANOSECONDS after the threads start, wherever
//                                      they are: in the program, the allocator, or the recorder. 0: another process
//                                      sends it
//   calls                              SIGKILL after NANOSECONDS calls of all threads together, independent of the
//                                      machine's load
//   segv abort _exit quick_exit exec   the main thread does that after NANOSECONDS, while the others continue
//   hog                                the threads allocate and write more and more memory, until the kernel kills
//                                      them or allocations fail; then _exit(3)
//
// A thread whose ledger is full waits for the end.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>

#include "tests/support/sites.h"

namespace {

constexpr std::uint32_t kEntries = 60'000;
constexpr std::size_t kTable = 64;
std::atomic<void*> table[kTable];
std::uint64_t seed;
bool hog = false;
std::atomic<int> failed{0};

[[gnu::noinline]] void step(ledger::Random& random, unsigned depth) {
  if (depth != 0) {
    step(random, depth - 1);
    asm volatile("" ::: "memory");
    return;
  }
  void* block = table[random.below(kTable)].exchange(nullptr);
  if (block == nullptr)
    block = random.below(3) == 0 ? site_calloc(1, 8 + random.below(500)) : site_small(8 + random.below(2000));
  else if (random.below(2) == 0) {
    // If it fails, the old block stays live.
    if (void* const moved = site_realloc_stamped(block, 8 + random.below(3000))) block = moved;
  }
  block = table[random.below(kTable)].exchange(block);
  if (block != nullptr) site_free_stamped(block);
}

void* run(void* argument) {
  ledger::attach("victim");
  ledger::Random random{seed * 1000 + reinterpret_cast<std::uint64_t>(argument)};
  while (ledger::this_slot->used + 8 < kEntries) {
    step(random, static_cast<unsigned>(random.below(20)));
    if (!hog) continue;
    constexpr std::size_t kHogBytes = 64 << 10;
    void* const block = site_large(kHogBytes);
    if (block != nullptr) memset(block, 1, kHogBytes);
    else if (++failed > 300) _exit(3);
  }
  for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t delay_ns = ledger::argument(argc, argv, 1, 1'000'000);
  seed = ledger::argument(argc, argv, 2, 1);
  const auto threads = static_cast<unsigned>(ledger::argument(argc, argv, 3, 3));
  mallopt(M_ARENA_MAX, 1);
  ledger::open(ledger::kSiteNames, threads + 1, kEntries);
  const char* const how = argc > 4 ? argv[4] : "kill";
  hog = ledger::out_of_addresses = strcmp(how, "hog") == 0;
  if (delay_ns != 0 && strcmp(how, "kill") == 0) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    timer_t timer;
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(delay_ns / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(delay_ns % 1'000'000'000);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &when, nullptr) != 0) {
      ledger::fail("ledger_kill: no timer");
      return 2;
    }
  }
  ledger::set_phase(ledger::Phase::kWorking);
  for (std::uint64_t i = 0; i < threads; ++i) {
    pthread_t handle;
    if (pthread_create(&handle, nullptr, run, reinterpret_cast<void*>(i)) != 0) return 2;
  }
  const timespec delay{static_cast<time_t>(delay_ns / 1'000'000'000), static_cast<long>(delay_ns % 1'000'000'000)};
  const auto is = [how](const char* name) { return strcmp(how, name) == 0; };
  if (is("calls")) {
    const auto calls_made = [] {
      ledger::Header& book = *ledger::book.header;
      std::uint64_t calls = 0;
      for (std::uint32_t i = 1; i < book.slots_used.load() && i < book.max_slots; ++i)
        calls += reinterpret_cast<ledger::Slot*>(reinterpret_cast<char*>(&book + 1) + i * book.slot_bytes)->used;
      return calls;
    };
    const timespec moment{0, static_cast<long>(1000 + seed % 30'000)};
    while (calls_made() < delay_ns) nanosleep(&moment, nullptr);
    kill(getpid(), SIGKILL);
  }
  if (!hog && !is("kill")) nanosleep(&delay, nullptr);
  if (is("segv")) *static_cast<volatile int*>(nullptr) = 1;
  if (is("abort")) abort();
  if (is("_exit")) _exit(7);
  if (is("quick_exit")) quick_exit(8);
  if (is("exec")) execl("/bin/true", "true", static_cast<char*>(nullptr));
  for (;;) pause();
}
