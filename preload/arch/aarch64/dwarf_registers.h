// AArch64 for the unwinder: DWARF register numbers (AADWARF64, section 4.1), the layout of a signal frame (Linux,
// arch/arm64/kernel/signal.c, struct rt_sigframe), and the capture of registers.
#pragma once

#include <cstdint>
#include <cstring>

namespace heapprof::arch {

/// x0 to x30, sp, and the program counter (kPcColumn). The return address is in the link register's column.
inline constexpr unsigned kDwarfRegisters = 33;
inline constexpr unsigned kDwarfFp = 29;
inline constexpr unsigned kDwarfSp = 31;
inline constexpr unsigned kDwarfRa = 30;

/// At a function's entry, the return address is in x30; functions that call others save it.
inline constexpr bool kCallPushesReturnAddress = false;

inline constexpr std::uint64_t kRedZoneBytes = 0;

inline constexpr std::uint16_t kElfMachine = 183;  // EM_AARCH64

/// The program counter's column.
inline constexpr unsigned kPcColumn = 32;

struct Registers {
  std::uint64_t value[kDwarfRegisters];
  std::uint64_t known;  ///< bit n: value[n] is valid
};

/// Captures the current values of the registers that calls preserve. Precondition: inlined into the function whose
/// frame is to be unwound.
[[gnu::always_inline]] inline void take_registers(Registers& registers) noexcept {
  std::uint64_t* value = registers.value;
  asm volatile(
      "stp x19, x20, [%[value], 19*8]\n\t"
      "stp x21, x22, [%[value], 21*8]\n\t"
      "stp x23, x24, [%[value], 23*8]\n\t"
      "stp x25, x26, [%[value], 25*8]\n\t"
      "stp x27, x28, [%[value], 27*8]\n\t"
      "stp x29, x30, [%[value], 29*8]\n\t"
      "mov x16, sp\n\t"
      "adr x17, 0f\n\t"
      "0:\n\t"
      "stp x16, x17, [%[value], 31*8]"
      :
      : [value] "r"(value)
      : "x16", "x17", "memory");
  registers.known = std::uint64_t{0x3fff} << 19;  // x19...x30, sp, pc
}

/// The number of bytes that is_signal_return() reads.
inline constexpr std::uint64_t kSignalReturnBytes = 8;

/// Whether `code` is the signal trampoline, to which signal handlers return: mov x8, #139; svc #0 (in the vDSO).
inline bool is_signal_return(const std::uint8_t* code) noexcept {
  static constexpr std::uint32_t kCode[] = {0xd2801168, 0xd4000001};
  return std::memcmp(code, kCode, sizeof kCode) == 0;
}

/// The offset of DWARF register n in the signal frame, from the stack pointer at the handler's return. The frame has
/// siginfo (128 bytes), ucontext up to its machine context (176), the fault address, x0 to x30, sp, pc.
inline constexpr std::uint16_t kSignalFrameOffset[kDwarfRegisters] = {
    312, 320, 328, 336, 344, 352, 360, 368, 376, 384, 392, 400, 408, 416, 424, 432, 440,
    448, 456, 464, 472, 480, 488, 496, 504, 512, 520, 528, 536, 544, 552, 560, 568};

/// The end of the addresses at which code can be: user space has at most 52 bits.
inline constexpr std::uint64_t kCodeEnd = std::uint64_t{1} << 52;

/// The return address without its pointer authentication code, removed by xpaclri: a hint that older processors
/// ignore.
inline std::uint64_t strip(std::uint64_t return_address) noexcept {
  register std::uint64_t x30 asm("x30") = return_address;
  asm("hint 7" : "+r"(x30));
  return x30;
}

/// The value of the thread register. In threads that glibc created, it points into the top of the thread's stack.
inline std::uint64_t thread_pointer() noexcept {
  std::uint64_t value;
  asm("mrs %0, tpidr_el0" : "=r"(value));
  return value;
}

}  // namespace heapprof::arch
