// Bursts of allocations with pauses between them: an event after a pause must have a time after the pause.
//
// usage: pauses [idle]     idle: with a second, idle thread
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

namespace {

constexpr int kBlocks = 45;
constexpr int kRounds = 6;

void* idle(void*) {
  pause();
  return nullptr;
}

}  // namespace

int main(int argc, char**) {
  pthread_t thread;
  if (argc > 1 && pthread_create(&thread, nullptr, idle, nullptr) != 0) return 2;
  void* blocks[kBlocks];
  for (int i = 0; i < 3000; ++i) {  // so that events share times
    void* volatile block = malloc(100);
    free(block);
  }
  for (int round = 0; round < kRounds; ++round) {
    for (void*& block : blocks) block = malloc(7777);
    usleep(60'000);
    for (void* block : blocks) free(block);
  }
  return 0;
}
