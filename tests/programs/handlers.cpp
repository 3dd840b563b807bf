// Signal handlers that are hard for a recorder, in a program that keeps a ledger.
//
// usage: handlers MODE [NUMBER] [kill]     kill: ends by SIGKILL
//
//   longjmp TIMES     the handler calls siglongjmp whenever it interrupted the recorder
//   jumpstep ROUNDS   siglongjmp at each of the first 700 instructions of a call in the recorder; each round takes
//                     every ROUNDS-th
//   jumpfirst STEPS   siglongjmp out of a thread's first event, at its first instruction in the recorder; in other
//                     threads at every third instruction up to STEPS. Then each allocates 20 blocks of 55 bytes
//   fork CHILDREN     the handler forks. The child sleeps, returns into the interrupted call and continues, while the
//                     parent is far ahead and is then killed
//   forkstep FIRST    forks at every second instruction of a call in the recorder, from FIRST. The children return
//                     when the parent is far ahead
//   allocstep ROUNDS  allocates and frees at every instruction of the recorder, blocks of 44 bytes as the interrupted
//                     calls. Prints the number of all allocations
//   allocstep-threads ROUNDS
//                     the same, beside a thread that allocates blocks of 99 bytes
//   swapstep STRIDE   a fiber is preempted at every STRIDE-th instruction of a call in the recorder: the handler
//                     swaps to a fiber whose stack has higher addresses, which allocates blocks of 44 bytes too, and
//                     swaps back. Prints the number of all allocations
//   diestep THREADS   threads whose handler calls pthread_exit at an instruction of the recorder, each later than the
//                     previous one; one of four in its first event, the others in an event that takes a sample. Then
//                     the main thread allocates a block of 77 bytes and, every 12 ms, ten of 55. Prints the number of
//                     threads that died
//   altstack BYTES    handlers that allocate on an alternate signal stack of this size
//   deep TIMES        handlers that interrupt handlers, eight deep, each of which allocates
//
// The modes with "step" and jumpfirst need x86-64's trap flag. A handler may call siglongjmp only where it
// interrupted the recorder: inside malloc itself this would corrupt the allocator. Without a recorder, no handler
// calls it.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "tests/support/sites.h"

