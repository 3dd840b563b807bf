#include "preload/python/thread_frames.h"

#include <atomic>

#include "preload/python/broken_rule.h"
#include "preload/python/code_objects.h"
#include "preload/python/freed_code.h"
#include "preload/sys/kernel.h"

namespace heapprof::python {

namespace {

constexpr std::uint32_t kFirstCapacity = 256;
/// To read kMaxFrames frames takes about a millisecond; after that so many events are skipped.
constexpr std::uint32_t kSkippedEvents = 1024;

[[gnu::always_inline]] inline bool is_shim(const Layout& layout, std::uint64_t frame) noexcept {
  return layout.links == FrameLinks::kShim && load<std::uint8_t>(frame + layout.owner) >= kFirstShimOwner;
}

/// The version of boundaries.
constexpr std::uint32_t kNoVersion = 0;
/// The version of frames that must always be identified again. It differs from kNoVersion, so they never compare
/// equal.
constexpr std::uint32_t kUnknownVersion = ~0u;
/// The version of frames whose code object is identified by its signature, or is static.
constexpr std::uint32_t kBySignature = 1;

/// Sets the version of a frame whose code object has none, because the interpreter's counter has reached its end. The
/// code objects in the interpreter's module have none either, and are never freed: that of a frame which calls
/// `__init__` (from 3.13 on), for example.
[[gnu::noinline]] void set_missing_version(PythonFrame& frame) noexcept {
  if (is_static(frame.code)) {
    frame.identity = reinterpret_cast<std::uint64_t>(&kNoVersion);
    frame.version = kNoVersion;
  } else {
    frame.version = kUnknownVersion;
  }
}

/// Reads the frame at `address`, which can be read. Returns false if its code object cannot be read. `code_is_known`:
/// it is that of `frame`, which can.
[[gnu::always_inline]] inline bool read_live_frame(const Layout& layout, std::uint64_t address, bool code_is_known,
                                                   ReadablePages& pages, PythonFrame& frame) noexcept {
  frame.address = address;
  frame.code = code_of(layout, address);
  frame.instruction = instruction_word(layout, address);
  frame.previous = load<std::uint64_t>(address + layout.previous);
  frame.identity = reinterpret_cast<std::uint64_t>(&kNoVersion);
  frame.version = kNoVersion;
  frame.number = 0;
  frame.offset = PythonFrame::kHidden;
  if (is_shim(layout, address)) {
    frame.offset = PythonFrame::kBoundary;
    return true;
  }
  if (!code_is_known && !pages.object(frame.code, code_bytes(layout))) [[unlikely]]
    return false;
  if (layout.code_version != 0 && !is_broken(Rule::kCodeVersion)) {
    frame.identity = frame.code + layout.code_version;
    frame.version = load<std::uint32_t>(frame.identity);
    if (frame.version == 0) [[unlikely]]
      set_missing_version(frame);
  }
  return true;
}

/// Reads the frame at `address`. Returns false if it or its code object cannot be read.
[[gnu::always_inline]] inline bool read_frame(const Layout& layout, std::uint64_t address, ReadablePages& pages,
                                              PythonFrame& frame) noexcept {
  return pages.object(address, frame_bytes(layout)) && read_live_frame(layout, address, false, pages, frame);
}

bool same_code(const PythonFrame& a, const PythonFrame& b) noexcept {
  return a.code == b.code && a.identity == b.identity && a.version == b.version && a.version != kUnknownVersion;
}

bool same_words(const PythonFrame& a, const PythonFrame& b) noexcept {
  return a.address == b.address && a.instruction == b.instruction && a.previous == b.previous && same_code(a, b) &&
         a.boundary() == b.boundary();
}

}  // namespace

/// Reads new frames from `first` on, up to a remembered one, and verifies this and all outer ones. Stores what has
/// changed in them. Afterwards the stack is the first `kept_` remembered frames and the read ones; from resolved_ on
/// they must be resolved. Returns false when the frames are linked differently, or there is no memory.
///
/// Each remembered frame's `previous` is the next remembered frame, and that of the outermost one is 0. `kLayout`
/// makes all offsets constants.
template <const Layout& kLayout>
[[gnu::always_inline]] inline bool ThreadFrames::follow(std::uint64_t first, ReadablePages& pages) noexcept {
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
    if (!read_frame(kLayout, address, pages, read_[read_count_])) [[unlikely]]
      return fail(Result::kUnreadable);
    ++read_count_;
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
    const std::uint64_t codes = code_of(kLayout, frame->address) ^ frame->code;
    if ((links | codes) == 0) [[likely]] {
      const std::uint64_t instructions =
          is_broken(Rule::kInstruction)
              ? 0
              : load<std::uint64_t>(frame->address + kLayout.instruction) ^ frame->instruction;
      if ((instructions | (load<std::uint32_t>(frame->identity) ^ frame->version)) == 0) [[likely]]
        continue;
    }
    if (links != 0) return false;
    // Another instruction, or another function that was called from the same place.
    const std::uint32_t number = frame->number;
    const std::uint32_t version = frame->version;
    if (!read_live_frame(kLayout, frame->address, codes == 0, pages, *frame)) [[unlikely]]
      return fail(Result::kUnreadable);
    if (codes == 0 && frame->version == version && version != kUnknownVersion) frame->number = number;
    resolved_ = static_cast<std::uint32_t>(frame - frames_);
  }
  return true;
}

