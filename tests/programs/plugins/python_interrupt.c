// A library that Python loads by ctypes: a signal handler, which maps and unmaps memory, interrupts every instruction
// of one module between interrupt_begin() and interrupt_end().
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
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
