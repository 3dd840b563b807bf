// Marks between allocations: each block is allocated after one mark and before the next, so its time must be between
// theirs.
//
// usage: marks [other]     other: a second thread allocates, after the first one has set the mark
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>

#include "preload/heapprof.h"

namespace {

constexpr int kMarks = 200;
constexpr int kBusy = 20'000;  // blocks of 100 bytes before all marks, so that events share times

std::atomic<int> marks_set{0};
std::atomic<int> ready_for{0};
void* volatile kept;

void be_busy() {
  for (int i = 0; i < kBusy; ++i) {
    void* volatile block = malloc(100);
    free(block);
  }
}

/// Block N has 1000 + N bytes.
void allocate(int number) { kept = malloc(1000 + number); }

void* other(void*) {
  be_busy();
  ready_for = 1;
  for (int number = 1; number <= kMarks; ++number) {
    while (marks_set < number) sched_yield();
    allocate(number);
    ready_for = number + 1;
  }
  return nullptr;
}

}  // namespace

int main(int argc, char**) {
  const bool with_other = argc > 1;
  pthread_t thread;
  if (with_other && pthread_create(&thread, nullptr, other, nullptr) != 0) return 2;
  if (!with_other) be_busy();
  for (int number = 1; number <= kMarks; ++number) {
    while (with_other && ready_for < number) sched_yield();
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    heapprof_mark(text);
    if (with_other) marks_set = number;
    else allocate(number);
  }
  if (with_other) pthread_join(thread, nullptr);
  return 0;
}
