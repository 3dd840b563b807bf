// Stacks of all shapes, compared frame by frame with libunwind. Functions choose the compiler options that their
// scenario needs (no frame pointer, for example), whatever the options of the build are.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <thread>

#include "preload/unwind/thread_data.h"
#include "scenarios.h"
#include "tests/support/seed.h"

using namespace unwind_test;

namespace {

[[noreturn, gnu::noinline]] void throw_from(int depth) {
  if (depth == 0) {
    hook();
    throw std::runtime_error("thrown");
  }
  throw_from(depth - 1);
}

/// Each level adds the frames of two call sites, so nearly every stack is new.
[[gnu::noinline]] void branches(int depth) {
  hook();
  if (depth == 0) return;
  branches(depth - 1);
  hook();
  branches(depth - 1);
  hook();
}

struct HookInDestructor {
  ~HookInDestructor() { hook(); }
};

// These two end by an exception and by longjmp.
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

ucontext_t g_main_context, g_coroutine_context;

void coroutine_body() {
  for (int i = 0; i < 4; ++i) {
    plain_recursion(i * 3);
    swapcontext(&g_coroutine_context, &g_main_context);
    over_aligned(3);
  }
}

void hook_in_handler(int) { plain_recursion(3); }
void hook_deeper_in_handler(int) { over_aligned(2); }

/// Installs a signal handler for the lifetime of the object.
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

TEST_CASE("all stacks of a recursion with two calls") {
  run([] { branches(8); });
}

TEST_CASE("The check of a capture leaves the nodes of cached steps, so that later captures use them") {
  REQUIRE(g_started);
  Recorder recorder;
  Hook here(recorder);
  t_hook = &here;
  branches(8);
  t_hook = nullptr;
  CHECK(here.result.different == 0);
  REQUIRE(recorder.unwinder.paths() != nullptr);
  const auto& data = static_cast<const unwind::ThreadData&>(*recorder.unwinder.paths());
  std::size_t with_node = 0;
  for (const unwind::CachedStep& step : data.steps.entries) with_node += step.node != NodeId::kNone ? 1 : 0;
  CHECK(with_node > 0);
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

TEST_CASE("exceptions, caught and rethrown, and destructors during unwinding") {
  run([] { catches(21); });
}

TEST_CASE("a call at the end of a function that does not return") {
  run([] {
    try {
      throw_from(3);
    } catch (const std::exception&) {
      hook();
    }
  });
}

TEST_CASE("longjmp, then the same depth by other calls") {
  run([] {
    for (volatile int round = 0; round < 20;) {
      const int i = round;
      round = i + 1;
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
    std::mt19937 random(heapprof::test::seed(1));
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
    const Handler outer(
        SIGUSR1,
        [](int) {
          raise(SIGUSR2);
          hook();
        },
        SA_ONSTACK);
    for (int i = 0; i < 5; ++i) raises(i);
  });
}

TEST_CASE("coroutines by swapcontext, on stacks that are mapped and unmapped") {
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

TEST_CASE("the state of a thread used by the next thread") {
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

TEST_CASE("glibc's backtrace finds the same frames where no signal is involved") {
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
