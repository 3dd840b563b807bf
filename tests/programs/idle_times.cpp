// Alternates between short bursts of allocations and idle times. Prints as JSON the live bytes of each idle time.
//
// A burst takes less time than the interval between two samples of resident memory. The marks "idle N" and "busy N"
// are the start and the end of each idle time; "freeing N" precedes the last events before it.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/heapprof.h"

namespace {

constexpr int kBlocks = 1100;
constexpr unsigned long kBytes = 65'536;

void* blocks[kBlocks];

/// Frees or allocates until `count` blocks are live.
[[gnu::noinline]] void hold(int count) {
  for (int i = 0; i < kBlocks; ++i) {
    if (i < count && blocks[i] == nullptr) blocks[i] = malloc(kBytes);
    else if (i >= count && blocks[i] != nullptr) {
      free(blocks[i]);
      blocks[i] = nullptr;
    }
  }
}

void mark(const char* what, int number) {
  char text[32];
  snprintf(text, sizeof text, "%s %d", what, number);
  heapprof_mark(text);
}

/// Frees all but `count` blocks, and does nothing afterwards.
void free_and_be_idle(int count, int number) {
  mark("freeing", number);
  hold(count);
  mark("idle", number);
  usleep(300'000);
  mark("busy", number);
}

}  // namespace

int main() {
  char text[512];
  int used = snprintf(text, sizeof text, "{\"live\": [");
  int burst = 0;
  // Allocates up to 70 MiB and frees it at once, so that the last sample of resident memory is taken at the maximum.
  constexpr int kBursts[] = {kBlocks, 300, kBlocks};
  for (const int most : kBursts) {
    hold(most);
    used += snprintf(text + used, sizeof text - static_cast<unsigned>(used), "%s%lu", burst == 0 ? "" : ", ",
                     static_cast<unsigned long>(most - most / 3) * kBytes);
    free_and_be_idle(most - most / 3, burst++);
  }
  used +=
      snprintf(text + used, sizeof text - static_cast<unsigned>(used), ", 0], \"peak\": %lu}\n", kBlocks * kBytes);
  free_and_be_idle(0, burst);
  return write(1, text, static_cast<unsigned>(used)) == used ? 0 : 1;
}
