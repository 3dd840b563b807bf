/* The way of a patched function's call to the recorder and on to the function (preload/intercept/call.h).
 *
 * A jump at the function's entry leads to its stub (patch.cpp), which makes a frame and jumps here:
 *
 *     push rbp;  mov rbp, rsp;  push [Target];  jmp heapprof_intercept_entry
 *
 * Here every register that a call may clobber is saved before C++ code runs, and again after the function has
 * returned: a caller that knows the function may count on more registers than the ABI keeps (GCC's -fipa-ra), and the
 * function leaves some of them alone. Of the vector registers the lower halves are saved always. The upper halves and
 * what AVX-512 adds only when they are in use, which the processor tells (Intel SDM 1, 13.6, XINUSE by XGETBV): after
 * vzeroupper, which compilers put before every call, they are not.
 *
 * rbp makes a frame as the ABI describes it, so that whoever walks frame pointers passes it, and the unwind
 * information below lets exceptions through. Frame, from rbp down: CallFrame (144 bytes and Target), sixteen vector
 * registers, and below them, aligned, an XSAVE area when one is needed. 432 bytes without that. */

#define FRAME -144
#define XMM -400

        .text
        .hidden heapprof_intercept_entry
        .hidden heapprof_intercept_returned
        .hidden heapprof_intercept_before
        .hidden heapprof_intercept_after
        .hidden heapprof_vector_mode
        .hidden heapprof_vector_mask
        .hidden heapprof_vector_bytes

.macro save_registers
        movq    %rax, FRAME+0(%rbp)
        movq    %rcx, FRAME+8(%rbp)
        movq    %rdx, FRAME+16(%rbp)
        movq    %rsi, FRAME+24(%rbp)
        movq    %rdi, FRAME+32(%rbp)
        movq    %r8,  FRAME+40(%rbp)
        movq    %r9,  FRAME+48(%rbp)
        movq    %r10, FRAME+56(%rbp)
        movq    %r11, FRAME+64(%rbp)
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
        movl    $0, FRAME+84(%rbp)
        movl    heapprof_vector_mode(%rip), %eax
        testl   %eax, %eax
        jz      9f
        cmpl    $1, %eax
        jne     8f
        movl    $1, %ecx
        xgetbv
        testl   heapprof_vector_mask(%rip), %eax
        jz      9f
8:      movl    $1, FRAME+84(%rbp)
        movl    heapprof_vector_bytes(%rip), %eax
        subq    %rax, %rsp
        andq    $-64, %rsp
        xorl    %edx, %edx
        movq    %rdx, 512(%rsp)         /* the area's header */
        movq    %rdx, 520(%rsp)
        movq    %rdx, 528(%rsp)
        movq    %rdx, 536(%rsp)
        movq    %rdx, 544(%rsp)
        movq    %rdx, 552(%rsp)
        movq    %rdx, 560(%rsp)
        movq    %rdx, 568(%rsp)
        cmpl    $1, heapprof_vector_mode(%rip)
        movl    heapprof_vector_mask(%rip), %eax
        jne     7f
        xsavec  (%rsp)
        jmp     9f
7:      xsave   (%rsp)
9:
.endm

.macro restore_registers
        cmpl    $0, FRAME+84(%rbp)
        je      9f
        movl    heapprof_vector_mask(%rip), %eax
        xorl    %edx, %edx
        xrstor  (%rsp)
        leaq    XMM(%rbp), %rsp
9:      movups  0(%rsp), %xmm0
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

        .globl  heapprof_intercept_entry
        .type   heapprof_intercept_entry, @function
heapprof_intercept_entry:
        .cfi_startproc
        .cfi_def_cfa %rbp, 16
        .cfi_offset %rbp, -16
        subq    $392, %rsp
        save_registers
        leaq    FRAME(%rbp), %rdi
        call    heapprof_intercept_before
        movl    %eax, FRAME+80(%rbp)
        restore_registers
        cmpl    $0, FRAME+80(%rbp)
        je      1f
        call    *FRAME+72(%rbp)
        .globl  heapprof_intercept_returned
heapprof_intercept_returned:
        save_registers
        leaq    FRAME(%rbp), %rdi
        call    heapprof_intercept_after
        restore_registers
        leave
        .cfi_remember_state
        .cfi_def_cfa %rsp, 8
        .cfi_same_value %rbp
        ret
        /* Nothing to do afterwards: the function takes our place. Where it is stands below the stack pointer now,
         * in the red zone, where no signal handler writes. */
1:      .cfi_restore_state
        leave
        .cfi_def_cfa %rsp, 8
        .cfi_same_value %rbp
        notrack jmp *-80(%rsp)
        .cfi_endproc
        .size   heapprof_intercept_entry, . - heapprof_intercept_entry

        .section .note.GNU-stack, "", @progbits
