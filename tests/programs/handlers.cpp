// Signal handlers that are hard for a recorder, in a program that keeps a ledger.
//
// usage: handlers MODE [NUMBER] [kill]     kill: ends by SIGKILL
//
//   longjmp TIMES     the handler calls siglongjmp whenever it interrupted the recorder
//   jumpstep ROUNDS   siglongjmp at each of the first 700 instructions of a call in the recorder; each round takes
//                     every ROUNDS-th
//   jumpwalk STRIDE   siglongjmp at every STRIDE-th instruction of a call in the recorder that walks a new stack. The
//                     next call has the same stack
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
//   diestep STRIDE    threads whose handler calls pthread_exit at an instruction of the recorder, each STRIDE later
//                     than the previous one, in an event that takes a sample; one of four in its first event, at
//                     every 20 STRIDE instructions of it. Then the main thread allocates a block of 77 bytes and,
//                     every 12 ms, ten of 55. Prints the number of threads that died
//   altstack BYTES    handlers that allocate on an alternate signal stack of this size
//   deep TIMES        handlers that interrupt handlers, eight deep, each of which allocates
//
// The modes with "step", jumpwalk and jumpfirst need x86-64's trap flag. A handler may call siglongjmp only where it
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
#include <ucontext.h>

#include "tests/support/single_step.h"
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

enum Call { kMallocCall, kCallocCall, kReallocCall, kFreeCall, kCalls };

#ifdef __x86_64__
using heapprof::test::InstructionStop;

/// What an event does. A program that steps through all of an event is so slow that each event reads the clock.
enum EventKind { kInRun, kReadsClock, kTakesSample, kOtherStack, kEventKinds };

InstructionStop stops[kEventKinds][kCalls];
InstructionStop* active_stop = &stops[0][0];

/// The events that are to be left at an instruction. Those in a run have less than 80, those that take no sample some
/// 200.
EventKind event_kind(std::uint64_t instruction) {
  if (instruction < 80 && instruction % 2 == 0) return kInRun;
  return instruction < 200 && instruction % 3 != 0 ? kReadsClock : kTakesSample;
}

