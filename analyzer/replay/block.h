// A live block, as the replay keeps it.
#pragma once

#include <cstdint>

namespace heapprof::replay {

struct Block {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t time = 0;  ///< of its allocation, ticks
  std::uint32_t node = 0;  ///< dense index
  std::uint32_t thread = 0;
  bool operator==(const Block&) const = default;
};
static_assert(sizeof(Block) == 32);

}  // namespace heapprof::replay
