#include "analyzer/replay/stack_lives.h"

#include <array>

namespace heapprof::replay {
namespace {

constexpr std::array kLongestFields = {&model::LongestLife::ticks, &model::LongestLife::end};
constexpr std::array kLeftFields = {&model::LeftBlocks::blocks, &model::LeftBlocks::first, &model::LeftBlocks::last,
                                    &model::LeftBlocks::smallest, &model::LeftBlocks::largest};

/// Calls visit(value) for each value that is stored, column by column: columns compress better than rows.
template <typename Lives, typename Visit>
void for_each_value(Lives& lives, Visit&& visit) {
  for (const auto field : kLongestFields)
    for (auto& one : lives) visit(one.lives.longest.*field);
  for (const auto field : kLeftFields)
    for (auto& one : lives)
      if (field == &model::LeftBlocks::blocks || one.lives.left.blocks != 0) visit(one.lives.left.*field);
}

}  // namespace

void save(const std::vector<StackLives>& lives, trace::ByteWriter& out) {
  out.number(lives.size());
  std::uint32_t last = 0;
  for (const StackLives& one : lives) {
    out.number(one.index - last);
    last = one.index;
  }
  for_each_value(lives, [&](std::uint64_t value) { out.number(value); });
}

std::vector<StackLives> load_stack_lives(trace::ByteReader& in, std::uint32_t node_count) {
  const std::size_t count = in.count();
  if (count > node_count) throw trace::FormatError("it has lives of blocks of more stacks than the trace");
  std::vector<StackLives> lives(count);
  std::uint64_t last = 0;
  for (StackLives& one : lives) {
    last += in.number_up_to(node_count);
    if (last >= node_count) throw trace::FormatError("it has lives of blocks of an unknown stack");
    one.index = static_cast<std::uint32_t>(last);
  }
  for_each_value(lives, [&](std::uint64_t& value) { value = in.number(); });
  for (const StackLives& one : lives)
    if (one.lives.longest.ticks > one.lives.longest.end)
      throw trace::FormatError("it has a block that lived longer than the recording");
  in.expect_end();
  return lives;
}

}  // namespace heapprof::replay
