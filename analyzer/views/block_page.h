// A page of the list of live blocks: of all blocks, sorted, those from position `skip` on.
//
// Blocks are added one by one. Only those that can be on the page are kept, in a heap, so that the first page of
// millions of blocks needs the memory of one page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "analyzer/replay/resolved_event.h"

namespace heapprof::views {

enum class BlockOrder {
  kSize,     ///< largest first
  kAge,      ///< oldest first
  kAddress,  ///< lowest first
};

/// The time of a mapping: it is not known.
inline constexpr std::uint64_t kUnknownTime = std::numeric_limits<std::uint64_t>::max();

/// A live block, or a live mapping or piece of one.
struct ListedBlock {
  std::uint64_t time_ns = kUnknownTime;  ///< of its allocation, since the start of the recording
  std::uint64_t address = 0;             ///< the block's number in a trace without addresses
  std::uint64_t size_bytes = 0;
  std::uint32_t node = 0;                    ///< in Profile::nodes
  std::uint32_t thread = replay::kNoThread;  ///< in Profile::threads
};

struct BlockSums {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
};

class BlockPage {
 public:
  /// `top`: blocks on a page; 0: all from `skip` on.
  BlockPage(BlockOrder order, std::size_t skip, std::size_t top);

  void add(const ListedBlock& block);

  /// Of all blocks that were added, those beside the page too.
  const BlockSums& all() const noexcept { return all_; }
  /// Returns the page, in order. Call once, after the last add().
  std::vector<ListedBlock> take();

 private:
  const BlockOrder order_;
  const std::size_t skip_;
  const std::size_t kept_;           ///< how many blocks are kept at most
  std::vector<ListedBlock> blocks_;  ///< once there are kept_ blocks, a heap whose top is the last one in the order
  BlockSums all_;
};

}  // namespace heapprof::views
