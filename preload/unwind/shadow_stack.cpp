#include "preload/unwind/shadow_stack.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "preload/sys/kernel.h"
#include "preload/unwind/thread_data.h"

namespace heapprof::unwind {

void lay_out(FrameArrays& arrays, std::uint32_t capacity) noexcept {
  char* at = reinterpret_cast<char*>(&arrays + 1);
  const auto take = [&](std::size_t bytes) noexcept { return std::exchange(at, at + bytes); };
  arrays.capacity = capacity;
  // Padding for kWordStride: the words before the first one are always unchanged.
  for (std::uint32_t i = 1; i != kWordStride; ++i) {
    auto* const word = reinterpret_cast<StackWord*>(take(sizeof(StackWord)));
    *word = {reinterpret_cast<std::uint64_t>(&word->value), 0};
  }
  arrays.words = reinterpret_cast<StackWord*>(take(capacity * kWordsPerFrame * sizeof(StackWord)));
  arrays.frames = reinterpret_cast<Frame*>(take((capacity + 1) * sizeof(Frame))) + 1;
  arrays.frames[-1] = {};
  arrays.frames[-1].sp = StackPointer{~std::uint64_t{0}};
  arrays.walked_words = reinterpret_cast<StackWord*>(take(capacity * kWordsPerFrame * sizeof(StackWord)));
  arrays.walked = reinterpret_cast<Frame*>(take(capacity * sizeof(Frame)));
  arrays.prefix_versions = reinterpret_cast<std::uint64_t*>(take(capacity * sizeof(std::uint64_t)));
}

bool grow(ThreadData& data, std::uint32_t walked, std::uint32_t walked_words) noexcept {
  FrameArrays* const old = data.arrays;
  const std::uint32_t capacity = old->capacity * 2;
  const std::size_t bytes = sizeof(FrameArrays) + capacity * kBytesPerFrame + kFixedBytes;
  auto* larger = static_cast<FrameArrays*>(sys::map_private(bytes));
  if (larger == nullptr) return false;
  larger->mapped_bytes = bytes;
  lay_out(*larger, capacity);
  if (data.length != 0) {
    std::memcpy(larger->frames, old->frames, data.length * sizeof(Frame));
    std::memcpy(larger->words, old->words, old->frames[data.length - 1].words * sizeof(StackWord));
    std::memcpy(larger->prefix_versions, old->prefix_versions, data.length * sizeof(std::uint64_t));
  }
  std::memcpy(larger->walked, old->walked, walked * sizeof(Frame));
  std::memcpy(larger->walked_words, old->walked_words, walked_words * sizeof(StackWord));
  data.arrays = larger;
  if (old->mapped_bytes != 0) sys::unmap_private(old, old->mapped_bytes);
  return true;
}

Frame* append_walked(ThreadData& data, const Walked& walked) noexcept {
  FrameArrays& arrays = *data.arrays;
  Frame* to = arrays.frames + walked.kept;
  StackWord* words = arrays.words + to[-1].words;
  const std::uint64_t version = ++data.updates << kPrefixVersionShift;
  std::uint32_t barrier = to[-1].barrier;
  const StackWord* end = arrays.walked_words + walked.words;
  for (const Frame* from = arrays.walked + walked.frames; from-- != arrays.walked; ++to) {
    const StackWord* const begin = arrays.walked_words + from->words;
    for (const StackWord* word = begin; word != end; ++word) *words++ = *word;
    end = begin;
    to->pc = from->pc;
    to->sp = from->sp;
    to->fp = from->fp;
    to->module = from->module;
    to->flags = from->flags;
    if ((from->flags & kFpRestored) != 0 || ((from->flags & kFpUnchanged) != 0 && (to[-1].flags & kFpUnused) != 0))
      to->flags |= kFpUnused;
    to->words = static_cast<std::uint32_t>(words - arrays.words);
    arrays.prefix_versions[to - arrays.frames] = version + to->words;
    if ((from->flags & kBarrier) != 0) [[unlikely]]
      barrier = static_cast<std::uint32_t>(to - arrays.frames) + 1;
    to->barrier = barrier;
  }
  return to;
}

NodeId update_shadow_stack(ThreadData& data, const Walk& walk, const Walked& walked, std::uint32_t omitted) noexcept {
  const std::uint32_t depth = walked.kept + walked.frames;
  data.length = walked.kept;
  // The walk made room for its own frames, but there may be too little room for these and the verified frames
  // together.
  if (depth > data.arrays->capacity && !grow(data, walked.frames, walked.words)) return NodeId::kNone;
  data.length = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  Frame* const end = append_walked(data, walked);
  if (walked.kept == 0) data.reason = walk.reason;

  Frame* at = data.arrays->frames + omitted;
  NodeId node;
  if (omitted == data.omitted && walked.kept > omitted) {
    at = data.arrays->frames + walked.kept;
    node = at[-1].node;
  } else {
    node = omitted != 0 ? root_without(walk.definitions, data.arrays->frames, omitted)
                        : root_of(walk.definitions, data.reason);
  }
  for (; at != end; ++at) {
    node = intern(walk.definitions, node, *at);
    if (node == NodeId::kNone) [[unlikely]]
      return node;
    at->node = node;
  }
  data.omitted = omitted;
  data.generation = walk.generation;
  data.bounds_version = data.bounds.version();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  data.length = depth;
  return node;
}

}  // namespace heapprof::unwind