namespace {

std::uint64_t recorder_begin = 0, recorder_end = 0;
sigjmp_buf before_call;
volatile sig_atomic_t may_jump = 0;
volatile long jumps = 0;

/// Finds where the recorder's code is mapped. Without a recorder, the range is empty.
void find_recorder_code() {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  while (maps != nullptr && fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin, end;
    if (strstr(line, "libheapprof.so") == nullptr || strstr(line, "r-x") == nullptr) continue;
    if (sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    recorder_begin = begin;
    recorder_end = end;
  }
  if (maps != nullptr) fclose(maps);
}

bool in_recorder(void* context) {
#ifdef __aarch64__
  const std::uint64_t pc = static_cast<ucontext_t*>(context)->uc_mcontext.pc;
#else
  const auto pc = static_cast<std::uint64_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#endif
  return pc >= recorder_begin && pc < recorder_end;
}

void start_timer(unsigned microseconds) {
  const itimerval interval{{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_REAL, &interval, nullptr);
}

void handle(void (*handler)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_RESTART | flags;
  sigaction(SIGALRM, &action, nullptr);
}

/// Consecutive sizes differ, so that an abandoned call is not mistaken for a later one.
std::size_t next_size() {
  static std::size_t count = 0;
  return 16 + ++count % 4'000;
}

volatile sig_atomic_t stepping = 0;
volatile bool trap_next_call = false;

/// Execution traps after each instruction from here on: raise(SIGTRAP) with a handler that sets the trap flag does
/// the same, but steps through its own return first. A step takes some microseconds.
void set_trap_flag() {
#ifdef __x86_64__
  asm volatile("lea -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::: "memory");
#endif
}

/// One call, `depth` frames deeper. Each depth and call site has its own stack. With trap_next_call, only the call
/// itself is stepped through.
[[gnu::noinline]] void step(ledger::Random& random, void*& block, unsigned depth) {
  if (depth != 0) {
    step(random, block, depth - 1);
    asm volatile("" ::: "memory");
    return;
  }
  if (trap_next_call) {
    trap_next_call = false;
    stepping = 1;
    set_trap_flag();
  }
  if (block == nullptr) block = random.below(2) == 0 ? site_malloc(next_size()) : site_calloc(1, next_size());
  else if (random.below(2) == 0) block = site_realloc(block, next_size());
  else {
    void* const old = block;
    block = nullptr;
    site_free(old);
  }
  stepping = 0;
}

void jump_out(int, siginfo_t*, void* context) {
  if (may_jump == 0 || !in_recorder(context)) return;
  may_jump = 0;
  jumps = jumps + 1;
  siglongjmp(before_call, 1);
}

int jump_at_random(std::uint64_t times) {
  static ledger::Random random{42};
  static void* blocks[64];
  static volatile std::uint64_t done = 0;
  handle(jump_out);
  start_timer(130);
  while (done < times) {
    const std::size_t which = random.below(64);
    // After a jump it is unknown whether the call completed: the block leaks.
    if (sigsetjmp(before_call, 1) != 0) blocks[which] = nullptr;
    may_jump = 1;
    step(random, blocks[which], static_cast<unsigned>(random.below(30)));
    may_jump = 0;
    done = done + 1;
  }
  start_timer(0);
  printf("%ld\n", jumps);
  return 0;
}

volatile long children = 0;
long children_wanted = 0;
bool in_child = false;

/// Makes the ledger private in a child: the interrupted call writes its result, which the parent must not get.
void make_ledger_private() {
  const ledger::Header& book = *ledger::book.header;
  mmap(ledger::book.header, sizeof book + book.slot_bytes * book.max_slots, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/// Waits for the children. Returns how many failed.
int failed_children() {
  int failed = 0;
  static char how[64];
  for (;;) {
    int status = 0;
    const pid_t child = waitpid(-1, &status, 0);
    if (child < 0 && errno == ECHILD) break;
    if (child < 0 || status == 0) continue;
    ++failed;
    snprintf(how, sizeof how, "a child ended with wait status %#x", static_cast<unsigned>(status));
  }
  if (failed != 0) ledger::fail(how);
  return failed;
}

void fork_here(int, siginfo_t*, void* context) {
  if (in_child || children >= children_wanted || !in_recorder(context)) return;
  children = children + 1;
  if (fork() != 0) return;
  in_child = true;
  start_timer(0);
  make_ledger_private();
  usleep(30'000);
  if (children % 2 == 0) free(malloc(44));  // the child's first event occurs while it is still inside the recorder
}

int fork_in_handler(std::uint64_t wanted) {
  ledger::Random random{7};
  static void* blocks[64];
  children_wanted = static_cast<long>(wanted);
  handle(fork_here);
  start_timer(100);
  for (long i = 0; children < children_wanted || i < 30'000; ++i) {
    if (in_child && i % 1000 == 0) break;
    // A child does not use the ledger, which it shares with its parent.
    if (in_child) free(malloc(50));
    else step(random, blocks[random.below(64)], static_cast<unsigned>(random.below(10)));
  }
  if (in_child) {
    for (int i = 0; i < 2000; ++i) free(malloc(66));
    _exit(0);
  }
  start_timer(0);
  return failed_children();
}

#ifdef __x86_64__
volatile long steps_left = 0;  // instructions in the recorder until the handler acts
int parent_is_ahead[2];        // a pipe: the children return when the parent closes it

void fork_at_step(int, siginfo_t*, void* context) {
  constexpr greg_t kTrapFlag = 0x100;
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  if (stepping != 0) {
    if (in_recorder(context)) steps_left = steps_left - 1;
    if (steps_left > 0) {
      flags |= kTrapFlag;
      return;
    }
  }
  flags &= ~kTrapFlag;
  if (stepping == 0) return;
  stepping = 0;
  children = children + 1;
  if (fork() != 0) return;
  in_child = true;
  make_ledger_private();
  close(parent_is_ahead[1]);
  char none;
  read(parent_is_ahead[0], &none, 1);
  if (children % 2 == 0) free(malloc(44));
}

int fork_at_each_step(long first) {
  if (pipe(parent_is_ahead) != 0) return 3;
  struct sigaction action {};
  action.sa_sigaction = fork_at_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  // One call of each kind. A usual event has some 400 instructions.
  for (long at = first; at < 500 && !in_child; at += 2) {
    void* block = nullptr;
    for (int kind = 0; kind < 3 && !in_child; ++kind) {
      steps_left = at;
      stepping = 1;
      raise(SIGTRAP);
      if (kind == 0) block = site_malloc(next_size());
      if (kind == 1) block = site_realloc(block, next_size());
      if (kind == 2) site_free(block);
      stepping = 0;
      raise(SIGTRAP);  // clears the trap flag if the call ended earlier
    }
  }
  if (in_child) {
    for (int i = 0; i < 500; ++i) free(malloc(66));
    _exit(0);
  }
  // The parent has written the children's block as a frame, and reuses its memory for other events.
  for (int i = 0; i < 500; ++i) site_free(site_malloc(next_size()));
  close(parent_is_ahead[1]);
  printf("%ld\n", children);
  fflush(stdout);
  return failed_children();
}

volatile long allocated = 0;
void* kept = nullptr;  // a block that one handler allocated and another one frees

void allocate_at_step(int, siginfo_t*, void* context) {
  constexpr greg_t kTrapFlag = 0x100;
  static ledger::Random random{11};
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  if (stepping > 0) flags |= kTrapFlag;
  else flags &= ~kTrapFlag;
  if (stepping <= 0 || !in_recorder(context)) return;
  if (random.below(2) == 0) {
    void* volatile block = malloc(44);
    allocated = allocated + 1;
    if (random.below(4) == 0) block = realloc(block, 440);
    free(block);
  } else if (kept == nullptr) {
    kept = malloc(44);
    allocated = allocated + 1;
  } else {
    free(kept);
    kept = nullptr;
  }
}

void jump_at_step(int, siginfo_t*, void* context) {
  constexpr greg_t kTrapFlag = 0x100;
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  if (stepping != 0 && in_recorder(context)) steps_left = steps_left - 1;
  if (stepping != 0 && steps_left > 0) {
    flags |= kTrapFlag;
    return;
  }
  flags &= ~kTrapFlag;
  if (stepping == 0) return;
  stepping = 0;
  jumps = jumps + 1;
  siglongjmp(before_call, 1);
}

int jump_at_each_step(std::uint64_t rounds) {
  static ledger::Random random{23};
  static void* blocks[64];
  static volatile long at = 0;
  static volatile std::uint64_t round = 0;
  struct sigaction action {};
  action.sa_sigaction = jump_at_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  for (; round < rounds; round = round + 1)
    for (at = 1 + static_cast<long>(round); at < 700; at = at + static_cast<long>(rounds)) {
      const std::size_t which = random.below(64);
      const auto depth = static_cast<unsigned>(random.below(30));
      if (sigsetjmp(before_call, 1) == 0) {
        steps_left = at;
        trap_next_call = true;
        step(random, blocks[which], depth);
      } else {
        blocks[which] = nullptr;
      }
      // The next call must find a consistent state.
      step(random, blocks[random.below(64)], depth);
    }
  printf("%ld\n", jumps);
  return 0;
}

void* jump_out_of_first_event(void* argument) {
  if (sigsetjmp(before_call, 1) == 0) {
    steps_left = reinterpret_cast<long>(argument);
    stepping = 1;
    raise(SIGTRAP);
    free(malloc(44));
    stepping = 0;
    raise(SIGTRAP);
  }
  for (int i = 0; i < 20; ++i) free(malloc(55));
  return nullptr;
}

/// Creates a thread for every third instruction of a thread's first event.
int jump_out_of_first_events(std::uint64_t rounds) {
  struct sigaction action {};
  action.sa_sigaction = jump_at_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  for (long at = 1; at < static_cast<long>(rounds); at += 3) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, jump_out_of_first_event, reinterpret_cast<void*>(at)) != 0) return 3;
    pthread_join(thread, nullptr);
  }
  printf("%ld\n", jumps);
  return 0;
}

void* allocate_beside(void*) {
  sigset_t traps;
  sigemptyset(&traps);
  sigaddset(&traps, SIGTRAP);
  pthread_sigmask(SIG_BLOCK, &traps, nullptr);
  while (stepping >= 0) {
    for (int i = 0; i < 1000; ++i) free(malloc(99));
    usleep(1000);
  }
  return nullptr;
}

int allocate_at_each_step(std::uint64_t rounds, bool threads) {
  pthread_t thread;
  if (threads && pthread_create(&thread, nullptr, allocate_beside, nullptr) != 0) return 3;
  struct sigaction action {};
  action.sa_sigaction = allocate_at_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  stepping = 1;
  raise(SIGTRAP);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    void* volatile block = malloc(44);
    free(block);
    block = calloc(1, 44);
    block = realloc(block, 20);  // does not move
    block = realloc(block, 44);
    free(block);
    block = realloc(nullptr, 44);
    block = realloc(block, 440);  // moves: a handler may get the old block
    free(block);
    allocated = allocated + 4;
  }
  stepping = 0;
  raise(SIGTRAP);
  stepping = -1;
  if (threads) pthread_join(thread, nullptr);
  free(kept);
  printf("%ld\n", allocated);
  return 0;
}

ucontext_t low_fiber, high_fiber;
volatile bool low_fiber_ended = false;

void swap_at_step(int, siginfo_t*, void* context) {
  constexpr greg_t kTrapFlag = 0x100;
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  if (stepping != 0 && in_recorder(context)) steps_left = steps_left - 1;
  if (stepping != 0 && steps_left > 0) {
    flags |= kTrapFlag;
    return;
  }
  flags &= ~kTrapFlag;
  if (stepping == 0) return;
  stepping = 0;
  jumps = jumps + 1;
  swapcontext(&low_fiber, &high_fiber);
}

long stride = 1;

void run_preempted_calls() {
  for (long at = 1; at < 700; at += stride) {
    void* volatile block = nullptr;
    for (int kind = 0; kind < 3; ++kind) {
      steps_left = at + kind;
      stepping = 1;
      raise(SIGTRAP);
      if (kind == 0) block = malloc(44);
      if (kind == 1) block = realloc(block, 440);
      if (kind == 2) free(block);
      stepping = 0;
      raise(SIGTRAP);  // clears the trap flag if the call ended earlier
    }
    allocated = allocated + 1;
  }
}

void run_low_fiber() {
  run_preempted_calls();
  low_fiber_ended = true;
}

int preempt_at_steps(std::uint64_t steps_between) {
  static char stack[256 << 10];
  struct sigaction action {};
  action.sa_sigaction = swap_at_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  if (reinterpret_cast<char*>(&action) < stack) return 3;  // the main stack has lower addresses
  stride = static_cast<long>(steps_between);
  getcontext(&low_fiber);
  low_fiber.uc_stack.ss_sp = stack;
  low_fiber.uc_stack.ss_size = sizeof stack;
  low_fiber.uc_link = &high_fiber;
  makecontext(&low_fiber, run_low_fiber, 0);
  // Usually two blocks; every tenth time enough to fill a block of the stream.
  for (long count = 0; swapcontext(&high_fiber, &low_fiber) == 0 && !low_fiber_ended; ++count)
    for (int i = count % 10 == 0 ? 200 : 2; i > 0; --i) {
      void* volatile block = malloc(44);
      allocated = allocated + 1;
      free(block);
    }
  printf("%ld\n", allocated);
  return jumps > 150 ? 0 : 3;
}

volatile long deaths = 0;
void die_at_step(int, siginfo_t*, void* context) {
  constexpr greg_t kTrapFlag = 0x100;
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  if (stepping != 0 && in_recorder(context)) steps_left = steps_left - 1;
  if (stepping != 0 && steps_left > 0) {
    flags |= kTrapFlag;
    return;
  }
  flags &= ~kTrapFlag;
  if (stepping == 0) return;
  stepping = 0;
  deaths = deaths + 1;
  pthread_exit(nullptr);
}

std::uint64_t milliseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

/// Waits longer than the interval between two samples.
void wait_for_sample_interval() {
  const std::uint64_t begin = milliseconds();
  while (milliseconds() - begin < 12) continue;
}

constexpr long kNever = 1 << 30;
bool in_first_event = false;

void* die_in_event(void* argument) {
  if (!in_first_event) {
    free(malloc(44));
    wait_for_sample_interval();
  }
  steps_left = reinterpret_cast<long>(argument);
  stepping = 1;
  raise(SIGTRAP);
  free(malloc(44));
  stepping = 0;
  raise(SIGTRAP);
  return nullptr;
}

/// Returns the number of instructions executed.
long run_until_death(long at) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, die_in_event, reinterpret_cast<void*>(at)) != 0) return 0;
  pthread_join(thread, nullptr);
  return at - steps_left;
}

