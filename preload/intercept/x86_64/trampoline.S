/* The trampoline: passes a call of a patched function to the recorder and to the function (patched_call.h).
 *
 * The jump at the function's entry leads to its stub (patch.cpp), which creates a frame and jumps here:
 *
 *     push rbp;  mov rbp, rsp;  push [PatchedFunction];  jmp heapprof_intercept_entry
 *
 * The trampoline preserves every register that a call may clobber, because callers may rely on registers that the
 * function does not change (GCC's -fipa-ra). The library never changes the upper halves of vector registers. The
 * sixteen vector registers are saved only around the two functions that record. docs/embedded-allocators.md describes
 * reasons and costs.
 *
 * Frame, from rbp down: CallFrame (176 bytes and the PatchedFunction), sixteen vector registers; up to 456 bytes with
 * the return address. Frame-pointer walkers and, by the unwind information below, exceptions pass through it. */

#define FRAME -176

        .text
        .hidden heapprof_intercept_entry
        .hidden heapprof_intercept_returned
        .hidden heapprof_intercept_begin
        .hidden heapprof_intercept_begin_recorded
        .hidden heapprof_intercept_end
        .hidden heapprof_intercept_end_recorded

.macro save_registers
        movq    %rax, FRAME+0(%rbp)
        movq    %rcx, FRAME+8(%rbp)
        movq    %rdx, FRAME+16(%rbp)
        movq    %rsi, FRAME+24(%rbp)
        movq    %rdi, FRAME+32(%rbp)
        movq    %r8, FRAME+40(%rbp)
        movq    %r9, FRAME+48(%rbp)
        movq    %r10, FRAME+56(%rbp)
        movq    %r11, FRAME+64(%rbp)
.endm

.macro restore_registers
        movq    FRAME+0(%rbp), %rax
        movq    FRAME+8(%rbp), %rcx
        movq    FRAME+16(%rbp), %rdx
        movq    FRAME+24(%rbp), %rsi
        movq    FRAME+32(%rbp), %rdi
        movq    FRAME+40(%rbp), %r8
        movq    FRAME+48(%rbp), %r9
        movq    FRAME+56(%rbp), %r10
        movq    FRAME+64(%rbp), %r11
.endm

.macro save_vectors
        movups  %xmm0, 0(%rsp)
        movups  %xmm1, 16(%rsp)
        movups  %xmm2, 32(%rsp)
        movups  %xmm3, 48(%rsp)
        movups  %xmm4, 64(%rsp)
        movups  %xmm5, 80(%rsp)
        movups  %xmm6, 96(%rsp)
        movups  %xmm7, 112(%rsp)
        movups  %xmm8, 128(%rsp)
        movups  %xmm9, 144(%rsp)
        movups  %xmm10, 160(%rsp)
        movups  %xmm11, 176(%rsp)
        movups  %xmm12, 192(%rsp)
        movups  %xmm13, 208(%rsp)
        movups  %xmm14, 224(%rsp)
        movups  %xmm15, 240(%rsp)
.endm

.macro restore_vectors
        movups  0(%rsp), %xmm0
        movups  16(%rsp), %xmm1
        movups  32(%rsp), %xmm2
        movups  48(%rsp), %xmm3
        movups  64(%rsp), %xmm4
        movups  80(%rsp), %xmm5
        movups  96(%rsp), %xmm6
        movups  112(%rsp), %xmm7
        movups  128(%rsp), %xmm8
        movups  144(%rsp), %xmm9
        movups  160(%rsp), %xmm10
        movups  176(%rsp), %xmm11
        movups  192(%rsp), %xmm12
        movups  208(%rsp), %xmm13
        movups  224(%rsp), %xmm14
        movups  240(%rsp), %xmm15
.endm

        .globl  heapprof_intercept_entry
        .type   heapprof_intercept_entry, @function
heapprof_intercept_entry:
        .cfi_startproc
        .cfi_def_cfa %rbp, 16
        .cfi_offset %rbp, -16
        subq    $424, %rsp
        andq    $-16, %rsp      /* GCC's -fipa-stack-alignment: callers that know the function may not align it */
        save_registers
        leaq    FRAME(%rbp), %rdi
        call    heapprof_intercept_begin
        cmpl    $2, %eax
        jne     2f
        save_vectors
        leaq    FRAME(%rbp), %rdi
        call    heapprof_intercept_begin_recorded
        restore_vectors
2:      movl    %eax, FRAME+80(%rbp)
        restore_registers
        cmpl    $0, FRAME+80(%rbp)
        je      1f
        call    *FRAME+72(%rbp)
        .globl  heapprof_intercept_returned
heapprof_intercept_returned:
        save_registers
        leaq    FRAME(%rbp), %rdi
        call    heapprof_intercept_end
        testb   %al, %al
        jz      3f
        save_vectors
        leaq    FRAME(%rbp), %rdi
        call    heapprof_intercept_end_recorded
        restore_vectors
3:      restore_registers
        leave
        .cfi_remember_state
        .cfi_def_cfa %rsp, 8
        .cfi_same_value %rbp
        ret
        /* Nothing to record: jump to the function. Its address is below the stack pointer now, in the red zone, where
         * no signal handler writes. */
1:      .cfi_restore_state
        leave
        .cfi_def_cfa %rsp, 8
        .cfi_same_value %rbp
        notrack jmp *-112(%rsp)
        .cfi_endproc
        .size   heapprof_intercept_entry, . - heapprof_intercept_entry

        .section .note.GNU-stack, "", @progbits
