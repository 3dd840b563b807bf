// Functions with allocators' names whose entries are hard to patch, and one that changes only the register rax.
//
// A patched function must preserve the registers that it preserves unpatched: compilers rely on that for functions
// whose code they know (-fipa-ra).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

extern "C" {
void* je_malloc(std::size_t);
void* je_calloc(std::size_t, std::size_t);
void* je_aligned_alloc(std::size_t, std::size_t);
void* je_valloc(std::size_t);
void* je_pvalloc(std::size_t);
void* je_mallocx(std::size_t, int);
void* _rjem_malloc(std::size_t);
void* _rjem_calloc(std::size_t, std::size_t);
void* _rjem_mallocx(std::size_t, int);
void* _rjem_memalign(std::size_t, std::size_t);
void* _rjem_valloc(std::size_t);
void test_bystander(std::size_t);
void je_free(void*);
alignas(64) char test_area[1 << 20];
char* test_next = test_area;
void* test_helper(std::size_t bytes) {
  void* block = test_next;
  test_next += (bytes + 63) / 64 * 64;
  return block;
}
}

asm(R"(
        .text
        .macro function name
        .globl  \name
        .type   \name, @function
\name:
        .cfi_startproc
        .endm
        .macro end_of name
        .cfi_endproc
        .size   \name, . - \name
        .endm

        # Changes rax only; begins with an instruction that refers to its own address.
        .balign 16
        function je_malloc
        movq    test_next(%rip), %rax
        addq    $4096, test_next(%rip)
        ret
        end_of  je_malloc

        # Begins with endbr64 and a short conditional branch.
        .balign 16
        function je_calloc
        endbr64
        testq   %rdi, %rdi
        je      1f
        imulq   %rsi, %rdi
        jmp     test_helper
1:      xorl    %eax, %eax
        ret
        end_of  je_calloc

        # Consists of a jump.
        .balign 16
        function je_mallocx
        jmp     test_helper
        end_of  je_mallocx

        # A call among the first instructions.
        .balign 16
        function je_aligned_alloc
        movl    %esi, %edi
        call    test_aligned_helper
        addq    $0, %rax
        ret
        end_of  je_aligned_alloc
        function test_aligned_helper
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    test_helper
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        ret
        end_of  test_aligned_helper

        # Branches into its own first bytes.
        .balign 16
        function je_pvalloc
        xorl    %edx, %edx
3:      movq    %rdi, %rdi
        incl    %edx
        cmpl    $3, %edx
        jne     3b
        jmp     test_helper
        end_of  je_pvalloc

        # Shorter than a jump, with another function directly after it.
        function je_valloc
        xorl    %eax, %eax
        ret
        end_of  je_valloc
        function je_free
        nop
        nop
        nop
        nop
        nop
        ret
        end_of  je_free

        # Bytes that decode as a branch into a function's first instructions.
        .macro branch_bytes to
        .byte   0xe8
        .long   \to - . - 4
        .endm

        # The bytes are part of another instruction: the function is patched.
        .balign 16
        function _rjem_malloc
        movq    %rdi, %rax
        movq    %rax, %rdi
        jmp     test_helper
        end_of  _rjem_malloc
        function test_bystander
        testq   %rdi, %rdi
        je      1f
        .byte   0x48, 0xb8      # movabsq
        branch_bytes _rjem_malloc + 3
        .byte   0, 0, 0
1:      ret
        end_of  test_bystander

        # The bytes are a branch.
        .balign 16
        function _rjem_calloc
        imulq   %rsi, %rdi
        movq    %rdi, %rax
        jmp     test_helper
        end_of  _rjem_calloc
        function test_intruder
        movq    %rdi, %rcx
        jmp     _rjem_calloc + 4
        end_of  test_intruder

        # The bytes are a branch with a prefix, which linkers write in place of a call through the GOT.
        .balign 16
        function _rjem_valloc
        movq    %rdi, %rax
        movq    %rax, %rdi
        jmp     test_helper
        end_of  _rjem_valloc
        function test_linked
        .byte   0x67
        branch_bytes _rjem_valloc + 3
        ret
        end_of  test_linked

        # The bytes may be a branch: a jump leads into the middle of an instruction before them.
        .balign 16
        function _rjem_mallocx
        movq    %rdi, %rax
        movq    %rax, %rdi
        jmp     test_helper
        end_of  _rjem_mallocx
        function test_prefixed
        testq   %rdi, %rdi
        je      1f
        lock
1:      addq    $1, test_next(%rip)
        .byte   0x48, 0xb8
        branch_bytes _rjem_mallocx + 3
        .byte   0, 0, 0
        ret
        end_of  test_prefixed

        # The bytes may be a branch: no unwind information says which function contains them.
        .balign 16
        function _rjem_memalign
        movq    %rsi, %rax
        movq    %rax, %rdi
        jmp     test_helper
        end_of  _rjem_memalign
        .byte   0x48, 0xb8
        branch_bytes _rjem_memalign + 3
        .byte   0, 0, 0
        ret
)");

