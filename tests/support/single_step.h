// Interrupts code after a given number of instructions, as a signal handler or another thread can do at any
// instruction. HEAPPROF_SINGLE_STEP is defined where this is possible: on x86-64 (with the trap flag), but not with
// ThreadSanitizer, whose own code would be interrupted, too.
//
// A step by the trap flag takes some 10 us, and to step from the begin of a call to each of its instructions takes a
// quadratic number of them. InstructionStop notes the addresses of the steps (its path): the next call runs without
// traps until a breakpoint at the path's end, and only the instructions after it are steps. A call that takes another
// way misses the breakpoint; the caller repeats it, and the repetition steps from its begin.
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define HEAPPROF_SINGLE_STEP 1

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace heapprof::test {

/// Stops a thread at an instruction of a call. One static object per kind of call: its path is that of the previous
/// calls. Not thread safe.
///
///   void handle(int, siginfo_t* info, void* context) { if (stop.is_reached(info, context)) ...; }   of SIGTRAP
///
///   stop.prepare(n);
///   raise(SIGTRAP);      or set the trap flag
///   call();
///   stop.finish();
///   raise(SIGTRAP);      clears the trap flag if the call ended earlier
class InstructionStop {
 public:
  /// Only instructions in [begin, end) are counted and noted. By default: all.
  void count_only(std::uint64_t begin, std::uint64_t end) noexcept {
    begin_ = begin;
    end_ = end;
  }

  /// The next call takes another way than the previous ones: do not use their path.
  void forget_path() noexcept { length_ = 0; }

  /// The next call will be stopped before its `instruction`-th counted instruction. If all are counted, the first one
  /// is that after raise(SIGTRAP), and 0 stops in raise() itself.
  void prepare(std::uint64_t instruction) noexcept {
    wanted_ = instruction;
    missed_ = false;
    state_ = State::kPrepared;
  }

  /// Handles a SIGTRAP. True: this is the instruction, and the thread does not trap any more.
  bool is_reached(const siginfo_t* info, void* context) noexcept {
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    auto address = static_cast<std::uint64_t>(registers[REG_RIP]);
    registers[REG_EFL] &= ~kTrapFlag;
    switch (state_) {
      case State::kOff: return false;
      case State::kPrepared:
        if (begin_at_breakpoint()) return false;
        count_ = 0;
        length_ = 0;
        traps_ = 0;
        state_ = State::kStepping;
        if (begin_ != 0 || wanted_ != 0) break;
        state_ = State::kOff;
        return true;
      case State::kRunning:
        if (!is_breakpoint(info, address)) return false;
        registers[REG_RIP] = static_cast<greg_t>(--address);
        remove_breakpoint();
        if (--passes_left_ != 0) {
          state_ = State::kPassing;
          break;
        }
        state_ = State::kStepping;
        previous_ = address;
        traps_ = path_[count_ - 1].traps;
        if (count_ != wanted_) break;
        state_ = State::kOff;
        return true;
      case State::kPassing:
        if (address == path_[count_ - 1].address) break;  // an iteration of a string instruction
        state_ = set_breakpoint(path_[count_ - 1].address) ? State::kRunning : State::kOff;
        return false;
      case State::kIterating:
        if (!is_breakpoint(info, address)) return false;
        registers[REG_RIP] = static_cast<greg_t>(--address);
        remove_breakpoint();
        state_ = State::kStepping;
        [[fallthrough]];
      case State::kStepping:
        ++traps_;
        if (address == previous_) {
          const std::size_t bytes = string_instruction_bytes(address);
          if (bytes == 0 || !set_breakpoint(address + bytes)) break;
          state_ = State::kIterating;
          return false;
        }
        previous_ = address;
        if (address < begin_ || address >= end_) break;
        if (count_++ == length_ && length_ < kMaxPath) note(address);
        if (count_ != wanted_) break;
        state_ = State::kOff;
        return true;
    }
    registers[REG_EFL] |= kTrapFlag;
    return false;
  }

  /// To be called after the call. False: it ended before the instruction.
  bool finish() noexcept {
    if (state_ == State::kRunning || state_ == State::kPassing) {
      length_ = 0;
      missed_ = true;
    }
    if (breakpoint_ != 0) remove_breakpoint();
    const bool reached = state_ == State::kOff;
    state_ = State::kOff;
    return reached;
  }

  /// The call took another way than the previous one. Whether it has the instruction is unknown; when it is repeated,
  /// it will be known.
  bool missed() const noexcept { return missed_; }

  /// Counted instructions of the call that was stopped or has ended.
  std::uint64_t count() const noexcept { return count_; }

 private:
  static constexpr greg_t kTrapFlag = 1 << 8;
  static constexpr unsigned char kBreakpoint = 0xcc;
  static constexpr std::uint32_t kNever = 1 << 30;
  static constexpr std::size_t kMaxPath = 1 << 14;

  enum class State : unsigned char {
    kOff,
    kPrepared,
    kRunning,  ///< to the breakpoint
    kPassing,  ///< executes the breakpoint's instruction
    kStepping,
    kIterating  ///< executes a string instruction, whose iterations would be steps
  };

  struct Step {
    std::uint64_t address;
    std::uint32_t visits;  ///< of the address, up to this step; kNever: it can have no breakpoint
    std::uint32_t traps;   ///< since the call's begin
  };

  void note(std::uint64_t address) noexcept {
    std::uint32_t visits = 1;
    for (std::size_t i = length_; i-- != 0;)
      if (path_[i].address == address) {
        visits = path_[i].visits + 1;
        break;
      }
    // The return of a signal handler, also of the one that handles the breakpoint.
    if (is_signal_return(address)) visits = kNever;
    path_[length_++] = {address, visits, traps_};
  }

  bool begin_at_breakpoint() noexcept {
    const std::size_t last = std::min<std::size_t>(wanted_, length_);
    if (last == 0) return false;
    // In a loop, each iteration costs as much as three steps, and the next call may have another number of them.
    const auto cost = [&](std::size_t count) {
      const Step& step = path_[count - 1];
      return 3 * step.visits + (step.visits > 1 ? 20 : 0) + path_[last - 1].traps - step.traps;
    };
    count_ = last;
    for (std::size_t count = last; count > 0 && path_[last - 1].traps - path_[count - 1].traps < cost(count_);
         --count)
      if (cost(count) < cost(count_)) count_ = count;
    if (cost(count_) > path_[last - 1].traps || !set_breakpoint(path_[count_ - 1].address)) return false;
    passes_left_ = path_[count_ - 1].visits;
    state_ = State::kRunning;
    return true;
  }

  /// mov $SYS_rt_sigreturn, %rax; syscall
  static bool is_signal_return(std::uint64_t address) noexcept {
    static constexpr unsigned char kReturn[] = {0x48, 0xc7, 0xc0, SYS_rt_sigreturn, 0, 0, 0, 0x0f, 0x05};
    const auto* const code = reinterpret_cast<const unsigned char*>(address);
    const auto equal = [](const unsigned char* found) {
      for (unsigned i = 0; i < sizeof kReturn; ++i)
        if (found[i] != kReturn[i]) return false;
      return true;
    };
    return equal(code) || (code[0] == 0x0f && equal(code - 7));
  }

  /// The length of rep movs, rep stos and the like; 0: another instruction.
  static std::size_t string_instruction_bytes(std::uint64_t address) noexcept {
    const auto* const code = reinterpret_cast<const unsigned char*>(address);  // rep, perhaps REX.W, operation
    if (code[0] != 0xf2 && code[0] != 0xf3) return 0;
    const std::size_t operation = code[1] == 0x48 ? 2 : 1;
    return code[operation] >= 0xa4 && code[operation] <= 0xaf ? operation + 1 : 0;
  }

  bool is_breakpoint(const siginfo_t* info, std::uint64_t address) const noexcept {
    return info->si_code == SI_KERNEL && address == breakpoint_ + 1;  // int3
  }

  bool set_breakpoint(std::uint64_t address) noexcept {
    code_ = *reinterpret_cast<const unsigned char*>(address);
    if (!write_code(address, kBreakpoint)) return false;
    breakpoint_ = address;
    return true;
  }

  void remove_breakpoint() noexcept {
    write_code(breakpoint_, code_);
    breakpoint_ = 0;
  }

  /// Writes one byte, which may be in a read-only mapping. It calls no function, because that could contain the
  /// breakpoint.
  static bool write_code(std::uint64_t address, unsigned char code) noexcept {
    static long memory = -1;
    if (memory == -1) memory = system_call(SYS_open, reinterpret_cast<long>("/proc/self/mem"), O_RDWR | O_CLOEXEC);
    return system_call(SYS_pwrite64, memory, reinterpret_cast<long>(&code), 1, static_cast<long>(address)) == 1;
  }

  [[gnu::always_inline]] static long system_call(long number, long first, long second, long third = 0,
                                                 long fourth = 0) noexcept {
    register long r10 asm("r10") = fourth;
    long result = number;
    asm volatile("syscall" : "+a"(result) : "D"(first), "S"(second), "d"(third), "r"(r10) : "rcx", "r11", "memory");
    return result;
  }

  std::uint64_t begin_ = 0, end_ = ~std::uint64_t{0};
  std::uint64_t wanted_ = 0, count_ = 0, previous_ = 0;
  std::size_t length_ = 0;
  std::uint32_t passes_left_ = 0, traps_ = 0;
  volatile State state_ = State::kOff;
  std::uint64_t breakpoint_ = 0;
  unsigned char code_ = 0;  ///< the byte at the breakpoint
  bool missed_ = false;
  Step path_[kMaxPath];
};

namespace single_step {

inline InstructionStop* g_stop = nullptr;
inline void (*g_interrupt)() = nullptr;

inline void interrupt_at_stop(int, siginfo_t* info, void* context) {
  if (g_stop->is_reached(info, context)) g_interrupt();
}

}  // namespace single_step

/// Calls `body`, and `interrupt` in a signal handler after `steps` instructions of it. False: `body` ended before, or
/// took another way than in the previous call with `stop`; stop.missed() shows which. Not thread safe.
template <typename Body>
bool interrupt_after(InstructionStop& stop, unsigned steps, Body body, void (*interrupt)()) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_sigaction = single_step::interrupt_at_stop;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &before);
  single_step::g_stop = &stop;
  single_step::g_interrupt = interrupt;
  stop.prepare(steps);
  raise(SIGTRAP);
  body();
  const bool interrupted = stop.finish();
  sigaction(SIGTRAP, &before, nullptr);
  return interrupted;
}

/// The same; steps through all of `body`.
template <typename Body>
bool interrupt_after(unsigned steps, Body body, void (*interrupt)()) {
  static InstructionStop stop;
  stop.forget_path();
  return interrupt_after(stop, steps, body, interrupt);
}

}  // namespace heapprof::test

#endif
