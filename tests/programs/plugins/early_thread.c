/* A library whose constructor starts a thread, before the recorder's own constructor runs. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void* sleep_on(void* argument) {
  for (;;) sleep(1000);
  return argument;
}

__attribute__((constructor)) static void start(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, sleep_on, NULL) != 0) abort();
}

int early_thread(void) { return 1; }
