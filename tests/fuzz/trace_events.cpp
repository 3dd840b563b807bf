// Arbitrary records in valid frames and staging blocks: the fuzzer writes the slots of several streams. All checks of
// frames and blocks succeed, so the replay gets events that no recorder writes.
#include "tests/fuzz/input.h"
#include "tests/fuzz/whole_report.h"
#include "tests/support/trace_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heapprof;
  static fuzz::MemoryFile memory;
  fuzz::Input input(data, size);
  test::TraceBuilder trace;
  trace.frame_extent_bytes = 16 << 10;
  const auto options = input.take<std::uint8_t>();
  trace.header.ticks_per_second = (options & 1) != 0 ? 1'000'000'000 : input.take<std::uint64_t>();
  trace.header.clock = (options & 2) != 0 ? Clock::kMonotonic : static_cast<Clock>(input.take<std::uint8_t>());
  test::TraceBuilder::Stream* streams[3] = {};
  std::uint64_t times[3] = {};
  while (input.left() >= 4) {
    const auto what = input.take<std::uint8_t>();
    const unsigned number = (what >> 6) % 3;
    if (streams[number] == nullptr) {
      streams[number] = &trace.stream();
      streams[number]->has_staging = (what & 0x20) == 0;
    }
    const auto op = static_cast<Op>(what & 0x1f);
    if (op == Op::kText) {
      const auto kind = static_cast<TextKind>(input.take<std::uint8_t>());
      const auto how = input.take<std::uint8_t>();
      const std::uint64_t tid = (how & 1) != 0 ? input.take<std::uint64_t>() : how;
      const std::uint64_t address = (how & 2) != 0 ? input.take<std::uint64_t>() : how >> 4;
      streams[number]->text(kind, tid, address,
                            input.text((how & 4) != 0 ? input.take<std::uint16_t>() % 3000 : how >> 3));
    } else if ((what & 0x1f) == 0x1f) {
      streams[number]->flush();
    } else if ((what & 0x1f) == 0x1e) {  // a record of arbitrary bits
      Slot slot = input.take<Slot>();
      if (slot.op() != Op::kText)
        streams[number]->add(slot.op(), slot.time, slot.address, slot.size(), slot.node, slot.aux);
    } else {  // a short record, with few addresses, so that events match
      const auto time = input.take<std::uint8_t>();
      const auto block = input.take<std::uint8_t>();
      const auto rest = input.take<std::uint8_t>();
      times[number] += time;
      const bool is_python = block >= 224;
      const std::uint64_t module = is_python ? raw(ModuleId::kPython) : block / 8u % 4u;
      const std::uint64_t parent_and_module = std::uint64_t{block % 8u} | module << 32;
      const std::uint64_t offset = is_python ? python_offset(rest % 4u, rest) : std::uint64_t{rest} * 16;
      if (op == Op::kNode) streams[number]->add(op, times[number], offset, parent_and_module, rest % 16, rest / 64);
      else streams[number]->add(op, times[number], 0x10000 + block * 4096u, rest * 1000u, rest % 16, rest % 8);
    }
  }
  const std::vector<std::uint8_t> bytes = trace.bytes();
  if (!memory.fill(bytes.data(), bytes.size())) return 0;
  if (!fuzz::is_tested_completely(data, size)) {
    fuzz::whole_report(memory.path(), {}, {});
    return 0;
  }
  replay::Selection selection;
  if ((options & 4) != 0) selection.from = replay::Moment{25, true};
  if ((options & 8) != 0) selection.min_lifetime_ns = 20;
  if ((options & 16) != 0) selection.kind = model::Kind::kMmap;
  fuzz::whole_report(memory.path(), selection,
                     {.reports = (options & 0xc0) == 0, .second_pass = (options & 32) != 0});
  return 0;
}
