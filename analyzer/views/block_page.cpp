#include "analyzer/views/block_page.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace heapprof::views {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

/// Whether `a` precedes `b`. Blocks of equal size, or age, follow in the order of their allocation, so that pages of
/// several runs fit together.
class Precedes {
 public:
  explicit Precedes(BlockOrder order) : order_(order) {}
  bool operator()(const ListedBlock& a, const ListedBlock& b) const noexcept {
    if (order_ == BlockOrder::kAddress) return a.address < b.address;
    if (order_ == BlockOrder::kSize && a.size_bytes != b.size_bytes) return a.size_bytes > b.size_bytes;
    return std::tie(a.time_ns, a.address) < std::tie(b.time_ns, b.address);
  }

 private:
  BlockOrder order_;
};

}  // namespace

BlockPage::BlockPage(BlockOrder order, std::size_t skip, std::size_t top)
    : order_(order), skip_(skip), kept_(top == 0 || top > kNoLimit - skip ? kNoLimit : skip + top) {}

void BlockPage::add(const ListedBlock& block) {
  ++all_.blocks;
  all_.bytes += block.size_bytes;
  const Precedes precedes(order_);
  if (blocks_.size() < kept_) {
    blocks_.push_back(block);
    if (blocks_.size() == kept_) std::make_heap(blocks_.begin(), blocks_.end(), precedes);
    return;
  }
  if (!precedes(block, blocks_.front())) return;
  std::pop_heap(blocks_.begin(), blocks_.end(), precedes);
  blocks_.back() = block;
  std::push_heap(blocks_.begin(), blocks_.end(), precedes);
}

std::vector<ListedBlock> BlockPage::take() {
  std::sort(blocks_.begin(), blocks_.end(), Precedes(order_));
  blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(std::min(skip_, blocks_.size())));
  return std::move(blocks_);
}

}  // namespace heapprof::views
