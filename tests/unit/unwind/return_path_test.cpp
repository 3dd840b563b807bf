// Return paths, compared with unwind information: for code that has both, the results must agree.
#include "preload/unwind/return_path.h"

#include <Zydis/Decoder.h>
#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iostream>
#include <string>

#include "preload/unwind/cfi.h"
#include "preload/unwind/elf_object.h"

// Functions as compilers write them. Each label return_... is behind a call.
asm(R"(
  .text
  .globl path_code_begin, path_code_end, path_never, return_pushed, return_added, return_branch, return_leave
  .globl return_variable, return_last, return_tail, return_table, return_plt, return_moved, return_prologue
  .globl return_loop, return_aligned, path_exit, return_exited, return_failed
path_code_begin:
path_never:
  hlt
path_exit:
  hlt

  # Two registers and 24 bytes.
  push %rbp
  push %rbx
  sub $24, %rsp
  call *%rax
return_pushed:
  xor %ebp, %ebp
  add $24, %rsp
  pop %rbx
  pop %rbp
  ret

  # No register saved; the stack pointer is changed by lea and by sub of a negative constant.
  sub $136, %rsp
  call *%rax
return_added:
  test %rsp, %rsp
  cmp $0, %rsp
  lea 8(%rsp), %rsp
  sub $-128, %rsp
  ret

  # Of two paths one never returns.
  push %rbx
  call *%rax
return_branch:
  test %eax, %eax
  je 1f
  pop %rbx
  ret
1: call path_never

  push %rbp
  mov %rsp, %rbp
  sub $64, %rsp
  and $-32, %rsp
  call *%rax
return_leave:
  leave
  ret

  # An array of variable length: the stack pointer comes from the frame register.
  push %rbp
  mov %rsp, %rbp
  push %r12
  push %rbx
  sub %rdi, %rsp
  call *%rax
return_variable:
  lea -16(%rbp), %rsp
  pop %rbx
  pop %r12
  pop %rbp
  ret

  push %rax
  call *%rax
return_last:
  mov %eax, %edi
  call path_never
  # Not reached, although it is code.
  add $1000, %rsp
  ret

  # Ends in another function.
  push %rbp
  call *%rax
return_tail:
  pop %rbp
  jmp 2f
  .balign 16
2: push %rbp
  pop %rbp
  ret

  # A switch, of which one case is found by a branch.
  sub $40, %rsp
  call *%rax
return_table:
  cmp $3, %eax
  ja 3f
  jmp *%rax
3: add $40, %rsp
  ret

  sub $8, %rsp
  call *%rax
return_plt:
  add $8, %rsp
  jmp *path_pointer(%rip)

  # Registers are stored by mov.
  sub $40, %rsp
  mov %rbp, 16(%rsp)
  call *%rax
return_moved:
  mov 16(%rsp), %rbp
  add $40, %rsp
  ret

  # Interrupted before anything was pushed.
return_prologue:
  push %rbp
  mov %rsp, %rbp
  sub $32, %rsp
  call *%rax
  leave
  ret

  push %rbx
4: call *%rax
return_loop:
  test %eax, %eax
  jne 4b
  jmp 5f
5: jmp 6f
6: pop %rbx
  ret

  # The stack pointer is computed: nothing is known.
  and $-64, %rsp
  call *%rax
return_aligned:
  mov %rbx, %rsp
  ret

  # Behind calls that never return there are other functions.
  push %rbp
  push %rax
  call path_exit
return_exited:
  ret
  push %rbp
  push %rax
  call path_never
return_failed:
  ret
path_code_end:

  .data
path_pointer: .quad 0
  .text
)");

extern "C" {
extern const char path_code_begin[], path_code_end[], path_never[], return_pushed[], return_added[], return_branch[],
    return_leave[], return_variable[], return_last[], return_tail[], return_table[], return_plt[], return_moved[],
    return_prologue[], return_loop[], return_aligned[], path_exit[], return_exited[], return_failed[];
}