bool ThreadFrames::fail(Result failure) noexcept {
  failure_ = failure;
  return false;
}

/// Doubles the arrays and keeps their contents.
bool ThreadFrames::grow() noexcept {
  const std::uint32_t old_capacity = capacity_;
  const std::uint32_t capacity = old_capacity == 0 ? kFirstCapacity : old_capacity * 2;
  if (capacity > kMaxFrames) return fail(Result::kTooMany);
  auto* const memory = static_cast<PythonFrame*>(sys::map_private(2 * capacity * sizeof(PythonFrame)));
  if (memory == nullptr) return fail(Result::kNoMemory);
  PythonFrame* const old = frames_;
  if (old_capacity != 0) {
    __builtin_memcpy(memory, frames_, last_count_ * sizeof(PythonFrame));
    __builtin_memcpy(memory + capacity, read_, read_count_ * sizeof(PythonFrame));
  }
  // A signal handler may leave by longjmp at any instruction: the arrays are never used after they were unmapped.
  capacity_ = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  last_written_ = last_count_;
  frames_ = memory;
  read_ = memory + capacity;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  capacity_ = capacity;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (old_capacity != 0) sys::unmap_private(old, 2 * old_capacity * sizeof(PythonFrame));
  return true;
}

namespace {

/// The structures of the evaluations on the C stack, where the interpreter links them with each other (up to 3.11).
class Evaluations {
 public:
  /// Returns false if the innermost structure cannot be read.
  bool begin(const Layout& layout, std::uint64_t thread_state, ReadablePages& pages) noexcept {
    if (layout.cframe == 0) return true;  // there are none
    current_ = load<std::uint64_t>(thread_state + layout.cframe);
    root_ = layout.root_cframe == 0 ? 0 : thread_state + layout.root_cframe;
    return find_outer(layout, pages);
  }
  std::uint64_t current() const noexcept { return current_; }
  /// The next outer structure; 0: there is none.
  std::uint64_t outer() const noexcept { return outer_; }
  /// The frame to which the next outer structure refers; 0: none, or the version has no such reference (3.10).
  std::uint64_t outer_frame(const Layout& layout) const noexcept {
    return outer_ == 0 || layout.frame != 0 ? 0 : load<std::uint64_t>(outer_ + layout.cframe_frame);
  }

  /// Whether the current evaluation's outermost frame is the one that links to `previous`.
  bool ends_before(const Layout& layout, std::uint64_t previous) const noexcept {
    return previous == outer_frame(layout);
  }
  bool next(const Layout& layout, ReadablePages& pages) noexcept {
    current_ = outer_;
    return find_outer(layout, pages);
  }

 private:
  bool find_outer(const Layout& layout, ReadablePages& pages) noexcept {
    outer_ = 0;
    if (current_ == 0 || current_ == root_) return true;
    if (!pages.object(current_, cframe_bytes(layout))) return false;
    outer_ = load<std::uint64_t>(current_ + layout.cframe_previous);
    return outer_ == 0 || pages.object(outer_, cframe_bytes(layout));
  }

  std::uint64_t current_ = 0;
  std::uint64_t outer_ = 0;
  std::uint64_t root_ = 0;  ///< the structure that is part of the PyThreadState; 0: its link is 0
};

/// 3.10: how many of the frames from `frame` on have no evaluation. `evaluations`: that of the next frame that has
/// one.
std::uint32_t count_delegating(const Layout& layout, std::uint64_t frame, Evaluations evaluations,
                               ReadablePages& pages) noexcept {
  std::uint32_t frames = 0;
  std::uint32_t count = 0;
  for (; frame != 0 && frames != ThreadFrames::kMaxFrames; ++frames) {
    if (!pages.object(frame, frame_bytes(layout))) return 0;
    frame = load<std::uint64_t>(frame + layout.previous);
  }
  // The outermost structure is no evaluation.
  for (; evaluations.current() != 0 && count < frames + 1; ++count)
    if (!evaluations.next(layout, pages)) return 0;
  return frames + 1 > count ? frames + 1 - count : 0;
}

}  // namespace

