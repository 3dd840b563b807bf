// Stacks of all shapes, compared frame by frame with libunwind. The interesting code is compiled with what
// the scenario needs (no frame pointer, realigned stacks), whatever the build's flags are.
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <thread>

#include "harness.h"

using namespace unwind_test;

namespace {

const bool g_started = heapprof::unwind::start({.max_depth = 1u << 16, .shadow_stack = true});

/// What the scenario's frames call at their innermost point.
thread_local Hook* t_hook = nullptr;
[[gnu::noinline]] void hook() {
  (*t_hook)();
  asm volatile("");
}

/// Runs a scenario with a recorder of its own and demands that all stacks were right.
template <typename Scenario>
Comparison run(Scenario&& scenario) {
  REQUIRE(g_started);
  Recorder recorder;
  Hook here(recorder);
  t_hook = &here;
  scenario();
  t_hook = nullptr;
  INFO(here.result.first_difference);
  CHECK(here.result.stacks > 0);
  CHECK(here.result.different == 0);
  return here.result;
}

volatile int g_sink;

[[gnu::noinline]] int plain_recursion(int depth) {
  if (depth == 0) hook();
  const int below = depth == 0 ? 0 : plain_recursion(depth - 1);
  if (depth % 7 == 0) hook();
  g_sink = depth;
  return below + depth;
}

[[gnu::noinline, gnu::optimize("omit-frame-pointer")]] int no_frame_pointer(int depth) {
  volatile char local[24];
  local[depth % 24] = 1;
  if (depth == 0) hook();
  else no_frame_pointer(depth - 1);
  if (depth % 3 == 0) hook();
  return local[0];
}

[[gnu::noinline]] int with_alloca(int depth) {
  auto* room = static_cast<volatile char*>(alloca(16 + depth * 37));
  room[depth] = 1;
  if (depth == 0) hook();
  else with_alloca(depth - 1);
  hook();
  return room[0];
}

[[gnu::noinline]] int over_aligned(int depth) {
  alignas(64) volatile char local[100];
  auto* room = static_cast<volatile char*>(alloca(1 + depth * 3));
  local[depth % 100] = 1;
  room[0] = 1;
  if (depth == 0) hook();
  else over_aligned(depth - 1);
  hook();
  return local[0] + room[0];
}

[[noreturn, gnu::noinline]] void throw_from(int depth) {
  if (depth == 0) {
    hook();
    throw std::runtime_error("thrown");
  }
  throw_from(depth - 1);
}

struct HookInDestructor {
  ~HookInDestructor() { hook(); }
};

// These two end by an exception and by a jump.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winfinite-recursion"
[[gnu::noinline]] void catches(int depth) {
  const HookInDestructor guard;
  if (depth == 0) throw_from(5);
  try {
    catches(depth - 1);
  } catch (const std::exception&) {
    hook();
    if (depth % 2 == 0) throw;
  }
  hook();
}

jmp_buf g_jump;

[[gnu::noinline]] void jumps(int depth) {
  hook();
  if (depth == 0) longjmp(g_jump, 1);
  jumps(depth - 1);
  hook();
}
#pragma GCC diagnostic pop

[[gnu::noinline]] int compare_numbers(const void* a, const void* b) {
  hook();
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

/// An executable stack of memory with a page that cannot be touched below it.
class CoroutineStack {
 public:
  static constexpr std::size_t kBytes = 64u << 10;
  CoroutineStack() {
    base_ = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_, 4096, PROT_NONE);
  }
  ~CoroutineStack() {
    munmap(base_, kBytes);
    unwind::forget_stack_region(reinterpret_cast<std::uint64_t>(base_), kBytes);
  }
  CoroutineStack(const CoroutineStack&) = delete;
  char* base() { return base_; }

 private:
  char* base_;
};

ucontext_t g_main_context, g_coroutine_context;

void coroutine_body() {
  for (int i = 0; i < 4; ++i) {
    plain_recursion(i * 3);
    swapcontext(&g_coroutine_context, &g_main_context);
    over_aligned(3);
  }
}

// A coroutine switch written by hand: saves the registers that calls preserve, and changes the stack. The
// first frame on a new stack has return address 0.
extern "C" void switch_stacks(void** save_sp, void* load_sp);
asm(R"(
  .pushsection .text
  .type switch_stacks, @function
switch_stacks:
  .cfi_startproc
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbp, 0
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  pushq %r12
  .cfi_adjust_cfa_offset 8
  pushq %r13
  .cfi_adjust_cfa_offset 8
  pushq %r14
  .cfi_adjust_cfa_offset 8
  pushq %r15
  .cfi_adjust_cfa_offset 8
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  .cfi_adjust_cfa_offset -48
  .cfi_restore %rbp
  ret
  .cfi_endproc
  .size switch_stacks, .-switch_stacks

  # Calls the function in %rdi on the stack %rsi, as runtimes do: the frame pointer leads back.
  .type call_on_stack, @function
call_on_stack:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  movq %rsi, %rsp
  callq *%rdi
  movq %rbp, %rsp
  popq %rbp
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size call_on_stack, .-call_on_stack

  # No unwind information. The first keeps frame pointers, the second uses %rbp for something else.
  .type frame_pointer_only, @function
frame_pointer_only:
  pushq %rbp
  movq %rsp, %rbp
  subq $32, %rsp
  callq *%rdi
  leave
  ret
  .size frame_pointer_only, .-frame_pointer_only

  .type nothing_at_all, @function
nothing_at_all:
  pushq %rbp
  movabsq $0x123456789abcdef0, %rbp
  callq *%rdi
  popq %rbp
  ret
  .size nothing_at_all, .-nothing_at_all

  # The base of the frame is in %rbx, as in ld.so's lazy binding.
  .type based_on_rbx, @function
based_on_rbx:
  .cfi_startproc
  pushq %rbx
  .cfi_def_cfa_offset 16
  .cfi_offset %rbx, -16
  movq %rsp, %rbx
  .cfi_def_cfa_register %rbx
  andq $-64, %rsp
  subq $192, %rsp
  callq *%rdi
  movq %rbx, %rsp
  .cfi_def_cfa_register %rsp
  popq %rbx
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
  .size based_on_rbx, .-based_on_rbx
  .popsection
)");
extern "C" void call_on_stack(void (*function)(), void* stack_top);
extern "C" void frame_pointer_only(void (*function)());
extern "C" void nothing_at_all(void (*function)());
extern "C" void based_on_rbx(void (*function)());

void* g_main_sp;
void* g_coroutine_sp;

[[noreturn]] void hand_written_body() {
  for (int i = 0;; ++i) {
    no_frame_pointer(i % 5);
    switch_stacks(&g_coroutine_sp, g_main_sp);
  }
}

void hook_in_handler(int) { plain_recursion(3); }
void hook_deeper_in_handler(int) { over_aligned(2); }

/// Handlers for the life of the object.
class Handler {
 public:
  Handler(int signal, void (*function)(int), int flags) : signal_(signal) {
    struct sigaction action {};
    action.sa_handler = function;
    action.sa_flags = flags;
    sigaction(signal, &action, &before_);
  }
  ~Handler() { sigaction(signal_, &before_, nullptr); }
  Handler(const Handler&) = delete;