/// Lets the next event be of this kind. `events` is to record events and to call its argument before each: a run does
/// not continue after an event that follows a pause.
template <typename Events>
void prepare_event(EventKind kind, Events events) {
  events([kind] {
    if (kind != kInRun) usleep(200);
  });
  if (kind == kTakesSample) usleep(12'000);
}

void handle_traps(void (*handler)(int, siginfo_t*, void*)) {
  for (auto& of_kind : stops)
    for (InstructionStop& stop : of_kind) stop.count_only(recorder_begin, recorder_end);
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
}

/// Calls `call`, which the handler is to leave at an instruction in the recorder. False: it missed the instruction,
/// and has to be repeated.
template <typename Call>
bool call_with_stop(InstructionStop& stop, std::uint64_t instruction, Call call) {
  active_stop = &stop;
  stop.prepare(instruction);
  raise(SIGTRAP);
  call();
  stop.finish();
  raise(SIGTRAP);  // clears the trap flag if the call ended earlier
  return !stop.missed();
}

/// The next call of step() is to be left at this instruction in the recorder, if it is not 0.
volatile std::uint64_t stop_next_call_at = 0;
volatile bool next_call_has_other_stack = false;
bool calls_have_one_path = false;  ///< although each has another stack

/// raise(SIGTRAP) would step through its own return, and through all frames of step(), first.
void begin_stop(Call call) {
  if (stop_next_call_at == 0) return;
  active_stop = &stops[next_call_has_other_stack ? kOtherStack : event_kind(stop_next_call_at)][call];
  if (next_call_has_other_stack && !calls_have_one_path) active_stop->forget_path();
  active_stop->prepare(stop_next_call_at);
  stop_next_call_at = 0;
  asm volatile("lea -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::: "memory");
}

void end_stop() { active_stop->finish(); }
#else
void begin_stop(Call) {}
void end_stop() {}
#endif

[[gnu::noinline]] void call_deeper(ledger::Random& random, void*& block, unsigned depth, std::size_t size) {
  if (depth != 0) {
    call_deeper(random, block, depth - 1, size);
    asm volatile("" ::: "memory");
    return;
  }
  const bool first = random.below(2) == 0;
  const Call call = block == nullptr ? (first ? kMallocCall : kCallocCall) : (first ? kReallocCall : kFreeCall);
  begin_stop(call);
  if (call == kMallocCall) block = site_malloc(size);
  if (call == kCallocCall) block = site_calloc(1, size);
  if (call == kReallocCall) block = site_realloc(block, size);
  if (call == kFreeCall) {
    void* const old = block;
    block = nullptr;
    site_free(old);
  }
  end_stop();
}

/// One call, in frames of call_deeper(): one, and `depth` more, which is below 32. Each depth and call site has its
/// own stack. The size in the trace shows the depth: it is above 64, and its remainder of 32 is the depth.
/// Consecutive sizes differ, as those of next_size().
void step(ledger::Random& random, void*& block, unsigned depth) {
  static std::size_t count = 0;
  call_deeper(random, block, depth, 64 + 32 * (++count % 124) + depth);
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
int parent_is_ahead[2];  // a pipe: the children return when the parent closes it

void fork_at_step(int, siginfo_t* info, void* context) {
  if (!active_stop->is_reached(info, context)) return;
  children = children + 1;
  if (fork() != 0) return;
  in_child = true;
  make_ledger_private();
  close(parent_is_ahead[1]);
  char none;
  read(parent_is_ahead[0], &none, 1);
  if (children % 2 == 0) free(malloc(44));
}

int fork_at_each_step(std::uint64_t first) {
  if (pipe(parent_is_ahead) != 0) return 3;
  handle_traps(fork_at_step);
  // One call of each kind. A usual event has some 400 instructions.
  for (std::uint64_t at = first; at < 500 && !in_child; at += 2) {
    bool repeat[] = {true, true, true};
    while (!in_child && (repeat[0] || repeat[1] || repeat[2])) {
      void* block = nullptr;
      for (int kind = 0; kind < 3 && !in_child; ++kind) {
        const auto call = [&] {
          if (kind == 0) block = site_malloc(next_size());
          if (kind == 1) block = site_realloc(block, next_size());
          if (kind == 2) site_free(block);
        };
        if (!repeat[kind]) {
          call();
          continue;
        }
        prepare_event(event_kind(at), [](auto pause) {
          pause();
          void* const other = site_malloc(next_size());
          pause();
          site_free(other);
        });
        repeat[kind] = !call_with_stop(stops[event_kind(at)][kind], at, call);
      }
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

volatile sig_atomic_t stepping = 0;
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

void jump_at_step(int, siginfo_t* info, void* context) {
  if (!active_stop->is_reached(info, context)) return;
  jumps = jumps + 1;
  siglongjmp(before_call, 1);
}

int jump_at_each_step(std::uint64_t rounds) {
  static ledger::Random random{23};
  static void* blocks[64];
  static volatile std::uint64_t at = 0, round = 0;
  static volatile unsigned depth = 0;
  handle_traps(jump_at_step);
  for (; round < rounds; round = round + 1)
    for (at = 1 + round; at < 700;) {
      const std::size_t which = random.below(64);
      // Calls of one depth take the same way. Some of the others have a new stack.
      next_call_has_other_stack = at / rounds % 5 == 0;
      depth = next_call_has_other_stack ? random.below(30) : round * 6;
      // After a jump, this call must find a consistent state.
      prepare_event(event_kind(at), [=](auto pause) {
        pause();
        step(random, blocks[random.below(64)], depth);
      });
      if (sigsetjmp(before_call, 1) == 0) {
        stop_next_call_at = at;
        step(random, blocks[which], depth);
      } else {
        blocks[which] = nullptr;
      }
      if (!active_stop->missed()) at = at + rounds;
    }
  printf("%ld\n", jumps);
  return 0;
}

/// A step whose frames are `offset` bytes deeper in the stack.
[[gnu::noinline]] void step_at(std::size_t offset, ledger::Random& random, void*& block) {
  asm volatile("" ::"r"(__builtin_alloca(offset)) : "memory");
  step(random, block, 3);
  asm volatile("" ::: "memory");
}

int jump_out_of_walks(std::uint64_t stride) {
  static ledger::Random random{29};
  static volatile std::uint64_t at = 1;
  static volatile std::size_t offset = 0;
  static volatile bool ended = false;
  static void* block = nullptr;
  handle_traps(jump_at_step);
  next_call_has_other_stack = calls_have_one_path = true;
  while (!ended) {
    offset = offset + 16;
    // The second call, with the same stack, finds what the first one has left.
    static volatile int call = 0;
    for (call = 0; call < 2; call = call + 1) {
      if (sigsetjmp(before_call, 1) != 0) {
        block = nullptr;
        continue;
      }
      if (call == 0) stop_next_call_at = at;
      step_at(offset, random, block);
      if (call == 0) ended = !active_stop->missed();
      site_free(block);
      block = nullptr;
    }
    if (!active_stop->missed()) at = at + stride;
  }
  printf("%ld\n", jumps);
  return 0;
}

void* jump_out_of_first_event(void* argument) {
  if (sigsetjmp(before_call, 1) == 0 &&
      !call_with_stop(stops[0][0], reinterpret_cast<std::uint64_t>(argument), [] { free(malloc(44)); }))
    return nullptr;
  for (int i = 0; i < 20; ++i) free(malloc(55));
  return nullptr;
}

/// Creates a thread for every third instruction of a thread's first event.
int jump_out_of_first_events(std::uint64_t rounds) {
  handle_traps(jump_at_step);
  for (std::uint64_t at = 1; at < rounds;) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, jump_out_of_first_event, reinterpret_cast<void*>(at)) != 0) return 3;
    pthread_join(thread, nullptr);
    if (!stops[0][0].missed()) at += 3;
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

void swap_at_step(int, siginfo_t* info, void* context) {
  if (!active_stop->is_reached(info, context)) return;
  jumps = jumps + 1;
  swapcontext(&low_fiber, &high_fiber);
}

std::uint64_t stride = 1;

void run_preempted_calls() {
  for (std::uint64_t at = 1; at < 700;) {
    void* volatile block = nullptr;
    bool missed = false;
    const auto call = [&](int number, auto body) {
      const EventKind kind = event_kind(at + number);
      prepare_event(kind, [](auto pause) {
        pause();
        void* const other = malloc(44);
        allocated = allocated + 1;
        pause();
        free(other);
      });
      missed |= !call_with_stop(stops[kind][number], at + number, body);
    };
    call(0, [&] { block = malloc(44); });
    call(1, [&] { block = realloc(block, 440); });
    call(2, [&] { free(block); });
    allocated = allocated + 1;
    if (!missed) at += stride;
  }
}

void run_low_fiber() {
  run_preempted_calls();
  low_fiber_ended = true;
}

int preempt_at_steps(std::uint64_t steps_between) {
  static char stack[256 << 10];
  handle_traps(swap_at_step);
  if (reinterpret_cast<char*>(&steps_between) < stack) return 3;  // the main stack has lower addresses
  stride = steps_between;
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
void die_at_step(int, siginfo_t* info, void* context) {
  if (!active_stop->is_reached(info, context)) return;
  deaths = deaths + 1;
  pthread_exit(nullptr);
}

/// Waits longer than the interval between two samples.
void wait_for_sample_interval() { usleep(12'000); }

bool in_first_event = false;

void* die_in_event(void* argument) {
  if (!in_first_event) {
    free(malloc(44));
    wait_for_sample_interval();
  }
  call_with_stop(stops[in_first_event ? kInRun : kTakesSample][0], reinterpret_cast<std::uint64_t>(argument),
                 [] { free(malloc(44)); });
  return nullptr;
}

/// False: the thread ended without reaching the instruction.
bool run_until_death(std::uint64_t at) {
  const long deaths_before = deaths;
  do {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, die_in_event, reinterpret_cast<void*>(at)) != 0) return false;
    pthread_join(thread, nullptr);
  } while (active_stop->missed());
  return deaths != deaths_before;
}

int die_in_events(std::uint64_t stride) {
  handle_traps(die_at_step);
  run_until_death(1);  // loads the library that pthread_exit needs
  // A thread's first event has ten times as many instructions as an event with a sample.
  std::uint64_t at[] = {1, 1};
  bool reached[] = {true, true};
  for (unsigned i = 0; reached[false] || reached[true]; ++i) {
    in_first_event = i % 4 == 0;
    if (reached[in_first_event]) reached[in_first_event] = run_until_death(at[in_first_event]);
    at[in_first_event] += in_first_event ? stride * 20 : stride;
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
  if (strcmp(what, "forkstep") == 0) result = fork_at_each_step(number);
  if (strcmp(what, "jumpstep") == 0) result = jump_at_each_step(number);
  if (strcmp(what, "jumpwalk") == 0) result = jump_out_of_walks(number);
  if (strcmp(what, "jumpfirst") == 0) result = jump_out_of_first_events(number);
  if (strcmp(what, "allocstep") == 0) result = allocate_at_each_step(number, false);
  if (strcmp(what, "allocstep-threads") == 0) result = allocate_at_each_step(number, true);
  if (strcmp(what, "swapstep") == 0) result = preempt_at_steps(number);
  if (strcmp(what, "diestep") == 0) result = die_in_events(number);
#endif
  if (strcmp(what, "altstack") == 0) result = on_small_stacks(number);
  if (strcmp(what, "deep") == 0) result = handlers_in_handlers(number);
  ledger::set_phase(ledger::Phase::kFinished);
  fflush(stdout);
  if (argc > 3 && strcmp(argv[3], "kill") == 0) kill(getpid(), SIGKILL);
  return result != 0 ? result : ledger::status();
}
