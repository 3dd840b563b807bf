// A compacted trace whose sections contain arbitrary bytes. Their lengths, checksums and compression are valid.
#include <vector>

#include "analyzer/trace/compact/section.h"
#include "common/trace_format.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/sections.h"
#include "tests/fuzz/whole_report.h"
#include "tests/support/trace_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heapprof;
  static fuzz::MemoryFile memory;
  fuzz::Input input(data, size);
  const auto how = input.take<std::uint8_t>();
  test::TraceBuilder empty;
  empty.header.version_major = kCompactedVersionMajor;
  empty.header.version_minor = 0;
  if ((how & 1) != 0) empty.header.flags |= kHeaderRounded;
  std::vector<std::uint8_t> bytes = empty.bytes();
  while (input.left() >= 4) {
    const auto what = input.take<std::uint8_t>();
    trace::SectionHeader section{};
    section.kind = static_cast<trace::SectionKind>((what & 7) | (what >> 3 & 8));
    section.file_id = test::TraceBuilder::kFileId;
    section.number = (what & 8) != 0 ? input.take<std::uint64_t>() : 60;
    section.events = (what & 16) != 0 ? input.take<std::uint64_t>() : 50;
    section.last_time = (what & 32) != 0 ? input.take<std::uint64_t>() : 1000;
    fuzz::add_section(bytes, section, input.text(input.take<std::uint16_t>()));
  }
  if (!memory.fill(bytes.data(), bytes.size())) return 0;
  if (!fuzz::is_tested_completely(data, size)) {
    fuzz::read_events(memory.path());
    return 0;
  }
  replay::Selection selection;
  if ((how & 2) != 0) selection.from = replay::Moment{50, true};
  if ((how & 4) != 0) selection.to = replay::Moment{90, true};
  if ((how & 8) != 0) selection.min_lifetime_ns = 20;
  if ((how & 16) != 0) selection.kind = model::Kind::kAll;
  fuzz::whole_report(memory.path(), selection, {.reports = (how & 0xc0) == 0, .second_pass = (how & 32) != 0});
  return 0;
}