int die_in_events(long threads) {
  struct sigaction action {};
  action.sa_sigaction = die_at_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  // The first threads execute more instructions: their call sites are new.
  long steps_of_sample = 0, steps_of_first = 0;
  for (int i = 0; i < 2; ++i) steps_of_sample = run_until_death(kNever);
  in_first_event = true;
  for (int i = 0; i < 2; ++i) steps_of_first = run_until_death(kNever);
  run_until_death(1);  // loads the library that pthread_exit needs
  for (long i = 0; i < threads; ++i) {
    in_first_event = i % 4 == 0;
    run_until_death(1 + (in_first_event ? steps_of_first : steps_of_sample) * i / threads);
  }
  free(malloc(77));
  for (int i = 0; i < 10; ++i) {
    wait_for_sample_interval();
    free(malloc(55));
  }
  printf("%ld\n", deaths);
  return 0;
}
#endif

volatile long handled = 0;
void allocate_here(int, siginfo_t*, void*) {
  void* volatile block = malloc(44);
  handled = handled + 1;
  free(block);
}

/// Runs the handler 300 times on an alternate stack of `bytes`; 0: the kernel's minimum.
int on_small_stacks(std::uint64_t bytes) {
  static char* area =
      static_cast<char*>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const std::size_t page = 4096;
  mprotect(area, page, PROT_NONE);  // a stack overflow kills the program
  stack_t stack{};
  stack.ss_size = bytes != 0 ? bytes : getauxval(AT_MINSIGSTKSZ);
  // Its lowest byte is the first one after the guard page.
  stack.ss_sp = area + page;
  if (sigaltstack(&stack, nullptr) != 0) return 3;
  // Fill the thread's cache: the allocator's rare paths are not measured.
  for (int i = 0; i < 7; ++i) free(malloc(44));
  handle(allocate_here, SA_ONSTACK);
  start_timer(100);
  ledger::Random random{3};
  static void* blocks[64];
  while (handled < 300) step(random, blocks[random.below(64)], static_cast<unsigned>(random.below(20)));
  start_timer(0);
  printf("%ld\n", handled);
  return 0;
}

