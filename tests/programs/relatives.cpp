// A parent and two forked children that allocate large blocks in turns, so that what all have together at each moment
// is known. Each step is done by one process while the others wait, and takes longer than a tick of the kernel's
// timer, by which the recordings of processes are ordered. Prints as JSON what was live in parent, A and B.
//
// All blocks have at least 100,000 bytes; nothing else that is allocated has.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

char* inherited;     // allocated by the parent before it forks
char* blocks[2];     // of this process
int to_child[2][2];  // pipes, by child
int from_child[2];

[[gnu::noinline]] char* allocate(unsigned long bytes) {
  char* const block = static_cast<char*>(malloc(bytes));
  block[0] = 1;
  return block;
}

void wait_a_tick() { usleep(25'000); }

[[noreturn]] void run_child(int child) {
  char step;
  while (read(to_child[child][0], &step, 1) == 1) {
    switch (step) {
      case 'a': blocks[0] = allocate(1'500'000); break;
      case 'b': blocks[0] = allocate(2'000'000); break;
      case 'c': free(blocks[0]); break;
      case 'd': blocks[1] = allocate(800'000); break;
      case 'e':
        blocks[1] = allocate(1'900'000);
        free(allocate(100'000));  // at once, so that both events may have one time
        break;
      case 'f': free(inherited); break;  // its own copy: the parent still has the block
      case 'g': blocks[0] = allocate(1'000'000); break;
      case 'x': exit(0);
    }
    if (write(from_child[1], &step, 1) != 1) break;
  }
  _exit(1);
}

int pids[2];

void send_step(int child, char step) {
  wait_a_tick();
  if (write(to_child[child][1], &step, 1) != 1) _exit(1);
  char done;
  if (step == 'x') waitpid(pids[child], nullptr, 0);
  else if (read(from_child[0], &done, 1) != 1) _exit(1);
  wait_a_tick();
}

}  // namespace

int main() {
  inherited = allocate(400'000);
  if (pipe(from_child) != 0) return 1;
  for (int child = 0; child < 2; ++child) {
    if (pipe(to_child[child]) != 0) return 1;
    pids[child] = fork();
    if (pids[child] == 0) run_child(child);
  }
  constexpr int kA = 0, kB = 1;
  //                    parent        A          B        all
  send_step(kA, 'a');  // 400,000  1,500,000          0  1,900,000
  send_step(kB, 'b');  // 400,000  1,500,000  2,000,000  3,900,000
  send_step(kB, 'c');  // 400,000  1,500,000          0  1,900,000
  send_step(kA, 'd');  // 400,000  2,300,000          0  2,700,000
  send_step(kA, 'f');  // the same
  send_step(kB, 'e');  // 400,000  2,300,000  2,000,000  4,700,000 at the peak of the sum
  send_step(kA, 'x');  // 400,000          0  1,900,000  2,300,000
  send_step(kB, 'g');  // 400,000          0  2,900,000  3,300,000
  send_step(kB, 'x');  // 400,000          0          0    400,000
  blocks[0] = allocate(600'000);
  free(inherited);
  printf(
      "{\"a\": %d, \"b\": %d, \"sum_peak\": 4700000, \"at_sum_peak\": [400000, 2300000, 2000000],\n"
      " \"peaks\": [1000000, 2300000, 2900000], \"leaked\": [600000, 2300000, 2900000]}\n",
      pids[0], pids[1]);
}
