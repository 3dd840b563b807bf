// x86-64 for the unwinder: DWARF register numbers (System V ABI, x86-64 supplement, figure 3.36), the layout of a
// signal frame (Linux, arch/x86/include/uapi/asm/sigcontext.h), and the capture of registers.
#pragma once

#include <cstdint>
#include <cstring>

namespace heapprof::arch {

/// rax rdx rcx rbx rsi rdi rbp rsp r8 to r15, and the column of the return address.
inline constexpr unsigned kDwarfRegisters = 17;
inline constexpr unsigned kDwarfFp = 6;
inline constexpr unsigned kDwarfSp = 7;
inline constexpr unsigned kDwarfRa = 16;
inline constexpr unsigned kPcColumn = 16;

/// At a function's entry, the return address is on the stack, at CFA-8.
inline constexpr bool kCallPushesReturnAddress = true;

/// Leaf functions may use this much below the stack pointer (ABI 3.2.2).
inline constexpr std::uint64_t kRedZoneBytes = 128;

inline constexpr std::uint16_t kElfMachine = 62;  // EM_X86_64

/// The registers that DWARF numbers. The return address column is the program counter.
struct Registers {
  std::uint64_t value[kDwarfRegisters];
  std::uint64_t known;  ///< bit n: value[n] is valid
};

/// Captures the current values of the registers that calls preserve. Precondition: inlined into the function whose
/// frame is to be unwound.
[[gnu::always_inline]] inline void take_registers(Registers& registers) noexcept {
  std::uint64_t* value = registers.value;
  asm volatile(
      "movq %%rbx, 3*8(%[value])\n\t"
      "movq %%rbp, 6*8(%[value])\n\t"
      "movq %%rsp, 7*8(%[value])\n\t"
      "movq %%r12, 12*8(%[value])\n\t"
      "movq %%r13, 13*8(%[value])\n\t"
      "movq %%r14, 14*8(%[value])\n\t"
      "movq %%r15, 15*8(%[value])\n\t"
      "leaq 0f(%%rip), %%rax\n\t"
      "0:\n\t"
      "movq %%rax, 16*8(%[value])"
      :
      : [value] "r"(value)
      : "rax", "memory");
  registers.known = 1u << 3 | 1u << 6 | 1u << 7 | 0xfu << 12 | 1u << 16;
}

/// The number of bytes that is_signal_return() reads.
inline constexpr std::uint64_t kSignalReturnBytes = 9;

/// Whether `code` is the signal trampoline, to which signal handlers return: mov $15, %rax (or %eax); syscall.
inline bool is_signal_return(const std::uint8_t* code) noexcept {
  static constexpr std::uint8_t kLong[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  static constexpr std::uint8_t kShort[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
  return std::memcmp(code, kLong, sizeof kLong) == 0 || std::memcmp(code, kShort, sizeof kShort) == 0;
}

/// The offset of DWARF register n in the signal frame, from the stack pointer at the handler's return. This stack
/// pointer is the address of the ucontext, whose general registers begin at offset 40, in the order r8 to r15, rdi
/// rsi rbp rbx rdx rax rcx rsp rip.
inline constexpr std::uint16_t kSignalFrameOffset[kDwarfRegisters] = {144, 136, 152, 128, 112, 104, 120, 160, 40,
                                                                      48,  56,  64,  72,  80,  88,  96,  168};

/// The end of the addresses at which code can be: user space has at most 56 bits, with five-level paging.
inline constexpr std::uint64_t kCodeEnd = std::uint64_t{1} << 56;

/// The return address without authentication code; x86-64 has none.
inline std::uint64_t strip(std::uint64_t return_address) noexcept { return return_address; }

/// The value of the thread register. In threads that glibc created, it points into the top of the thread's stack.
inline std::uint64_t thread_pointer() noexcept {
  std::uint64_t value;
  asm("movq %%fs:0, %0" : "=r"(value));
  return value;
}

}  // namespace heapprof::arch
