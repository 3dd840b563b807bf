#include "preload/python/thread_frames.h"

#include <atomic>

#include "preload/python/code_objects.h"
#include "preload/sys/kernel.h"

namespace heapprof::python {

namespace {

constexpr std::uint32_t kFirstCapacity = 256;
/// A longer chain of frames is damaged, or a recursion that nobody reads.
constexpr std::uint32_t kMaxCapacity = 1u << 18;

std::uint64_t mix(std::uint64_t outer, std::uint64_t value) noexcept {
  std::uint64_t hash = (outer ^ value) * 0x9fb21c651e98df25;
  hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93;
  return hash ^ hash >> 32;
}

std::uint64_t innermost(const Layout& layout, std::uint64_t thread_state) noexcept {
  if (layout.frame != 0) return load<std::uint64_t>(thread_state + layout.frame);
  const auto cframe = load<std::uint64_t>(thread_state + layout.cframe);
  return cframe == 0 ? 0 : load<std::uint64_t>(cframe + layout.cframe_frame);
}

/// The word of a frame that holds its instruction.
std::uint64_t instruction_word(const Layout& layout, std::uint64_t frame) noexcept {
  return layout.bytecode != 0 ? load<std::uint64_t>(frame + layout.instruction)
                              : load<std::uint32_t>(frame + layout.instruction);
}

bool is_shim(const Layout& layout, std::uint64_t frame) noexcept {
  return layout.links == FrameLinks::kShim && load<std::uint8_t>(frame + layout.owner) >= kFirstShimOwner;
}

/// The version of boundaries.
constexpr std::uint32_t kNoVersion = 0;
/// The version of frames that must always be identified again. It differs from kNoVersion, so they never compare
/// equal.
constexpr std::uint32_t kUnknownVersion = ~0u;

[[gnu::always_inline]] inline void read_frame(const Layout& layout, std::uint64_t address,
                                              PythonFrame& frame) noexcept {
  frame.address = address;
  frame.code = load<std::uint64_t>(address + layout.code);
  frame.instruction = instruction_word(layout, address);
  frame.previous = load<std::uint64_t>(address + layout.previous);
  frame.version_word = &kNoVersion;
  frame.version = kNoVersion;
  frame.number = 0;
  frame.offset = PythonFrame::kHidden;
  if (is_shim(layout, address)) {
    frame.offset = PythonFrame::kBoundary;
  } else if (layout.code_version != 0 && frame.code != 0) {
    frame.version_word = reinterpret_cast<const std::uint32_t*>(frame.code + layout.code_version);
    frame.version = *frame.version_word;
    if (frame.version == 0) frame.version = kUnknownVersion;
  } else {
    frame.version = kUnknownVersion;
  }
}

bool same_words(const PythonFrame& a, const PythonFrame& b) noexcept {
  return a.address == b.address && a.code == b.code && a.instruction == b.instruction && a.previous == b.previous &&
         a.version == b.version && a.boundary() == b.boundary() && a.version != kUnknownVersion;
}

}  // namespace

/// The number of remembered frames, from the innermost, with which a new frame is compared. Between two events, a
/// thread seldom returns from more calls than that.
constexpr std::uint32_t kWindow = 8;

/// Reads new frames from `first` on, up to a remembered one, and verifies this and all outer ones. Stores what has
/// changed in them. Afterwards the stack is the first `kept_` remembered frames and the read ones; from resolved_ on
/// they must be resolved. Returns false when the frames are linked differently, or there is no memory.
///
/// Each remembered frame's `previous` is the next remembered frame, and that of the outermost one is 0. `kLayout`
/// makes all offsets constants.
template <const Layout& kLayout>
[[gnu::always_inline]] inline bool ThreadFrames::follow(std::uint64_t first) noexcept {
  static_assert(kLayout.links == FrameLinks::kShim && kLayout.code_version != 0);
  std::uint64_t address = first;
  std::uint32_t left = last_count_;
  read_count_ = 0;
  for (; address != 0; address = read_[read_count_ - 1].previous) {
    const std::uint32_t end = left > kWindow ? left - kWindow : 0;
    std::uint32_t known = left;
    while (known != end && frames_[known - 1].address != address) --known;
    if (known != end) {
      left = known;
      break;
    }
    if (read_count_ == capacity_ && !grow()) return false;
    read_frame(kLayout, address, read_[read_count_++]);
  }
  if (address == 0) left = 0;
  kept_ = resolved_ = left;
  // The loads of a frame do not depend on those of the frame before, so that the processor executes them at once. A
  // frame is live, and its memory is mapped, because the one inside of it still links to it. A code object is live
  // because its frame still refers to it.
  PythonFrame* frame = frames_ + left;
  while (frame != frames_) {
    --frame;
    const std::uint64_t links = load<std::uint64_t>(frame->address + kLayout.previous) ^ frame->previous;
    const std::uint64_t codes = load<std::uint64_t>(frame->address + kLayout.code) ^ frame->code;
    if ((links | codes) == 0) [[likely]] {
      const std::uint64_t instructions =
          load<std::uint64_t>(frame->address + kLayout.instruction) ^ frame->instruction;
      if ((instructions | (*frame->version_word ^ frame->version)) == 0) [[likely]]
        continue;
    }
    if (links != 0) return false;
    // Another instruction, or another function that was called from the same place.
    const std::uint32_t number = frame->number;
    const std::uint32_t version = frame->version;
    read_frame(kLayout, frame->address, *frame);
    if (codes == 0 && frame->version == version && version != kUnknownVersion) frame->number = number;
    resolved_ = static_cast<std::uint32_t>(frame - frames_);
  }
  return true;
}

bool ThreadFrames::add(const PythonFrame& frame) noexcept {
  if (read_count_ == capacity_ && !grow()) return false;
  read_[read_count_++] = frame;
  return true;
}

/// Doubles the arrays and keeps their contents.
bool ThreadFrames::grow() noexcept {
  const std::uint32_t capacity = capacity_ == 0 ? kFirstCapacity : capacity_ * 2;
  if (capacity > kMaxCapacity) return false;
  auto* const memory = static_cast<PythonFrame*>(sys::map_private(2 * capacity * sizeof(PythonFrame)));
  if (memory == nullptr) return false;
  if (capacity_ != 0) {
    __builtin_memcpy(memory, frames_, last_count_ * sizeof(PythonFrame));
    __builtin_memcpy(memory + capacity, read_, read_count_ * sizeof(PythonFrame));
    sys::unmap_private(frames_, 2 * capacity_ * sizeof(PythonFrame));
  }
  frames_ = memory;
  read_ = memory + capacity;
  capacity_ = capacity;
  return true;
}

/// Reads all frames from `first` on.
bool ThreadFrames::read(std::uint64_t thread_state, std::uint64_t first) noexcept {
  const Layout& layout = *interpreter().layout;
  read_count_ = 0;
  std::uint64_t cframe = layout.links == FrameLinks::kShim ? 0 : load<std::uint64_t>(thread_state + layout.cframe);
  for (std::uint64_t address = first; address != 0;) {
    PythonFrame frame;
    read_frame(layout, address, frame);
    if (!add(frame)) return false;
    if (layout.links == FrameLinks::kOneFrame ||
        (layout.links == FrameLinks::kEntryFlag && load<std::uint8_t>(address + layout.is_entry) != 0)) {
      PythonFrame boundary{};
      boundary.address = cframe;
      boundary.version_word = &kNoVersion;
      boundary.offset = PythonFrame::kBoundary;
      if (!add(boundary)) return false;
      if (cframe != 0) cframe = load<std::uint64_t>(cframe + layout.cframe_previous);
    }
    address = frame.previous;
  }
  return true;
}

/// Determines the code object, the node's offset and the hash of a frame.
void ThreadFrames::resolve(PythonFrame& frame, std::uint64_t outer_hash, recorder::Stream& stream) noexcept {
  const Layout& layout = *interpreter().layout;
  if (frame.boundary()) {
    frame.hash = mix(outer_hash, PythonFrame::kBoundary);
    return;
  }
  if (frame.number == 0 && frame.code != 0) frame.number = code_number(frame.code, interpreter_, stream);
  std::int64_t instruction = static_cast<std::int32_t>(frame.instruction);
  if (layout.bytecode != 0) {
    constexpr std::int64_t kInstructionBytes = 2;
    instruction = static_cast<std::int64_t>(frame.instruction - frame.code - layout.bytecode) / kInstructionBytes;
  }
  bool incomplete = frame.number == 0;
  if (!incomplete && layout.first_traceable != 0)
    incomplete = instruction < load<std::int32_t>(frame.code + layout.first_traceable) &&
                 load<std::uint8_t>(frame.address + layout.owner) != kOwnedByGenerator;
  if (incomplete) {
    frame.offset = PythonFrame::kHidden;
    frame.hash = outer_hash;
    return;
  }
  const bool known = instruction >= 0 && instruction < kPythonNoInstruction;
  frame.offset = python_offset(frame.number, known ? static_cast<std::uint32_t>(instruction) : kPythonNoInstruction);
  frame.hash = mix(outer_hash, frame.offset);
}

/// Reads all frames and keeps those outermost ones that are unchanged.
bool ThreadFrames::read_all(std::uint64_t thread_state, std::uint64_t first) noexcept {
  if (!read(thread_state, first)) return false;
  std::uint32_t same = 0;
  if (interpreter().layout->code_version != 0) {
    // follow() has stored words of frames from resolved_ on that are not resolved.
    const std::uint32_t both = read_count_ < resolved_ ? read_count_ : resolved_;
    while (same != both && same_words(frames_[same], read_[read_count_ - 1 - same])) ++same;
  }
  kept_ = resolved_ = same;
  read_count_ -= same;
  return true;
}

bool ThreadFrames::update(std::uint64_t thread_state, recorder::Stream& stream) noexcept {
  const Layout& layout = *interpreter().layout;
  const std::uint64_t first = innermost(layout, thread_state);
  if (first == 0) return false;
  interpreter_ = load<std::uint64_t>(thread_state + layout.interpreter);
  last_count_ = count_;
  count_ = 0;
  resolved_ = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const bool followed = layout.version == 0x030c   ? follow<kLayout312>(first)
                        : layout.version == 0x030d ? follow<kLayout313>(first)
                                                   : false;
  if (!followed && !read_all(thread_state, first)) return false;
  const std::uint32_t count = kept_ + read_count_;
  if (count > capacity_ && !grow()) return false;
  for (std::uint32_t i = kept_; i != count; ++i) {
    PythonFrame& frame = frames_[i];
    PythonFrame& now = read_[count - 1 - i];
    if (i < last_count_ && now.version != kUnknownVersion && now.code == frame.code && now.version == frame.version)
      now.number = frame.number;
    frame = now;
  }
  for (std::uint32_t i = resolved_; i != count; ++i) resolve(frames_[i], i == 0 ? 0 : frames_[i - 1].hash, stream);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  count_ = count;
  return true;
}

}  // namespace heapprof::python
