// What is known of the lives of the blocks of each stack of a whole recording. An index has it, so that the trends of
// leaks need no other pass (model/leak_history.h).
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/block_lives.h"
#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::replay {

struct StackLives {
  std::uint32_t index = 0;  ///< dense index of the node
  model::BlockLives lives;
  bool operator==(const StackLives&) const = default;
};

/// `lives`: ascending by index.
void save(const std::vector<StackLives>& lives, trace::ByteWriter& out);
/// Throws trace::FormatError, also when an index is not less than `node_count`.
std::vector<StackLives> load_stack_lives(trace::ByteReader& in, std::uint32_t node_count);

}  // namespace heapprof::replay
