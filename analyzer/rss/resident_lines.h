// The lines of `heapprof rss`: classes of resident memory that do not overlap and together are all of it
// (docs/concepts/resident-memory.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/model/profile.h"

namespace heapprof::rss {

enum class Line : std::uint8_t {
  kRequested,  ///< requested bytes of live blocks
  kRounding,   ///< what their size classes and headers add
  kHoles,      ///< the rest of the pages that live blocks are on
  /// Free pages that cannot be returned, since a block in their granule is live. Its parts are pages that no live
  /// block keeps: the tops of glibc's arenas.
  kHeldBack,
  kReturnable,  ///< free pages that once held a block, in granules without a live block
  kMetadata,    ///< pages of the allocator that never held a block, its library's own data
  kMmap,        ///< mappings of the program
  kFiles,
  kStacks,
  kShared,    ///< shared memory: tmpfs, memfd, System V, anonymous
  kRecorder,  ///< of the recorder itself
  kUnknown,
};
inline constexpr std::size_t kLines = 12;

/// "requested", "rounding", ...: the names in JSON.
const char* name_of(Line line) noexcept;

/// A part of a line.
struct Part {
  std::string name;                      ///< of a file, or words; empty: `node` says what it is
  std::uint32_t node = model::kNoIndex;  ///< the stack of a mapping: index in Profile::nodes
  std::uint64_t bytes = 0;
  bool writable = false;  ///< of a file: pages that the program may have changed, which are its own then
};

struct LineFigures {
  std::uint64_t bytes = 0;
  std::vector<Part> parts;  ///< largest first; of some lines only, and not always all of the line
};

struct ResidentMemory {
  std::array<LineFigures, kLines> lines;

  // Outside of the sum.
  std::uint64_t swapped_bytes = 0;
  std::uint64_t page_table_bytes = 0;    ///< estimated by the number of tables that the pages need
  std::uint64_t not_resident_bytes = 0;  ///< requested bytes of live blocks on pages that have no memory
  std::uint64_t huge_tlb_bytes = 0;      ///< hugetlbfs, which the kernel does not count as resident
  /// Of lines kFiles and kRecorder: pages of files that were written, and are copies of the process; from what the
  /// kernel counts as private memory. nullopt: unknown.
  std::optional<std::uint64_t> written_file_bytes;

  std::uint64_t bytes_of(Line line) const noexcept { return lines[static_cast<std::size_t>(line)].bytes; }
  LineFigures& operator[](Line line) noexcept { return lines[static_cast<std::size_t>(line)]; }
  const LineFigures& operator[](Line line) const noexcept { return lines[static_cast<std::size_t>(line)]; }
  std::uint64_t total_bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const LineFigures& line : lines) sum += line.bytes;
    return sum;
  }
};

/// Adds parts to the lines of a `memory`, which must outlive it. Parts with equal names, nodes and `writable` are
/// one.
class PartAdder {
 public:
  explicit PartAdder(ResidentMemory& memory) : memory_(memory) {}
  void add(Line line, const Part& part);

 private:
  ResidentMemory& memory_;
  std::map<std::tuple<Line, std::uint32_t, std::string, bool>, std::size_t> positions_;
};

/// Sorts the parts of all lines, largest first.
void sort_parts(ResidentMemory& memory);

}  // namespace heapprof::rss
