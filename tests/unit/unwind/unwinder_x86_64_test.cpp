// Scenarios that need assembly: stack switches, frames based on other registers, code without unwind information.
#include <algorithm>

#include "scenarios.h"

using namespace unwind_test;

namespace {

// A coroutine switch: saves the registers that calls preserve and changes the stack. The first frame on a new stack
// has return address 0.
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

  # Calls the function in %rdi on the stack %rsi, as language runtimes do. The CFA is based on the frame pointer.
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

  # No unwind information. The first function has a frame pointer, the second uses %rbp for another value.
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

  # The CFA is based on %rbx, as in ld.so's resolver of lazy binding.
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

[[noreturn]] void coroutine_body() {
  for (int i = 0;; ++i) {
    no_frame_pointer(i % 5);
    switch_stacks(&g_coroutine_sp, g_main_sp);
  }
}
}  // namespace

TEST_CASE("a coroutine switch in assembly") {
  run([] {
    for (int round = 0; round < 10; ++round) {
      CoroutineStack stack;
      auto** top = reinterpret_cast<void**>(stack.base() + CoroutineStack::kBytes);
      *--top = nullptr;  // the return address of coroutine_body
      *--top = reinterpret_cast<void*>(coroutine_body);
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

TEST_CASE("frame pointers, where there is no unwind information") {
  REQUIRE(g_started);
  Recorder recorder;
  Hook here(recorder);
  here.compare_with_oracle = false;
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
  CHECK(through.by_frame_pointer[2]);
  CHECK(std::count(through.by_frame_pointer.begin(), through.by_frame_pointer.end(), true) == 1);
  CHECK(std::count(direct.by_frame_pointer.begin(), direct.by_frame_pointer.end(), true) == 0);
}

TEST_CASE("a stack without unwind information and frame pointer is truncated with the reason") {
  REQUIRE(g_started);
  Recorder recorder;
  Hook here(recorder);
  here.compare_with_oracle = false;
  t_hook = &here;
  for (int i = 0; i < 3; ++i) {
    nothing_at_all(hook);
    CHECK(here.last.reason == Truncation::kNoUnwindInfo);
    CHECK(here.last.addresses.size() == 2);  // hook, nothing_at_all
  }
  t_hook = nullptr;
}