namespace {

struct alignas(64) Registers {
  unsigned char vectors[16][32];
  std::uint64_t numbers[8];  // rcx rdx rsi rdi r8 r9 r10 r11
};
Registers before, after;

[[gnu::noinline]] bool registers_hold(bool wide) {
  for (std::size_t i = 0; i < sizeof before; ++i)
    reinterpret_cast<unsigned char*>(&before)[i] = static_cast<unsigned char>(i * 7 + 1);
  before.numbers[3] = 4096;  // rdi: the size
  after = before;
#define LOAD(n) "vmovdqa " #n "*32(%0), %%ymm" #n "\n\t"
#define STORE(n) "vmovdqa %%ymm" #n ", " #n "*32(%1)\n\t"
#define LOADX(n) "movdqa " #n "*32(%0), %%xmm" #n "\n\t"
#define STOREX(n) "movdqa %%xmm" #n ", " #n "*32(%1)\n\t"
#define ALL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define NUMBERS_IN                                                                               \
  "movq 512(%0), %%rcx\n\tmovq 520(%0), %%rdx\n\tmovq 528(%0), %%rsi\n\tmovq 536(%0), %%rdi\n\t" \
  "movq 544(%0), %%r8\n\tmovq 552(%0), %%r9\n\tmovq 560(%0), %%r10\n\tmovq 568(%0), %%r11\n\t"
#define NUMBERS_OUT                                                                              \
  "movq %%rcx, 512(%1)\n\tmovq %%rdx, 520(%1)\n\tmovq %%rsi, 528(%1)\n\tmovq %%rdi, 536(%1)\n\t" \
  "movq %%r8, 544(%1)\n\tmovq %%r9, 552(%1)\n\tmovq %%r10, 560(%1)\n\tmovq %%r11, 568(%1)\n\t"
#define CLOBBERS                                                                                               \
  "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", \
      "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc"
  register Registers* in asm("rbx") = &before;
  register Registers* out asm("r12") = &after;
  register void* stack asm("r13");
  if (wide) {
    asm volatile("movq %%rsp, %2\n\tsubq $128, %%rsp\n\tandq $-16, %%rsp\n\t" ALL(LOAD) NUMBERS_IN
                 "call je_malloc\n\t" ALL(STORE) NUMBERS_OUT "movq %2, %%rsp\n\tvzeroupper"
                 : "+r"(in), "+r"(out), "=&r"(stack)
                 :
                 : CLOBBERS);
  } else {
    asm volatile("movq %%rsp, %2\n\tsubq $128, %%rsp\n\tandq $-16, %%rsp\n\t" ALL(LOADX) NUMBERS_IN
                 "call je_malloc\n\t" ALL(STOREX) NUMBERS_OUT "movq %2, %%rsp"
                 : "+r"(in), "+r"(out), "=&r"(stack)
                 :
                 : CLOBBERS);
  }
  return std::memcmp(&before, &after, sizeof before) == 0;
}

}  // namespace

int main() {
  // The first call takes the recorder's slow path: nothing is cached yet.
  bool held = true;
  const bool wide = __builtin_cpu_supports("avx");
  for (int i = 0; i < 50; ++i) held = registers_hold(wide && i % 2 == 0) && held;
  void* kept = nullptr;
  for (int i = 0; i < 10; ++i) {
    kept = je_calloc(3, 5);
    if (je_calloc(0, 5) != nullptr) return 2;
    je_mallocx(70, 0);
    je_aligned_alloc(64, 90);
    je_pvalloc(130);
    je_valloc(150);
    _rjem_malloc(170);
    _rjem_calloc(10, 19);
    _rjem_mallocx(210, 0);
    _rjem_memalign(64, 230);
    _rjem_valloc(250);
    test_bystander(1);
  }
  je_free(kept);
  std::printf("registers %d\n", held);
  return held ? 0 : 1;
}