 private:
  int signal_;
  struct sigaction before_;
};

class AlternateStack {
 public:
  AlternateStack() {
    stack_t stack{};
    stack.ss_sp = memory_.base() + 4096;
    stack.ss_size = CoroutineStack::kBytes - 4096;
    sigaltstack(&stack, &before_);
  }
  ~AlternateStack() { sigaltstack(&before_, nullptr); }

 private:
  CoroutineStack memory_;
  stack_t before_;
};

[[gnu::noinline]] void raises(int depth) {
  if (depth == 0) raise(SIGUSR1);
  else raises(depth - 1);
  hook();
}

}  // namespace

TEST_CASE("plain recursion") {
  run([] {
    plain_recursion(1);
    plain_recursion(200);
    plain_recursion(3);
  });
}

TEST_CASE("frames without frame pointer") {
  run([] { no_frame_pointer(50); });
}

TEST_CASE("alloca") {
  run([] { with_alloca(40); });
}

TEST_CASE("realigned frames") {
  run([] { over_aligned(40); });
}

TEST_CASE("exceptions, caught and thrown again, and destructors on the way") {
  run([] { catches(21); });
}

TEST_CASE("the end of a function that does not return") {
  run([] {
    try {
      throw_from(3);
    } catch (const std::exception&) {
      hook();
    }
  });
}

