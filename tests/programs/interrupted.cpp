// A thread allocates and frees small blocks TIMES times. A signal handler does the same every 50 microseconds.
//
// usage: interrupted TIMES
//
// Prints how many blocks both allocated. The handler frees its block before it returns, so the interrupted allocator
// finds its lists unchanged.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

namespace {
volatile long handled = 0;

void handler(int) {
  void* volatile block = malloc(33);
  free(block);
  handled = handled + 1;
}
}  // namespace

int main(int argc, char** argv) {
  const long times = argc > 1 ? atol(argv[1]) : 1000;
  // Fill the thread's cache, so that no call below reaches an arena. With more than one block of each size: glibc
  // takes a block off its list before it counts it off, so a handler between the two would take a second one from an
  // empty list.
  constexpr int kBlocks = 4;
  for (int size = 1; size < 600; size += 8) {
    void* volatile blocks[kBlocks];
    for (void* volatile& block : blocks) block = malloc(static_cast<size_t>(size));
    for (void* const block : blocks) free(block);
  }
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 50}, {0, 50}};
  setitimer(ITIMER_REAL, &often, nullptr);
  for (long i = 0; i < times; ++i) {
    void* volatile block = malloc(static_cast<size_t>(i % 500));
    free(block);
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  char text[64];
  const int length = snprintf(text, sizeof text, "%ld\n", times + handled);
  fwrite(text, 1, static_cast<size_t>(length), stdout);
  return 0;
}
