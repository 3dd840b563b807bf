// Pinned memory at one moment, as a compacted trace keeps it (SectionKind::kPinned in section.h).
//
// In a compacted trace, numbers replace the addresses of blocks. What follows from addresses, namely which stacks
// keep memory together (docs/concepts/pinned-memory.md), is computed while the trace is compacted: at each snapshot
// of resident pages, and at the end.
//
//   contents = allocator note returnable_bytes stack_count stack* set_count set*
//   stack    = node minus the one before, requested_bytes, usable_bytes, blocks     by node, ascending
//   set      = member_count, pages, members: each a stack's position minus the one before, ascending
//
// Numbers are varints; the first node and the first member of a set count from -1, so that no difference is 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::trace {

struct PinnedTable {
  /// The live blocks of a stack.
  struct Stack {
    std::uint32_t node = 0;  ///< dense index
    std::uint64_t requested_bytes = 0;
    std::uint64_t usable_bytes = 0;
    std::uint64_t blocks = 0;
  };
  /// Pages that exactly these stacks keep.
  struct Set {
    std::uint64_t pages = 0;  ///< of kPinnedPageBytes
    std::size_t first = 0;    ///< in `members`
    std::size_t count = 0;
  };

  std::string allocator;  ///< "glibc", "jemalloc", ...
  std::string note;       ///< for the user, about the allocator; empty: none
  std::uint64_t returnable_bytes = 0;
  std::vector<Stack> stacks;
  std::vector<Set> sets;
  std::vector<std::uint32_t> members;  ///< positions in `stacks`
};

inline constexpr std::uint64_t kPinnedPageBytes = 4096;

/// The greatest numbers of sets, and of their members together, that a reader accepts in a section with a payload of
/// `payload_bytes`, so that its memory stays in proportion to the file: a set takes about 110 bytes, a member 12. A
/// set of a large table takes more than two bytes of payload, since no two sets are equal.
constexpr std::uint64_t max_pinned_sets(std::uint64_t payload_bytes) noexcept {
  return (256u << 10) + payload_bytes / 2;
}
constexpr std::uint64_t max_pinned_members(std::uint64_t payload_bytes) noexcept {
  return (4u << 20) + 4 * payload_bytes;
}

void save(const PinnedTable& table, ByteWriter& out);
/// `node_count`: of the trace. Throws FormatError.
PinnedTable load_pinned_table(ByteReader& in, std::uint32_t node_count, std::uint64_t payload_bytes);

}  // namespace heapprof::trace