TEST_CASE("longjmp, then the same depth through other calls") {
  run([] {
    for (volatile int i = 0; i < 20; i = i + 1) {
      if (setjmp(g_jump) == 0) jumps(i);
      hook();
      if (setjmp(g_jump) == 0) jumps(5);
      with_alloca(i);
    }
  });
}

TEST_CASE("callbacks from libc and libstdc++") {
  run([] {
    std::array<int, 200> numbers;
    std::mt19937 random(1);
    for (int& number : numbers) number = static_cast<int>(random() % 1000);
    auto copy = numbers;
    qsort(copy.data(), copy.size(), sizeof copy[0], compare_numbers);
    const int key = copy[20];
    CHECK(bsearch(&key, copy.data(), copy.size(), sizeof copy[0], compare_numbers) != nullptr);
    std::sort(numbers.begin(), numbers.end(), [](int a, int b) {
      hook();
      return a < b;
    });
    CHECK(numbers == copy);
    const std::function<void(int)> function = [&](int depth) {
      hook();
      if (depth > 0) function(depth - 1);
    };
    function(20);
  });
}

TEST_CASE("signal handlers") {
  const Comparison result = run([] {
    const Handler handler(SIGUSR1, hook_in_handler, 0);
    for (int i = 0; i < 10; ++i) raises(i % 4);
  });
  CHECK(result.frames > 10 * 12);
}

TEST_CASE("signal handlers on an alternate stack") {
  run([] {
    const AlternateStack stack;
    const Handler handler(SIGUSR1, hook_in_handler, SA_ONSTACK);
    for (int i = 0; i < 10; ++i) raises(i % 4);
  });
}

TEST_CASE("a handler interrupts a handler") {
  run([] {
    const AlternateStack stack;
    const Handler inner(SIGUSR2, hook_deeper_in_handler, SA_ONSTACK);
    const Handler outer(SIGUSR1, [](int) { raise(SIGUSR2); hook(); }, SA_ONSTACK);
    for (int i = 0; i < 5; ++i) raises(i);
  });
}

TEST_CASE("coroutines by swapcontext, on stacks that come and go") {
  run([] {
    for (int round = 0; round < 10; ++round) {
      CoroutineStack stack;
      getcontext(&g_coroutine_context);
      g_coroutine_context.uc_stack.ss_sp = stack.base();
      g_coroutine_context.uc_stack.ss_size = CoroutineStack::kBytes;
      g_coroutine_context.uc_link = &g_main_context;
      makecontext(&g_coroutine_context, coroutine_body, 0);
      for (int i = 0; i < 5; ++i) {
        swapcontext(&g_main_context, &g_coroutine_context);
        hook();
      }
    }
  });
}

TEST_CASE("a coroutine switch written by hand") {
  run([] {
    for (int round = 0; round < 10; ++round) {
      CoroutineStack stack;
      auto** top = reinterpret_cast<void**>(stack.base() + CoroutineStack::kBytes);
      *--top = nullptr;  // where hand_written_body would return to
      *--top = reinterpret_cast<void*>(hand_written_body);
      g_coroutine_sp = top - 6;
      for (int i = 0; i < 12; ++i) {
        switch_stacks(&g_main_sp, g_coroutine_sp);
        plain_recursion(i);
      }
    }
  });
}

