// Names of signals. sigabbrev_np(3) would do, but only glibc 2.32 and later have it.
#pragma once

#include <array>

namespace heapprof::cli {

/// "KILL" for 9; null for a real-time signal and for what is no signal. Numbers of x86-64 and aarch64, signal(7).
constexpr const char* signal_name(int number) {
  constexpr std::array kNames = {
      "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1", "SEGV",
      "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN", "TTOU",
      "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "POLL", "PWR",  "SYS",
  };
  return number >= 1 && number <= static_cast<int>(kNames.size()) ? kNames[static_cast<unsigned>(number) - 1]
                                                                  : nullptr;
}

}  // namespace heapprof::cli
