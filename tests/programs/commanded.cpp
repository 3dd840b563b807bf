// Does what each character of its standard input says, and answers each with '.', when it is done:
//
//   a   allocates 10 blocks of 1000 bytes in grow_first()
//   b   allocates 5 blocks of 200 bytes in grow_second()
//   f   frees the newest block of grow_first()
//   r   reallocates the newest block of grow_first() to 5000 bytes in resize()
//   t   starts the thread "worker", which allocates 7 blocks of 3000 bytes in grow_in_thread() and waits
//   o   forks a child that allocates 4 blocks of 700 bytes in grow_first() and exits
//
// The end of the input ends the program with status 0.
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

void* first[100'000];
int first_count = 0;
void* volatile kept;

}  // namespace

extern "C" {

[[gnu::noinline]] void grow_first(int count, int size) {
  for (int i = 0; i < count; ++i) first[first_count++] = malloc(size);
}

[[gnu::noinline]] void grow_second() {
  for (int i = 0; i < 5; ++i) kept = malloc(200);
}

[[gnu::noinline]] void resize() { first[first_count - 1] = realloc(first[first_count - 1], 5000); }

[[gnu::noinline]] void grow_in_thread() {
  for (int i = 0; i < 7; ++i) kept = malloc(3000);
}

}  // extern "C"

namespace {

void answer() {
  if (write(1, ".", 1) != 1) _exit(3);
}

void* work(void*) {
  pthread_setname_np(pthread_self(), "worker");
  grow_in_thread();
  answer();
  for (;;) pause();
}

void start_worker() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, work, nullptr) != 0) _exit(2);
}

void fork_child() {
  const pid_t child = fork();
  if (child == 0) {
    grow_first(4, 700);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  answer();
}

}  // namespace

int main() {
  for (char command = 0; read(0, &command, 1) == 1;) {
    switch (command) {
      case 'a': grow_first(10, 1000); break;
      case 'b': grow_second(); break;
      case 'f': free(first[--first_count]); break;
      case 'r': resize(); break;
      case 't': start_worker(); continue;
      case 'o': fork_child(); continue;
      default: return 2;
    }
    answer();
  }
  return 0;
}
