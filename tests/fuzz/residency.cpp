// Arbitrary pieces of snapshots of resident pages in an undamaged trace. What the reader accepts is in order and
// within the address space, and ranges of pages cover what was asked for.
#include <cstdlib>
#include <string>

#include "analyzer/trace/residency.h"
#include "tests/fuzz/input.h"
#include "tests/support/trace_builder.h"

namespace {

using namespace heapprof;

void check(bool holds) {
  if (!holds) std::abort();
}

/// The ranges of [begin, end) follow each other, and neighbours differ.
void check_ranges(const trace::PageStates& pages, std::uint64_t begin, std::uint64_t end) {
  std::uint64_t at = begin;
  bool first = true;
  trace::PageState before;
  std::uint64_t resident = 0;
  pages.for_each_range(begin, end, [&](const AddressRange& range, const trace::PageState& state) {
    check(range.begin == at && range.begin < range.end && (first || state != before));
    check(pages.at(range.begin) == state && pages.at(range.end - 1) == state);
    if (state.resident()) resident += range.end - range.begin;
    at = range.end;
    before = state;
    first = false;
  });
  check(at == end && resident == pages.resident_bytes(begin, end));
}

void check_snapshot(const trace::ResidencySnapshot& snapshot) {
  check(snapshot.begin_ns <= snapshot.end_ns);
  std::uint64_t at = 0;
  for (const trace::ResidentMapping& mapping : snapshot.mappings) {
    check(mapping.begin >= at && mapping.begin <= mapping.end);
    at = mapping.end;
    check_ranges(snapshot.pages, mapping.begin, mapping.end);
  }
  const std::uint64_t page = snapshot.pages.page_bytes();
  check_ranges(snapshot.pages, 0, ~std::uint64_t{0} / page / 2 * page);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::MemoryFile memory;
  fuzz::Input input(data, size);
  test::TraceBuilder builder;
  auto& stream = builder.stream();
  stream.alloc(1, 0x1000, 1);
  std::uint64_t piece = 0;
  while (input.left() > 3) {
    const auto how = input.take<std::uint8_t>();
    const std::uint64_t snapshot = how & 3;
    if ((how & 4) != 0) piece = 0;
    if ((how & 8) != 0) stream.flush();
    stream.text(TextKind::kResidency, snapshot, piece++, input.text(input.take<std::uint16_t>() % 4000));
  }
  const auto bytes = builder.bytes();
  if (!memory.fill(bytes.data(), bytes.size())) return 0;
  const trace::TraceFile file(memory.path());
  trace::for_each_snapshot(file, [](trace::ResidencySnapshot&& snapshot) { check_snapshot(snapshot); });
  return 0;
}