/// Adds the end of the current evaluation. There must be room for it.
template <typename Evaluations>
inline void ThreadFrames::add_boundary(const Layout& layout, const Evaluations& evaluations) noexcept {
  PythonFrame& boundary = read_[read_count_++];
  boundary.address = evaluations.current();
  boundary.code = 0;
  boundary.instruction = evaluations.outer_frame(layout);
  boundary.previous = evaluations.outer();
  boundary.identity = 0;
  boundary.version = kNoVersion;
  boundary.number = 0;
  boundary.offset = PythonFrame::kBoundary;
}

/// Sets the version of a frame that was read, where frees of code objects are noticed.
inline void ThreadFrames::set_noticed_version(PythonFrame& frame) noexcept {
  const VersionWord version = version_of_code(frame.code);
  frame.identity = reinterpret_cast<std::uint64_t>(version == nullptr ? &kNoVersion : version);
  frame.version = load<std::uint32_t>(frame.identity);
  if (frame.version != 0) return;
  frame.version = kUnknownVersion;
  version_unknown_ = true;
}

/// As follow(), up to 3.11: there, boundaries are structures that are linked with each other, if the version has any.
/// Each boundary among the remembered frames refers to the structure of the next one.
template <const Layout& kLayout>
[[gnu::always_inline]] inline bool ThreadFrames::follow_evaluations(std::uint64_t thread_state, std::uint64_t first,
                                                                    bool verify_versions,
                                                                    ReadablePages& pages) noexcept {
  static_assert(kLayout.links != FrameLinks::kShim && kLayout.code_version == 0);
  Evaluations evaluations;
  if (!evaluations.begin(kLayout, thread_state, pages)) return fail(Result::kUnreadable);
  std::uint64_t address = first;
  std::uint32_t left = last_count_;
  read_count_ = 0;
  while (address != 0) {
    const std::uint32_t end = left > kElementWindow ? left - kElementWindow : 0;
    std::uint32_t known = left;
    while (known != end && frames_[known - 1].address != address) --known;
    if (known != end) {
      left = known;
      break;
    }
    if (read_count_ + 1 >= capacity_ && !grow()) return false;  // also for a boundary
    PythonFrame& frame = read_[read_count_];
    if (!read_frame(kLayout, address, pages, frame)) [[unlikely]]
      return fail(Result::kUnreadable);
    if (may_delegate_throw(kLayout, address)) [[unlikely]]
      return false;
    set_noticed_version(frame);
    ++read_count_;
    address = frame.previous;
    if (kLayout.links == FrameLinks::kEntryFlag && address != 0 && !evaluations.ends_before(kLayout, address))
      continue;
    add_boundary(kLayout, evaluations);
    if (!evaluations.next(kLayout, pages)) return fail(Result::kUnreadable);
  }
  if (address == 0) {
    kept_ = resolved_ = 0;
    return true;
  }
  // The first remembered frame must belong to the current evaluation.
  if (frames_[left - 1].boundary()) return false;
  std::uint32_t boundary = left - 1;
  while (boundary != 0) {
    --boundary;
    if (frames_[boundary].boundary()) break;
    if (kLayout.links == FrameLinks::kOneFrame) return false;
  }
  if (!frames_[boundary].boundary() || frames_[boundary].address != evaluations.current()) return false;
  return verify_evaluations<kLayout>(left, verify_versions, pages);
}

/// Verifies the outermost `count` remembered frames, as follow() does.
template <const Layout& kLayout>
[[gnu::always_inline]] inline bool ThreadFrames::verify_evaluations(std::uint32_t count, bool verify_versions,
                                                                    ReadablePages& pages) noexcept {
  kept_ = resolved_ = count;
  PythonFrame* frame = frames_ + count;
  const bool skips = can_skip<kLayout>(verify_versions);
  while (frame != frames_) {
    if (skips) frame = skip_unchanged<kLayout>(frame);
    --frame;
    if (frame->boundary()) {
      if (boundary_changed(kLayout, *frame)) return false;
      continue;
    }
    if (load<std::uint64_t>(frame->address + kLayout.previous) != frame->previous) return false;
    if (may_delegate_throw(kLayout, frame->address)) [[unlikely]]
      return false;
    // It may have delegated at the last event: then its evaluation has no boundary.
    if (kLayout.links == FrameLinks::kOneFrame && (frame == frames_ || !frame[-1].boundary())) [[unlikely]]
      return false;
    const std::uint64_t codes = load<std::uint64_t>(frame->address + kLayout.code) ^ frame->code;
    const std::uint64_t instructions = instruction_word(kLayout, frame->address) ^ frame->instruction;
    if ((codes | instructions) == 0 && (!verify_versions || load<std::uint32_t>(frame->identity) == frame->version))
        [[likely]]
      continue;
    const std::uint32_t number = frame->number;
    const std::uint32_t version = frame->version;
    if (!read_live_frame(kLayout, frame->address, codes == 0, pages, *frame)) [[unlikely]]
      return fail(Result::kUnreadable);
    set_noticed_version(*frame);
    if (codes == 0 && frame->version == version && version != kUnknownVersion) frame->number = number;
    resolved_ = static_cast<std::uint32_t>(frame - frames_);
  }
  return true;
}

