#include "analyzer/rss/sample_lines.h"

#include <algorithm>

#include "analyzer/rss/snapshot_lines.h"
#include "common/trace_format.h"

namespace heapprof::rss {
namespace {

/// Hands out the private resident memory.
class Budget {
 public:
  Budget(ResidentMemory& memory, std::uint64_t bytes) : memory_(memory), left_(bytes) {}

  std::uint64_t give(std::uint64_t bytes) {
    const std::uint64_t given = std::min(bytes, left_);
    left_ -= given;
    return given;
  }
  std::uint64_t take(Line line, std::uint64_t bytes) {
    const std::uint64_t given = give(bytes);
    memory_[line].bytes += given;
    return given;
  }
  std::uint64_t left() const noexcept { return left_; }

 private:
  ResidentMemory& memory_;
  std::uint64_t left_;
};

}  // namespace

ResidentMemory estimate(const ResidentSample& sample, const ProcessMemory& process) {
  ResidentMemory memory;
  PartAdder parts(memory);
  const std::uint64_t shared = std::min(sample.shared_bytes.value_or(0), sample.resident_bytes);
  memory[Line::kFiles].bytes = shared;
  Budget budget(memory, sample.resident_bytes - shared);

  const LiveLayout& live = process.live;
  const std::uint64_t requested = sum_of(live.requested);
  const std::uint64_t taken = sum_of(live.taken);
  const PageRanges touched = rounded_out(live.taken, allocators::kPageBytes);
  memory.not_resident_bytes = requested - budget.take(Line::kRequested, requested);
  budget.take(Line::kRounding, taken - requested);
  budget.take(Line::kHoles, sum_of(touched) - taken);
  budget.take(Line::kHeldBack, sum_of(parts_outside(live.kept, touched)));
  for (const replay::LiveMapping& mapping : parts_outside(process.mappings, allocator_mappings(process))) {
    // Mappings of files are in the sample's shared memory.
    if ((mapping.flags & kMapAnonymous) == 0 || (mapping.flags & kMapReserve) != 0) continue;
    const std::uint64_t given = budget.give(mapping.end - mapping.begin);
    if (given != 0) parts.add(Line::kMmap, {"", mapping.node, given, false});
  }
  budget.take(Line::kReturnable, sum_of(parts_outside(parts_outside(process.once_held, live.kept), touched)));
  memory[Line::kUnknown].bytes = budget.left();
  sort_parts(memory);
  return memory;
}

}  // namespace heapprof::rss
