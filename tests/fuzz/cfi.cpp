// The recorder's parser of .eh_frame and .eh_frame_hdr on arbitrary bytes, and the evaluation of the resulting rules.
// Expressions may read the stack: they get a separate one, between pages that cannot be read.
#include <cstdlib>
#include <memory>

#include "preload/unwind/cfi.h"
#include "preload/unwind/expression.h"
#include "preload/unwind/stack_bounds.h"
#include "tests/fuzz/input.h"

namespace {

using namespace heapprof;
using namespace heapprof::unwind;

constexpr std::size_t kStackBytes = 16384;

std::uint64_t make_stack() {
  start_probing();
  auto* pages =
      static_cast<char*>(::mmap(nullptr, kStackBytes + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (::mprotect(pages + 4096, kStackBytes, PROT_READ | PROT_WRITE) != 0) std::abort();
  std::memset(pages + 4096, 0x5a, kStackBytes);
  return reinterpret_cast<std::uint64_t>(pages) + 4096;
}

void run(const CfiEntry& entry, std::uint64_t pc) {
  static const std::uint64_t stack = make_stack();
  CfiRow row;
  if (!run_cfi(entry, pc, row)) return;
  arch::Registers registers{};
  registers.known = ~std::uint64_t{0};
  for (auto& value : registers.value) value = stack + 4096;
  StackBounds bounds{};
  bounds.reset();
  bounds.begin(stack + 4096);
  std::uint64_t result = 0;
  if (row.cfa_is_expression) {
    evaluate(row, row.cfa_offset, registers, bounds, nullptr, result);
    simplify(row, row.cfa_offset, pc);
  }
  for (unsigned number = 0; number < arch::kDwarfRegisters; ++number) {
    if (row.rule[number] != RegisterRule::kExpression && row.rule[number] != RegisterRule::kValExpression) continue;
    const std::uint64_t cfa = stack + 8192;
    evaluate(row, row.value[number], registers, bounds, &cfa, result);
    simplify(row, row.value[number], pc);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto how = input.take<std::uint8_t>();
  const auto split = input.take<std::uint16_t>();
  const auto distance = input.take<std::uint32_t>();
  // A copy of exactly this size, so that the sanitizer detects a read after it.
  const std::size_t bytes = input.left();
  const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[bytes]);
  std::copy(input.data(), input.data() + bytes, exact.get());
  const auto begin = reinterpret_cast<std::uint64_t>(exact.get());
  CfiEntry entry;
  if ((how & 1) != 0) {  // CFA instructions without an entry
    const std::uint64_t middle = begin + (bytes == 0 ? 0 : split % bytes);
    entry = {
        0x1000, 0x2000, {begin, middle}, {middle, begin + bytes}, how % 16u, static_cast<std::int8_t>(distance), 16,
        0x1b,   false};
    if ((how & 2) != 0) entry.data_factor = static_cast<std::int64_t>(std::uint64_t{distance} << 32);
    run(entry, 0x1000 + split % 0x1000);
    return 0;
  }
  Span frames{begin, begin + bytes};
  Span range;
  if (cfi_range(frames, range)) {
    for (const std::uint64_t pc : {range.begin, range.begin + distance, range.end - 1})
      if (find_cfi_linear({begin, begin + bytes}, pc, entry) == CfiResult::kFound) run(entry, pc);
  }
  ElfObject object{};
  object.eh_frame_hdr = begin + (bytes == 0 ? 0 : split % bytes);
  object.hdr_segment = object.eh_frame_segment = {begin, begin + bytes};
  for (const std::uint64_t pc :
       {begin + distance, object.eh_frame_hdr + static_cast<std::uint64_t>(static_cast<std::int32_t>(distance))})
    if (find_cfi(object, pc, entry) == CfiResult::kFound) run(entry, pc);
  return 0;
}
