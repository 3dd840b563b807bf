// A trace with one frame in a library that exists: libc's getenv.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/support/trace_builder.h"

namespace heapprof::test {

inline constexpr std::uint64_t kLibcBytes = 777;

/// Returns libc's path; empty if it is not known.
inline std::string write_libc_frame(const std::string& path) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&std::getenv), &info) == 0 || info.dli_fname == nullptr) return {};
  const auto base = reinterpret_cast<std::uint64_t>(info.dli_fbase);
  TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(1, "main");
  main.module(2, info.dli_fname, "", base, base, 0);
  main.node(1, 0, 2, reinterpret_cast<std::uint64_t>(info.dli_saddr) - base + 8);
  main.alloc(1'000'000, 0xa000, kLibcBytes, 1);
  trace.write(path);
  return info.dli_fname;
}

}  // namespace heapprof::test