namespace heapprof::unwind {

namespace {

std::uint64_t address_of(const char* label) { return reinterpret_cast<std::uint64_t>(label); }

ReturnPath path_of(const char* label) {
  FollowedCode code;
  code.text = {address_of(path_code_begin), address_of(path_code_end)};
  code.never_return[code.functions++] = address_of(path_exit);
  code.ending_functions = code.functions;
  code.never_return[code.functions++] = address_of(path_never);
  return find_return_path(code, address_of(label));
}

ReturnPath by_sp(std::int64_t cfa) { return {ReturnPath::End::kReturns, false, false, cfa, 0}; }
ReturnPath by_sp(std::int64_t cfa, std::int64_t fp) { return {ReturnPath::End::kReturns, false, true, cfa, fp}; }
ReturnPath by_fp() { return {ReturnPath::End::kReturns, true, true, 16, -16}; }

struct Counts {
  std::uint32_t equal = 0, different = 0, unknown = 0, never = 0, not_compared = 0;
};

/// Compares at the return address `pc` of a call.
void compare(const FollowedCode& code, const ElfObject& object, std::uint64_t pc, Counts& counts) {
  CfiEntry entry;
  CfiRow row;
  if (find_cfi(object, pc - 1, entry) != CfiResult::kFound || !run_cfi(entry, pc - 1, row) || row.cfa_is_expression)
    return;
  const RegisterRule fp = row.rule[arch::kDwarfFp];
  const bool by_fp = row.cfa_register == arch::kDwarfFp;
  if ((!by_fp && row.cfa_register != arch::kDwarfSp) || (fp != RegisterRule::kSame && fp != RegisterRule::kOffset))
    return;
  const ReturnPath path = find_return_path(code, pc);
  if (path.end == ReturnPath::End::kUnknown) ++counts.unknown;
  else if (path.end == ReturnPath::End::kNeverReturns) ++counts.never;
  else if (by_fp && !path.from_fp) ++counts.not_compared;  // pops instead of leave
  else if (by_fp == path.from_fp && path.cfa_offset == row.cfa_offset &&
           path.fp_saved == (fp == RegisterRule::kOffset) &&
           (!path.fp_saved || path.fp_offset == row.value[arch::kDwarfFp]))
    ++counts.equal;
  else ++counts.different;
}

bool never_returns(const FollowedCode& code, std::uint64_t target) {
  return std::find(code.never_return, code.never_return + code.functions, target) !=
         code.never_return + code.functions;
}

/// All calls in the code of `object`, function by function.
Counts compare_calls(const FollowedCode& code, const ElfObject& object) {
  Counts counts;
  ZydisDecoder decoder;
  ZydisDecodedInstruction instruction;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  for (std::uint64_t pc = code.text.begin; pc < code.text.end;) {
    Span function;
    if (!find_function(object.map, pc, function)) {
      ++pc;
      continue;
    }
    for (std::uint64_t at = function.begin; at < function.end; at += instruction.length) {
      if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, reinterpret_cast<const void*>(at),
                                                      function.end - at, &instruction)))
        break;
      const bool call =
          instruction.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT &&
          (instruction.opcode == 0xe8 || (instruction.opcode == 0xff && instruction.raw.modrm.reg == 2));
      const std::uint64_t target =
          at + instruction.length + static_cast<std::uint64_t>(instruction.raw.imm[0].value.s);
      const bool returns = instruction.opcode != 0xe8 || !never_returns(code, target);
      if (call && returns && at + instruction.length < function.end)
        compare(code, object, at + instruction.length, counts);
    }
    pc = function.end > pc ? function.end : pc + 1;
  }
  return counts;
}

}  // namespace

TEST_CASE("the return path of functions as compilers write them") {
  CHECK(path_of(return_pushed) == by_sp(48, -16));
  CHECK(path_of(return_added) == by_sp(144));
  CHECK(path_of(return_branch) == by_sp(16));
  CHECK(path_of(return_leave) == by_fp());
  CHECK(path_of(return_variable) == by_fp());
  CHECK(path_of(return_last).end == ReturnPath::End::kNeverReturns);
  CHECK(path_of(return_tail) == by_sp(16, -16));
  CHECK(path_of(return_table) == by_sp(48));
  CHECK(path_of(return_plt) == by_sp(16));
  CHECK(path_of(return_moved) == by_sp(48, -32));
  CHECK(path_of(return_prologue) == by_sp(8));
  CHECK(path_of(return_loop) == by_sp(16));
  CHECK(path_of(return_aligned).end == ReturnPath::End::kUnknown);
  CHECK(path_of(return_exited).end == ReturnPath::End::kNeverReturns);
  CHECK(path_of(return_failed).end == ReturnPath::End::kUnknown);
}

TEST_CASE("code that is not to be followed has no return path") {
  FollowedCode code;
  code.text = {address_of(path_code_begin), address_of(return_pushed)};
  CHECK(find_return_path(code, address_of(return_added)).end == ReturnPath::End::kUnknown);
  // The path leaves the span.
  CHECK(find_return_path(code, address_of(return_pushed) - 1).end == ReturnPath::End::kUnknown);
}

TEST_CASE("return paths agree with unwind information") {
  start_elf_objects();
  ObjectLocation location;
  REQUIRE(find_object(reinterpret_cast<std::uint64_t>(dlsym(RTLD_DEFAULT, "malloc")), location));
  ElfObject object{};
  read_object(location, object);
  FollowedCode code;
  code.text = object.text;
  for (const char* name : {"exit", "_exit", "abort", "__assert_fail", "__stack_chk_fail", "__fortify_fail",
                           "__chk_fail", "longjmp", "pthread_exit"})
    if (void* const known = dlsym(RTLD_DEFAULT, name); known != nullptr)
      code.never_return[code.functions++] = reinterpret_cast<std::uint64_t>(known);
  const Counts counts = compare_calls(code, object);
  std::cout << "libc: return paths of " << counts.equal << " calls equal, " << counts.different << " different, "
            << counts.unknown << " unknown, " << counts.never << " never return, " << counts.not_compared
            << " by another register\n";
  // The rest: behind calls of private functions that never return; such calls do not return to these addresses.
  CHECK(counts.equal > 2'000);
  CHECK(counts.different * 100 < counts.equal);
  CHECK(counts.unknown * 100 < counts.equal);
  CHECK(counts.never * 50 < counts.equal);
}

}  // namespace heapprof::unwind