TEST_CASE("a function called on another stack") {
  run([] {
    CoroutineStack stack;
    for (int i = 0; i < 10; ++i) {
      call_on_stack([] { plain_recursion(7); }, stack.base() + CoroutineStack::kBytes);
      hook();
    }
  });
}

TEST_CASE("a frame based on another register than sp and fp") {
  run([] {
    for (int i = 0; i < 10; ++i) {
      based_on_rbx([] { plain_recursion(7); });
      based_on_rbx([] { based_on_rbx([] { over_aligned(3); }); });
      call_on_stack([] { based_on_rbx(hook); }, CoroutineStack().base() + CoroutineStack::kBytes);
    }
  });
}

TEST_CASE("threads") {
  REQUIRE(g_started);
  std::array<Comparison, 4> results;
  std::array<std::thread, 4> threads;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    threads[i] = std::thread([&result = results[i]] {
      Recorder recorder;
      Hook here(recorder);
      t_hook = &here;
      for (int round = 0; round < 20; ++round) {
        plain_recursion(round);
        over_aligned(round);
        no_frame_pointer(round);
        if (round % 5 == 0) unwind::loader_activity();
      }
      result = here.result;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Comparison& result : results) {
    INFO(result.first_difference);
    CHECK(result.stacks > 300);
    CHECK(result.different == 0);
  }
}

TEST_CASE("a thread's state handed to the next thread") {
  REQUIRE(g_started);
  Recorder recorder;
  for (int i = 0; i < 20; ++i) {
    Comparison result;
    std::thread([&] {
      recorder.unwinder.thread_changed();
      Hook here(recorder);
      t_hook = &here;
      plain_recursion(i);
      result = here.result;
    }).join();
    INFO(result.first_difference);
    CHECK(result.stacks > 0);
    CHECK(result.different == 0);
  }
}

TEST_CASE("glibc's backtrace agrees where no signal is involved") {
  REQUIRE(g_started);
  static thread_local std::vector<std::uint64_t> expected;
  Recorder recorder;
  struct Both {
    Recorder& recorder;
    Stack ours;
    [[gnu::noinline]] void operator()() {
      const auto entry = arch::entry_registers();
      ours = recorder.capture(entry);
      expected = glibc_stack(entry);
    }
  } both{recorder, {}};
  std::size_t compared = 0;
  const std::function<void(int)> recurse = [&](int depth) {
    both();
    CHECK(both.ours.addresses == expected);
    ++compared;
    if (depth > 0) recurse(depth - 1);
  };
  recurse(30);
  CHECK(compared == 31);
}

TEST_CASE("frame pointers, where there is nothing better") {
  REQUIRE(g_started);
  Recorder recorder;
  Hook here(recorder);
  here.compare_with_libunwind = false;
  t_hook = &here;
  frame_pointer_only(hook);
  const Stack through = here.last;
  hook();
  const Stack direct = here.last;
  t_hook = nullptr;
  CHECK(through.reason == Truncation::kNone);
  // hook, frame_pointer_only, this test, ...
  REQUIRE(through.addresses.size() == direct.addresses.size() + 1);
  CHECK(std::equal(through.addresses.begin() + 3, through.addresses.end(), direct.addresses.begin() + 2));
  CHECK(through.guessed[2]);
  CHECK(std::count(through.guessed.begin(), through.guessed.end(), true) == 1);
  CHECK(std::count(direct.guessed.begin(), direct.guessed.end(), true) == 0);
}

TEST_CASE("neither unwind information nor a frame pointer ends a stack with the reason") {
  REQUIRE(g_started);
  Recorder recorder;
  Hook here(recorder);
  here.compare_with_libunwind = false;
  t_hook = &here;
  for (int i = 0; i < 3; ++i) {
    nothing_at_all(hook);
    CHECK(here.last.reason == Truncation::kNoUnwindInfo);
    CHECK(here.last.addresses.size() == 2);  // hook, nothing_at_all
  }
  t_hook = nullptr;
}
