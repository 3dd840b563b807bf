// Leaks a block every half millisecond until SIGTERM; then exits with status 0.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>

namespace {
std::atomic<bool> stop{false};
void* volatile last;
}  // namespace

int main() {
  signal(SIGTERM, [](int) { stop = true; });
  (void)!write(1, "up\n", 3);
  while (!stop) {
    last = malloc(100);
    usleep(500);
  }
  return 0;
}
