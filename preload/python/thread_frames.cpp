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

std::uint32_t owner_of(const Layout& layout, std::uint64_t frame) noexcept {
  return layout.owner == 0 ? 0 : load<std::uint8_t>(frame + layout.owner);
}

bool is_shim(const Layout& layout, std::uint32_t owner) noexcept {
  return layout.links == FrameLinks::kShim && owner >= kFirstShimOwner;
}

void read_frame(const Layout& layout, std::uint64_t address, PythonFrame& frame) noexcept {
  frame = {};
  frame.address = address;
  frame.code = load<std::uint64_t>(address + layout.code);
  frame.previous = load<std::uint64_t>(address + layout.previous);
  frame.owner = owner_of(layout, address);
  if (is_shim(layout, frame.owner)) {
    frame.offset = PythonFrame::kBoundary;
    return;
  }
  frame.instruction = instruction_word(layout, address);
  frame.version = frame.code == 0 ? 0 : code_version(frame.code);
}

bool same_words(const PythonFrame& a, const PythonFrame& b) noexcept {
  return a.address == b.address && a.code == b.code && a.instruction == b.instruction && a.previous == b.previous &&
         a.version == b.version && a.owner == b.owner && a.boundary() == b.boundary();
}

}  // namespace

/// Compares the frames from `first` on with the remembered ones, and stores in them what has changed. Returns false
/// when they are other frames.
bool ThreadFrames::verify(std::uint64_t first) noexcept {
  const Layout& layout = *interpreter().layout;
  std::uint64_t address = first;
  std::uint32_t left = last_count_;
  resolved_ = left;
  for (; left != 0; --left) {
    PythonFrame& frame = frames_[left - 1];
    if (frame.address != address || load<std::uint64_t>(address + layout.previous) != frame.previous) return false;
    const auto code = load<std::uint64_t>(address + layout.code);
    const std::uint32_t owner = owner_of(layout, address);
    if (code != frame.code || owner != frame.owner) return false;
    if (!frame.boundary()) {
      const std::uint64_t instruction = instruction_word(layout, address);
      const std::uint32_t version = code_version(code);
      if (version != frame.version || version == 0) return false;
      if (instruction != frame.instruction) {
        frame.instruction = instruction;
        resolved_ = left - 1;
      }
    }
    address = frame.previous;
    if (address == 0) return left == 1;
  }
  return false;
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
  if (!incomplete && layout.first_traceable != 0 && frame.owner != kOwnedByGenerator)
    incomplete = instruction < load<std::int32_t>(frame.code + layout.first_traceable);
  if (incomplete) {
    frame.offset = PythonFrame::kHidden;
    frame.hash = outer_hash;
    return;
  }
  const bool known = instruction >= 0 && instruction < kPythonNoInstruction;
  frame.offset = python_offset(frame.number, known ? static_cast<std::uint32_t>(instruction) : kPythonNoInstruction);
  frame.hash = mix(outer_hash, frame.offset);
}

bool ThreadFrames::update(std::uint64_t thread_state, recorder::Stream& stream) noexcept {
  const Layout& layout = *interpreter().layout;
  const std::uint64_t first = innermost(layout, thread_state);
  if (first == 0) return false;
  interpreter_ = load<std::uint64_t>(thread_state + layout.interpreter);
  last_count_ = count_;
  count_ = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::uint32_t count = last_count_;
  if (layout.code_version == 0 || !verify(first)) {
    if (!read(thread_state, first)) return false;
    count = read_count_;
    std::uint32_t same = 0;
    if (layout.code_version != 0) {
      // verify() has stored words of frames from resolved_ on that are not resolved.
      const std::uint32_t both = count < resolved_ ? count : resolved_;
      while (same != both && frames_[same].version + frames_[same].boundary() != 0 &&
             same_words(frames_[same], read_[count - 1 - same]))
        ++same;
    }
    for (std::uint32_t i = same; i != count; ++i) {
      PythonFrame& frame = frames_[i];
      PythonFrame& now = read_[count - 1 - i];
      if (i < last_count_ && now.version != 0 && now.code == frame.code && now.version == frame.version)
        now.number = frame.number;
      frame = now;
    }
    resolved_ = same;
  }
  for (std::uint32_t i = resolved_; i != count; ++i) resolve(frames_[i], i == 0 ? 0 : frames_[i - 1].hash, stream);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  count_ = count;
  return true;
}

}  // namespace heapprof::python