int depth_now = 0;
volatile long deep_handled = 0;
void interrupt_the_handler(int, siginfo_t*, void*) {
  ++depth_now;
  void* volatile block = malloc(44);
  deep_handled = deep_handled + 1;
  if (depth_now < 8) raise(SIGUSR2);
  free(block);
  --depth_now;
}
void from_timer(int, siginfo_t*, void* context) {
  if (in_recorder(context)) raise(SIGUSR2);
}

int handlers_in_handlers(std::uint64_t times) {
  struct sigaction action {};
  action.sa_sigaction = interrupt_the_handler;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
  sigaction(SIGUSR2, &action, nullptr);
  handle(from_timer);
  start_timer(200);
  // How often the timer interrupts the recorder depends on the machine's speed.
  for (std::uint64_t i = 0; i < times || deep_handled <= 300; ++i) free(malloc(8 + i % 500));
  start_timer(0);
  printf("%ld\n", deep_handled);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  const std::uint64_t number = ledger::argument(argc, argv, 2, 0);
  find_recorder_code();
  ledger::open(ledger::kSiteNames, 1, 1'000'000);
  ledger::set_phase(ledger::Phase::kWorking);
  int result = 2;
  if (strcmp(what, "longjmp") == 0) result = jump_at_random(number);
  if (strcmp(what, "fork") == 0) result = fork_in_handler(number);
#ifdef __x86_64__
  if (strcmp(what, "forkstep") == 0) result = fork_at_each_step(static_cast<long>(number));
  if (strcmp(what, "jumpstep") == 0) result = jump_at_each_step(number);
  if (strcmp(what, "jumpfirst") == 0) result = jump_out_of_first_events(number);
  if (strcmp(what, "allocstep") == 0) result = allocate_at_each_step(number, false);
  if (strcmp(what, "allocstep-threads") == 0) result = allocate_at_each_step(number, true);
  if (strcmp(what, "swapstep") == 0) result = preempt_at_steps(number);
  if (strcmp(what, "diestep") == 0) result = die_in_events(static_cast<long>(number));
#endif
  if (strcmp(what, "altstack") == 0) result = on_small_stacks(number);
  if (strcmp(what, "deep") == 0) result = handlers_in_handlers(number);
  ledger::set_phase(ledger::Phase::kFinished);
  fflush(stdout);
  if (argc > 3 && strcmp(argv[3], "kill") == 0) kill(getpid(), SIGKILL);
  return result != 0 ? result : ledger::status();
}
