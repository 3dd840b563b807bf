// A library that Python loads by ctypes: a signal handler, which maps and unmaps memory, interrupts every instruction
// of one module between interrupt_begin() and interrupt_end(); another one allocates on a stack of its own.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { kTrapFlag = 1 << 8 };

static uint64_t begin, end;
static volatile int on;
static volatile long interrupts;

static void handle(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)info;
  greg_t* const registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  if (!on) {
    registers[REG_EFL] &= ~(greg_t)kTrapFlag;
    return;
  }
  registers[REG_EFL] |= kTrapFlag;
  if ((uint64_t)registers[REG_RIP] < begin || (uint64_t)registers[REG_RIP] >= end) return;
  ++interrupts;
  void* const page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(page, 4096);
}

// [from, to): the module's code.
void interrupt_begin(uint64_t from, uint64_t to) {
  begin = from;
  end = to;
  struct sigaction action = {0};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, 0);
  on = 1;
  raise(SIGTRAP);
}

// Returns the number of interrupted instructions.
long interrupt_end(void) {
  on = 0;
  return interrupts;
}

enum { kStackBytes = 1 << 16, kPaint = 0xa5, kMargin = 256 };
static unsigned char stack[kStackBytes];
static int depth;
static long deepest;

// Frees a new block from `left` frames further inside, and notes how much of the stack below this was written.
static __attribute__((noinline)) void allocate(int left) {
  if (left != 0) {
    allocate(left - 1);
    __asm__ volatile("" ::: "memory");  // no tail call
    return;
  }
  unsigned char* const here = (unsigned char*)__builtin_frame_address(0);
  memset(stack, kPaint, (size_t)(here - kMargin - stack));
  void* volatile block = malloc(24);
  free(block);
  unsigned char* at = stack;
  while (at < here - kMargin && *at == kPaint) ++at;
  if (here - at > deepest) deepest = here - at;
}

static void handle_on_stack(int number) {
  (void)number;
  allocate(depth);
}

// Returns how many bytes of stack a malloc and a free use in a handler, at most, for several new stacks.
long handler_stack_use(void) {
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&alternate, 0);
  struct sigaction action = {0};
  action.sa_handler = handle_on_stack;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, 0);
  for (depth = 0; depth != 50; ++depth) raise(SIGUSR1);
  return deepest;
}