/// The identity of a code object without a version: its signature. Each code object is read once per event, because
/// the frames of one event keep their code objects alive; between events anything may have changed.
std::uint64_t ThreadFrames::signature_of(const CodeReader& reader, std::uint64_t code) noexcept {
  SeenCode& seen = seen_codes_[(code >> 4) * 0x9e3779b97f4a7c15 >> (64 - kSeenCodeBits)];
  if (seen.event == event_ && seen.code == code) return seen.signature;
  // A signal handler may leave by longjmp between these.
  seen.event = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  seen.code = code;
  seen.signature = code_signature(reader, code);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  seen.event = event_;
  return seen.signature;
}

/// Reads all frames from `first` on.
bool ThreadFrames::read(const CodeReader& reader, std::uint64_t thread_state, std::uint64_t first) noexcept {
  const Layout& layout = *reader.python.layout;
  ReadablePages& pages = reader.pages;
  read_count_ = 0;
  const bool has_shims = layout.links == FrameLinks::kShim;
  ++event_;
  constexpr std::uint32_t kNotCounted = ~0u;
  std::uint32_t delegating = kNotCounted;
  Evaluations evaluations;
  if (!has_shims && !evaluations.begin(layout, thread_state, pages)) return fail(Result::kUnreadable);
  for (std::uint64_t address = first; address != 0;) {
    if (read_count_ + 1 >= capacity_ && !grow()) return false;  // also for a boundary
    PythonFrame& frame = read_[read_count_];
    if (!read_frame(layout, address, pages, frame)) return fail(Result::kUnreadable);
    ++read_count_;
    if (frees_noticed_) {
      set_noticed_version(frame);
    } else if (layout.code_version == 0 && reader.python.is_static_code(frame.code)) {
      frame.version = kBySignature;
    } else if (layout.code_version == 0) {
      frame.identity = signature_of(reader, frame.code);
      frame.version = frame.identity == 0 ? kUnknownVersion : kBySignature;
    }
    address = frame.previous;
    if (has_shims) continue;
    bool ends = false;
    if (layout.links == FrameLinks::kEntryFlag) {
      // is_entry is not used: throw() links frames of generators with that of their last evaluation.
      ends = address == 0 || evaluations.ends_before(layout, address);
    } else {
      ends = true;
      if (may_delegate_throw(layout, frame.address)) [[unlikely]] {
        // Whether it does is decided when it is placed. In 3.9 the list of frames can end with such a frame.
        if (layout.evaluations_by_code()) delegating = address != 0 ? 1 : 0;
        if (delegating == kNotCounted) delegating = count_delegating(layout, frame.address, evaluations, pages);
        if (delegating != 0) {
          --delegating;
          ends = false;
        }
      }
    }
    if (!ends) continue;
    add_boundary(layout, evaluations);
    if (!evaluations.next(layout, pages)) return fail(Result::kUnreadable);
  }
  return true;
}

/// Determines the code object, the node's offset and the hash of a frame.
void ThreadFrames::resolve(const CodeReader& reader, PythonFrame& frame, std::uint64_t outer_hash,
                           recorder::Stream& stream) noexcept {
  const Layout& layout = *reader.python.layout;
  if (!frame.boundary()) {
    const std::int64_t instruction = instruction_of(layout, frame);
    const bool incomplete = is_incomplete(layout, frame, instruction);
    if (!incomplete && frame.number == 0) {
      const bool has_version = layout.code_version != 0 || frees_noticed_;
      // A static code object is identified by its module, too: another one may be loaded in the place of that.
      const std::uint32_t version = reader.python.is_static_code(frame.code)          ? reader.python.module
                                    : has_version && frame.version != kUnknownVersion ? frame.version
                                                                                      : 0;
      frame.number = code_number(reader, frame.code, version, identity_.hash(), stream);
    }
    frame.offset = incomplete || frame.number == 0 ? PythonFrame::kHidden : offset_at(frame.number, instruction);
  }
  frame.hash = hash_with(outer_hash, frame);
}

