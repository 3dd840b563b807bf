#include "tests/unit/cli/known_trace.h"

#include "tests/support/trace_builder.h"

namespace heapprof::test {
namespace {

constexpr std::uint32_t kDemo = 2, kLibrary = 3;                      // modules
constexpr std::uint32_t kMain = 1, kLoad = 2, kParse = 3, kWork = 4;  // nodes

void start(TraceBuilder::Stream& main) {
  main.thread(kMainTid, "main");
  main.text(TextKind::kProgram, 0, 0, "/opt/known/demo");
  main.text(TextKind::kCommandLine, 0, 0, std::string_view("demo\0--fast\0", 12));
  main.module(kDemo, "/opt/known/demo", "\x01\x23", 0x400000, 0x400000, 0x10000, true);
  main.module(kLibrary, "/opt/known/libwork.so", "\x45\x67", 0x7f0000000000, 0x7f0000000000);
}

}  // namespace

KnownTrace::KnownTrace(Variant variant) {
  TraceBuilder trace;
  trace.header.parent_pid = kParentPid;
  auto& main = trace.stream();
  start(main);
  if (variant == Variant::kEmpty) {
    trace.write(path());
    return;
  }
  const std::uint64_t times = variant == Variant::kTwice ? 2 : 1;
  auto& worker = trace.stream();
  worker.thread(kWorkerTid, "worker");
  main.node(kMain, 0, kDemo, 0x100);
  main.node(kLoad, kMain, kDemo, 0x200);
  main.node(kParse, kMain, kDemo, 0x300);
  worker.node(kWork, 0, kLibrary, 0x400);
  main.alloc(10 * kMs, 0xa000, times * kA, kLoad);
  main.alloc(20 * kMs, 0xb000, times * kB, kParse);
  worker.alloc(30 * kMs, 0xc000, times * kC, kWork);
  main.free(40 * kMs, 0xb000);
  worker.free(50 * kMs, 0xa000);
  main.alloc(60 * kMs, 0xd000, times * kD, kParse);
  main.free(60 * kMs + kMs / 2, 0xd000);
  main.alloc(70 * kMs, 0xe000, times * kE, kLoad);
  main.sample(100 * kMs, trace.header.start_monotonic_ns + 100 * kMs, kResidentBytes);
  main.flush();
  std::vector<std::uint8_t> bytes = trace.bytes();
  if (variant == Variant::kDamaged) bytes[trace.frame_offsets(0).front() + sizeof(FrameHeader) + 20] ^= 0xff;
  TraceBuilder::write_bytes(path(), bytes);
}

}  // namespace heapprof::test
