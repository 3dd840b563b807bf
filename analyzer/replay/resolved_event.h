// An event of the replay with everything that is known about its block from the trace.
#pragma once

#include <cstdint>

namespace heapprof::replay {

inline constexpr std::uint32_t kNoThread = 0xffffffff;
inline constexpr std::uint32_t kNoNode = 0xffffffff;
/// The shared bytes of a sample by a recorder that did not record them (before format 1.1).
inline constexpr std::uint64_t kUnknownShared = ~std::uint64_t{0};

enum class ResolvedKind : std::uint8_t {
  kAllocation,  ///< address, size, node, thread
  kFree,        ///< the same fields of the freed block
  kSample,      ///< size: resident bytes; address: those that are shared, or kUnknownShared
};

/// What an event is about.
enum class Subject : std::uint8_t {
  kBlock,
  kMapping,       ///< an allocation: it was made, by mmap, mremap or brk
  kMappingPiece,  ///< a part of a mapping was unmapped, or is mapped again after a call that failed
};

/// Failed calls and unmatched frees are not resolved; mappings only after Replay::resolve_kind().
struct ResolvedEvent {
  std::uint64_t time;  ///< ticks
  std::uint64_t address;
  std::uint64_t size;
  std::uint32_t node;    ///< dense index
  std::uint32_t thread;  ///< that allocated the block
  ResolvedKind kind;
  bool temporary;           ///< of a free
  bool before_slice;        ///< the block was allocated before the slice
  bool in_realloc = false;  ///< a realloc freed the block, or allocated it in place of another one
  // Of a free:
  std::uint32_t freeing_thread = kNoThread;  ///< kNoThread: the free is not in the trace
  std::uint32_t freeing_node = kNoNode;      ///< dense index of the stack that freed; kNoNode: not recorded
  Subject subject = Subject::kBlock;
  /// When the block was allocated; of an allocation in a realloc, when the block was that it replaced.
  std::uint64_t allocated_ticks = 0;
  // Of an allocation in a realloc:
  std::uint64_t old_address = 0;  ///< of the block that it replaced, whose free is an earlier event
};

}  // namespace heapprof::replay