/// Reads all frames and keeps those outermost ones that are unchanged.
bool ThreadFrames::read_all(const CodeReader& reader, std::uint64_t thread_state, std::uint64_t first) noexcept {
  if (!read(reader, thread_state, first)) return false;
  // follow() has stored words of frames from resolved_ on that are not resolved.
  const std::uint32_t both = read_count_ < resolved_ ? read_count_ : resolved_;
  std::uint32_t same = 0;
  while (same != both && same_words(frames_[same], read_[read_count_ - 1 - same])) ++same;
  kept_ = resolved_ = same;
  read_count_ -= same;
  return true;
}

ThreadFrames::Result ThreadFrames::update(const Interpreter& python, std::uint64_t thread_state, bool frees_noticed,
                                          ReadablePages& pages, recorder::Stream& stream) noexcept {
  if (skipped_ != 0) [[unlikely]] {
    --skipped_;
    return Result::kTooMany;
  }
  const Layout& layout = *python.layout;
  begin_update();
  if (frees_noticed != frees_noticed_) [[unlikely]] {
    frees_noticed_ = frees_noticed;
    last_count_ = resolved_ = last_written_ = 0;
  }
  const std::uint64_t freed = freed_code_objects();  // before any version is read
  std::uint64_t first = 0;
  if (!innermost_frame(layout, thread_state, pages, first)) return Result::kUnreadable;
  if (first == 0) return Result::kNone;
  if (const PythonIdentity identity = identity_of(layout, python, thread_state); !(identity == identity_))
      [[unlikely]] {
    identity_ = identity;
    last_count_ = resolved_ = last_written_ = 0;
  }
  if (!several_states_ && ((thread_state != thread_state_ && thread_state_ != 0) ||
                           has_other_interpreters(python, identity_))) [[unlikely]] {
    several_states_ = true;
    last_count_ = resolved_ = last_written_ = 0;
  }
  thread_state_ = thread_state;
  return finish_update(python, first, freed, pages, stream);
}

[[gnu::noinline]] ThreadFrames::Result ThreadFrames::finish_update(const Interpreter& python, std::uint64_t first,
                                                                   std::uint64_t freed, ReadablePages& pages,
                                                                   recorder::Stream& stream) noexcept {
  const std::uint32_t version = python.layout->version;
  const CodeReader reader{python, pages};
  const bool verify_versions = freed != freed_;
  version_unknown_ = false;
  failure_ = Result::kFrames;
  const bool is_remembered = frees_noticed_ && last_count_ != 0;
  const bool followed =
      version == 0x0308 ? is_remembered && follow_evaluations<kLayout38>(thread_state_, first, verify_versions, pages)
      : version == 0x0309
          ? is_remembered && follow_evaluations<kLayout39>(thread_state_, first, verify_versions, pages)
      : version == 0x030a
          ? is_remembered && follow_evaluations<kLayout310>(thread_state_, first, verify_versions, pages)
      : version == 0x030b
          ? is_remembered && follow_evaluations<kLayout311>(thread_state_, first, verify_versions, pages)
      : version == 0x030c ? follow<kLayout312>(first, pages)
      : version == 0x030d ? follow<kLayout313>(first, pages)
      : version == 0x030e ? follow<kLayout314>(first, pages)
      : version == 0x030f ? follow<kLayout315>(first, pages)
                          : false;
  if (!followed && (failure_ != Result::kFrames || !read_all(reader, thread_state_, first))) {
    if (failure_ == Result::kTooMany) skipped_ = kSkippedEvents;
    return failure_;
  }
  const std::uint32_t count = kept_ + read_count_;
  if (count > capacity_ && !grow()) return failure_;
  for (std::uint32_t i = kept_; i != count; ++i) {
    PythonFrame& frame = frames_[i];
    PythonFrame& now = read_[count - 1 - i];
    if (i < last_written_ && same_code(now, frame)) now.number = frame.number;
    frame = now;
  }
  for (std::uint32_t i = resolved_; i != count; ++i)
    resolve(reader, frames_[i], i == 0 ? 0 : frames_[i - 1].hash, stream);
  freed_ = version_unknown_ ? kVerify : freed;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  written_ = count > last_written_ ? count : last_written_;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  count_ = count;
  return Result::kFrames;
}

}  // namespace heapprof::python
