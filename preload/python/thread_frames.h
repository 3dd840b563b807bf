// The Python frames of one thread, read from the interpreter's memory at each event and compared with those of the
// event before.
//
// Frames are followed from the innermost to the outermost, one at a time: a frame is live if the one inside of it
// links to it, and only then its memory may be read. Where code objects have versions, their own or the number of
// frees that were noticed (freed_code.h), a frame whose words and version are those of the last event is the same
// frame at the same instruction, so it costs a few comparisons. Otherwise every code object is identified again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/python/broken_rule.h"
#include "preload/python/code_objects.h"
#include "preload/python/frame_words.h"
#include "preload/python/freed_code.h"
#include "preload/python/interpreter.h"
#include "preload/python/readable_pages.h"
#include "preload/recorder/trace/stream.h"

namespace heapprof::python {

/// A frame, or the boundary between the frames of one evaluation and of the next outer one.
struct PythonFrame {
  /// Values of `offset` that are not those of nodes.
  static constexpr std::uint64_t kHidden = ~std::uint64_t{0};        ///< a frame that does not execute yet
  static constexpr std::uint64_t kBoundary = ~std::uint64_t{0} - 1;  ///< the end of an evaluation

  std::uint64_t address;  ///< of a boundary: an address in the C frame of the evaluation
  // The words that are compared. Of a boundary of 3.10 and 3.11, `previous` is the structure of the next outer
  // evaluation, and `instruction` the frame that this structure refers to, if it does.
  std::uint64_t code;
  std::uint64_t instruction;
  std::uint64_t previous;
  /// Where code objects have versions: the address of the version; for a boundary of frames, that of an unchanging
  /// word. Elsewhere: the signature of the code object (code_objects.h); of a static one, that of this word, too.
  std::uint64_t identity;
  std::uint32_t version;  ///< of the code object

  std::uint32_t number;  ///< of the code object
  std::uint64_t offset;  ///< of the node (python_offset), or a value from above
  std::uint64_t hash;    ///< of this element and all outer ones; equal stacks have equal hashes

  bool boundary() const noexcept { return offset == kBoundary; }
  bool hidden() const noexcept { return offset == kHidden; }
};

static_assert(sizeof(PythonFrame) == 64);

/// The number of the instruction at which a frame is, counted in its code object.
[[gnu::always_inline]] inline std::int64_t instruction_of(const Layout& layout, const PythonFrame& frame) noexcept {
  // Instructions have two bytes. A shift, because compilers divide in code that they expect to be executed seldom.
  if (layout.bytecode != 0) return static_cast<std::int64_t>(frame.instruction - frame.code - layout.bytecode) >> 1;
  const std::int64_t instruction = static_cast<std::int32_t>(frame.instruction);
  return layout.lines == PythonLines::kLnotab ? instruction >> 1 : instruction;  // in bytes
}

/// Whether a frame does not execute yet: it is before the first instruction that can have a line.
[[gnu::always_inline]] inline bool is_incomplete(const Layout& layout, const PythonFrame& frame,
                                                 std::int64_t instruction) noexcept {
  constexpr std::int32_t kTooFar = is_broken(Rule::kHidden) ? 1 : 0;
  return layout.first_traceable != 0 &&
         instruction < load<std::int32_t>(frame.code + layout.first_traceable) + kTooFar &&
         load<std::uint8_t>(frame.address + layout.owner) != kOwnedByGenerator;
}

/// Whether a link of a boundary of 3.10 or 3.11 has changed. The structure of the boundary must be live.
[[gnu::always_inline]] inline bool boundary_changed(const Layout& layout, const PythonFrame& boundary) noexcept {
  if (boundary.address == 0) return false;
  if (boundary.previous == 0)  // the link of the outermost structure of 3.10 is not initialized
    return layout.root_cframe == 0 && load<std::uint64_t>(boundary.address + layout.cframe_previous) != 0;
  if (load<std::uint64_t>(boundary.address + layout.cframe_previous) != boundary.previous) return true;
  return layout.frame == 0 && load<std::uint64_t>(boundary.previous + layout.cframe_frame) != boundary.instruction;
}

/// The node's offset of a frame that executes.
inline std::uint64_t offset_at(std::uint32_t code_number, std::int64_t instruction) noexcept {
  const bool known = instruction >= 0 && instruction < kPythonNoInstruction;
  return python_offset(code_number, known ? static_cast<std::uint32_t>(instruction) : kPythonNoInstruction);
}

/// Zeroed memory is a valid object.
class ThreadFrames {
 public:
  enum class Result : std::uint8_t {
    kFrames,
    kNone,        ///< the thread has no frames
    kUnreadable,  ///< a pointer of the interpreter is wrong
    kTooMany,     ///< more than kMaxFrames
    kNoMemory,
  };
  static constexpr std::uint32_t kMaxFrames = 1u << 18;

  /// Reads the frames of `thread_state`, which is the calling thread's. `frees_noticed`: of code objects
  /// (CodeRelease::is_noticed).
  Result update(const Interpreter& python, std::uint64_t thread_state, bool frees_noticed, ReadablePages& pages,
                recorder::Stream& stream) noexcept;

  /// The fast path of update(): tests whether thread state, interpreter and `frees_noticed` are those of the last
  /// update. kLayout: that of `python`; it makes all offsets constants. A result other than kFrames means only that
  /// update() must be called.
  template <const Layout& kLayout>
  Result update_again(const Interpreter& python, std::uint64_t thread_state, bool frees_noticed, ReadablePages& pages,
                      recorder::Stream& stream) noexcept;

  /// Forgets the remembered frames. Call it when the object gets another thread, or an update was abandoned.
  void forget() noexcept { count_ = written_ = skipped_ = 0; }
  /// Forgets the remembered frames, and hashes frames as `other` does.
  void forget_as(const ThreadFrames& other) noexcept {
    forget();
    thread_state_ = other.thread_state_;
    several_states_ = other.several_states_;
  }

  /// The frames after update(), outermost first.
  const PythonFrame* frames() const noexcept { return frames_; }
  std::uint32_t count() const noexcept { return count_; }
  /// Hash of all frames.
  std::uint64_t hash() const noexcept { return frames_[count_ - 1].hash; }

 private:
  std::uint32_t find(std::uint64_t address, std::uint32_t window, std::uint32_t ended_window) const noexcept;
  template <const Layout& kLayout>
  bool are_called_again(std::uint32_t count, ReadablePages& pages) const noexcept;
  template <const Layout& kLayout>
  bool evaluations_are_called_again(std::uint32_t count, std::uint64_t& evaluation,
                                    ReadablePages& pages) const noexcept;
  template <const Layout& kLayout>
  bool compare(std::uint32_t count, std::uint32_t& changed) const noexcept;
  template <const Layout& kLayout>
  bool can_skip(bool verify_versions) const noexcept;
  template <const Layout& kLayout>
  PythonFrame* skip_unchanged(PythonFrame* frame) const noexcept;
  template <const Layout& kLayout>
  bool compare_evaluations(std::uint32_t count, std::uint64_t evaluation, bool verify_versions,
                           std::uint32_t& changed) const noexcept;
  template <const Layout& kLayout>
  bool resolve_again(std::uint32_t begin, std::uint32_t count) noexcept;
  void begin_update() noexcept;
  Result finish_update(const Interpreter& python, std::uint64_t first, std::uint64_t freed, ReadablePages& pages,
                       recorder::Stream& stream) noexcept;
  template <const Layout& kLayout>
  bool follow(std::uint64_t first, ReadablePages& pages) noexcept;
  template <const Layout& kLayout>
  bool follow_evaluations(std::uint64_t thread_state, std::uint64_t first, bool verify_versions,
                          ReadablePages& pages) noexcept;
  template <const Layout& kLayout>
  bool verify_evaluations(std::uint32_t count, bool verify_versions, ReadablePages& pages) noexcept;
  void set_noticed_version(PythonFrame& frame) noexcept;
  bool read_all(const CodeReader& reader, std::uint64_t thread_state, std::uint64_t first) noexcept;
  bool read(const CodeReader& reader, std::uint64_t thread_state, std::uint64_t first) noexcept;
  std::uint64_t signature_of(const CodeReader& reader, std::uint64_t code) noexcept;
  template <typename Evaluations>
  void add_boundary(const Layout& layout, const Evaluations& evaluations) noexcept;
  void resolve(const CodeReader& reader, PythonFrame& frame, std::uint64_t outer_hash,
               recorder::Stream& stream) noexcept;
  std::uint64_t hash_with(std::uint64_t outer_hash, const PythonFrame& frame) const noexcept;
  bool grow() noexcept;
  bool fail(Result failure) noexcept;

  /// The number of remembered frames, from the innermost, with which a new frame is compared. Between two events, a
  /// thread seldom returns from more calls than that.
  static constexpr std::uint32_t kWindow = 8;
  /// The same, of frames and boundaries up to 3.11.
  static constexpr std::uint32_t kElementWindow = 2 * kWindow;
  /// The number of frames that have ended, from the outermost, with which the innermost frame is compared: a
  /// recursion may call so many functions before it allocates. Boundaries count, too.
  static constexpr std::uint32_t kEndedWindow = 12;

  PythonFrame* frames_;  ///< outermost first
  PythonFrame* read_;    ///< innermost first; in the same mapping
  std::uint32_t capacity_;
  /// While elements of frames_ are changed, at most the number of those before them, so that an abandoned update
  /// leaves nothing wrong.
  std::uint32_t count_;
  std::uint32_t read_count_;
  std::uint32_t kept_;        ///< remembered frames that remain, from the outermost
  std::uint32_t resolved_;    ///< frames from this index on have changed
  std::uint32_t last_count_;  ///< count_ before the update
  /// At least count_: the elements of frames_ whose code object, version and number belong together. Those beyond
  /// count_ are of frames that have ended; their offsets and hashes may be wrong. 0 as count_ is.
  std::uint32_t written_;
  std::uint32_t last_written_;  ///< written_ before the update
  std::uint32_t skipped_;       ///< events that are still to be skipped after kTooMany
  Result failure_;              ///< of the current update
  bool frees_noticed_;          ///< the remembered frames have versions by noticed frees
  bool version_unknown_;        ///< a frame of the current update has no version although frees are noticed
  std::uint64_t freed_;         ///< freed_code_objects() at the last update; kVerify: all versions must be compared
  PythonIdentity identity_;     ///< of the remembered frames
  std::uint64_t thread_state_;  ///< of the last update
  /// There were others, or there may be: evaluations of this thread state may stand between those of another one (A
  /// calls B, and B calls A). Then the number of evaluations does not determine which of them execute these frames,
  /// so the hashes contain the addresses of boundaries.
  bool several_states_;

  /// The signature of a code object that was read at an event.
  struct SeenCode {
    std::uint64_t event;
    std::uint64_t code;
    std::uint64_t signature;
  };
  static constexpr unsigned kSeenCodeBits = 6;
  std::uint64_t event_;  ///< counts the readings of all frames
  SeenCode seen_codes_[1u << kSeenCodeBits];

  static constexpr std::uint64_t kVerify = ~std::uint64_t{0};
};

/// The hash of a frame, whose offset is set, and of all outer ones.
inline std::uint64_t ThreadFrames::hash_with(std::uint64_t outer_hash, const PythonFrame& frame) const noexcept {
  if (frame.hidden()) return outer_hash;
  const std::uint64_t own = frame.boundary() && several_states_ ? frame.offset ^ frame.address : frame.offset;
  std::uint64_t hash = (outer_hash ^ own) * 0x9fb21c651e98df25;
  hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93;
  return hash ^ hash >> 32;
}

/// How many elements of frames_ there are up to the frame at `address`, the innermost one of the thread; 0: it is
/// none of the last ones. More than count_: it has ended, and its memory is that of a frame again.
inline std::uint32_t ThreadFrames::find(std::uint64_t address, std::uint32_t window,
                                        std::uint32_t ended_window) const noexcept {
  // Most events are in the function of the event before, or in its caller, which a boundary may separate from it.
  if (frames_[count_ - 1].address == address) return count_;
  if (count_ > 1 && frames_[count_ - 2].address == address) return count_ - 1;
  if (count_ > 2 && frames_[count_ - 3].address == address) return count_ - 2;
  const std::uint32_t ended = written_ > count_ + ended_window ? count_ + ended_window : written_;
  for (std::uint32_t i = count_; i < ended; ++i)
    if (frames_[i].address == address) return i + 1;
  std::uint32_t known = count_ > 2 ? count_ - 3 : 0;
  const std::uint32_t end = count_ > window ? count_ - window : 0;
  while (known != end && frames_[known - 1].address != address) --known;
  return known != end ? known : 0;
}

/// Whether frames that have ended, the elements from count_ to `count`, were called again in the same way: with the
/// same links and code objects, perhaps at other instructions. The innermost one must be live. They are read as new
/// frames are: after their memory, and that of their code objects, was found readable.
template <const Layout& kLayout>
[[gnu::always_inline]] inline bool ThreadFrames::are_called_again(std::uint32_t count,
                                                                  ReadablePages& pages) const noexcept {
  const PythonFrame* frame = frames_ + count;
  do {
    --frame;
    // The next outer element may be that of another call.
    if (frame->previous != frame[-1].address || !pages.object(frame->address, frame_bytes(kLayout)) ||
        load<std::uint64_t>(frame->address + kLayout.previous) != frame->previous ||
        code_of(kLayout, frame->address) != frame->code ||
        (!frame->boundary() && !pages.object(frame->code, code_bytes(kLayout))) ||
        load<std::uint32_t>(frame->identity) != frame->version)
      return false;
  } while (frame != frames_ + count_);
  return true;
}

/// As are_called_again(), up to 3.11, where frees of code objects are noticed: the structures of the evaluations of
/// these frames must be linked as before, too. `evaluation`: the innermost structure of the thread; 0: the version
/// has none. It is set to that of the frames outside of these elements.
template <const Layout& kLayout>
[[gnu::always_inline]] inline bool ThreadFrames::evaluations_are_called_again(std::uint32_t count,
                                                                              std::uint64_t& evaluation,
                                                                              ReadablePages& pages) const noexcept {
  // Then each of these elements has a frame outside of it.
  if (frames_[count - 1].boundary() || frames_[count_ - 1].boundary()) [[unlikely]]
    return false;
  const PythonFrame* frame = frames_ + count;
  do {
    --frame;
    if (frame->boundary()) {
      if (frame->address != evaluation) return false;
      if constexpr (kLayout.cframe != 0) {
        if (frame->previous == 0 || !pages.object(evaluation, cframe_bytes(kLayout)) ||
            !pages.object(frame->previous, cframe_bytes(kLayout)) || boundary_changed(kLayout, *frame))
          return false;
        // The next outer element may be that of another call.
        if (kLayout.frame == 0 && frame->instruction != frame[-1].address) return false;
      }
      evaluation = frame->previous;
      continue;
    }
    const bool ends_evaluation = frame[-1].boundary();
    const PythonFrame& outer = ends_evaluation ? frame[-2] : frame[-1];
    if (outer.boundary() || frame->previous != outer.address ||
        (kLayout.links == FrameLinks::kOneFrame && !ends_evaluation) ||
        !pages.object(frame->address, frame_bytes(kLayout)) ||
        load<std::uint64_t>(frame->address + kLayout.previous) != frame->previous ||
        may_delegate_throw(kLayout, frame->address) || code_of(kLayout, frame->address) != frame->code ||
        !pages.object(frame->code, code_bytes(kLayout)) || load<std::uint32_t>(frame->identity) != frame->version)
      return false;
  } while (frame != frames_ + count_);
  return true;
}

/// Whether the thread's frames are the outermost `count` remembered ones, perhaps at other instructions. `changed`:
/// set to the number of frames outside of the outermost one at another instruction; `count`: there is none. The
/// innermost one of these must be live.
template <const Layout& kLayout>
[[gnu::always_inline]] inline bool ThreadFrames::compare(std::uint32_t count, std::uint32_t& changed) const noexcept {
  const PythonFrame* frame = frames_ + count;
  const PythonFrame* outermost_changed = frame;
  // The loads of a frame do not depend on those of the frame before, so that the processor executes them at once. A
  // frame is live, and its memory is mapped, because the one inside of it still links to it. A code object is live
  // because its frame still refers to it: its version may be read when both are known to be the same.
  do {
    --frame;
    const std::uint64_t links = load<std::uint64_t>(frame->address + kLayout.previous) ^ frame->previous;
    const std::uint64_t codes = code_of(kLayout, frame->address) ^ frame->code;
    if ((links | codes) != 0 || load<std::uint32_t>(frame->identity) != frame->version) [[unlikely]]
      return false;
    if (load<std::uint64_t>(frame->address + kLayout.instruction) != frame->instruction) [[unlikely]]
      outermost_changed = frame;
  } while (frame != frames_);
  changed = static_cast<std::uint32_t>(outermost_changed - frames_);
  return true;
}

/// Whether skip_unchanged() may be called: in 3.11, unless `verify_versions`. There an instruction is an address in
/// the frame's code object. While none of the remembered frames' code objects has been freed, the same address is in
/// the same code object, so that neither the code object nor its version must be compared.
template <const Layout& kLayout>
[[gnu::always_inline]] inline bool ThreadFrames::can_skip(bool verify_versions) const noexcept {
  return kLayout.links == FrameLinks::kEntryFlag && !verify_versions && frames_[0].boundary();
}

/// Returns where the elements begin that are no boundaries, and have the same links and instructions as before, from
/// the one that ends at `frame` outwards. The one that ends at the result has changed, or is a boundary.
template <const Layout& kLayout>
[[gnu::always_inline]] inline PythonFrame* ThreadFrames::skip_unchanged(PythonFrame* frame) const noexcept {
  while (!frame[-1].boundary() && load<std::uint64_t>(frame[-1].address + kLayout.previous) == frame[-1].previous &&
         instruction_word(kLayout, frame[-1].address) == frame[-1].instruction)
    --frame;
  return frame;
}

/// As compare(), up to 3.11, where frees of code objects are noticed: there, boundaries are structures that are
/// linked with each other. Each one among the remembered frames refers to the structure of the next one.
/// `evaluation`: the structure of the innermost one of these frames; 0: the version has none. `verify_versions`: code
/// objects may have been freed since the versions were compared.
template <const Layout& kLayout>
[[gnu::always_inline]] inline bool ThreadFrames::compare_evaluations(std::uint32_t count, std::uint64_t evaluation,
                                                                     bool verify_versions,
                                                                     std::uint32_t& changed) const noexcept {
  PythonFrame* frame = frames_ + count;
  const PythonFrame* outermost_changed = frame;
  if (frame[-1].boundary()) [[unlikely]]
    return false;
  const bool skips = can_skip<kLayout>(verify_versions);
  bool is_innermost_evaluation = true;
  do {
    if (skips) frame = skip_unchanged<kLayout>(frame);
    --frame;
    if (frame->boundary()) {
      // The innermost frame must belong to the current evaluation.
      if (is_innermost_evaluation && frame->address != evaluation) [[unlikely]]
        return false;
      is_innermost_evaluation = false;
      if (boundary_changed(kLayout, *frame)) [[unlikely]]
        return false;
      continue;
    }
    if (load<std::uint64_t>(frame->address + kLayout.previous) != frame->previous ||
        code_of(kLayout, frame->address) != frame->code || may_delegate_throw(kLayout, frame->address)) [[unlikely]]
      return false;
    // It may have delegated at the last event: then its evaluation has no boundary.
    if (kLayout.links == FrameLinks::kOneFrame && (frame == frames_ || !frame[-1].boundary())) [[unlikely]]
      return false;
    if (verify_versions && load<std::uint32_t>(frame->identity) != frame->version) [[unlikely]]
      return false;
    if (instruction_word(kLayout, frame->address) != frame->instruction) [[unlikely]]
      outermost_changed = frame;
  } while (frame != frames_);
  changed = static_cast<std::uint32_t>(outermost_changed - frames_);
  return !is_innermost_evaluation;
}

/// Makes the remembered frames the first `count` elements, which the functions above have confirmed. Those from
/// `begin` on may be at other instructions, or inside of other ones. Returns false if one of them has no number yet;
/// then the ones from `begin` on are forgotten.
template <const Layout& kLayout>
[[gnu::always_inline]] inline bool ThreadFrames::resolve_again(std::uint32_t begin, std::uint32_t count) noexcept {
  count_ = begin;  // if a signal handler leaves by longjmp
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::uint64_t hash = begin == 0 ? 0 : frames_[begin - 1].hash;
  for (std::uint32_t i = begin; i != count; ++i) {
    PythonFrame& frame = frames_[i];
    if (kLayout.links == FrameLinks::kShim || !frame.boundary())
      frame.instruction = instruction_word(kLayout, frame.address);
    if (!frame.boundary()) {
      const std::int64_t instruction = instruction_of(kLayout, frame);
      if (is_incomplete(kLayout, frame, instruction)) {
        frame.offset = PythonFrame::kHidden;
      } else {
        if (frame.number == 0) [[unlikely]]
          return false;
        frame.offset = offset_at(frame.number, instruction);
      }
    }
    frame.hash = hash = hash_with(hash, frame);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  count_ = count;
  return true;
}

/// Forgets the frames until the update has succeeded; last_count_ and last_written_ say what was remembered.
inline void ThreadFrames::begin_update() noexcept {
  last_count_ = count_;
  last_written_ = written_;
  count_ = written_ = 0;
  resolved_ = last_count_;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

template <const Layout& kLayout>
[[gnu::always_inline]] inline ThreadFrames::Result ThreadFrames::update_again(const Interpreter& python,
                                                                              std::uint64_t thread_state,
                                                                              bool frees_noticed,
                                                                              ReadablePages& pages,
                                                                              recorder::Stream& stream) noexcept {
  // Everything that makes update() forget frames, or change how they are hashed.
  if (count_ == 0 || thread_state != thread_state_ || frees_noticed != frees_noticed_) [[unlikely]]
    return Result::kNone;
  if (!(identity_of(kLayout, python, thread_state) == identity_)) [[unlikely]]
    return Result::kNone;
  if (!several_states_ && has_other_interpreters(python, identity_)) [[unlikely]]
    return Result::kNone;
  const std::uint64_t freed = freed_code_objects();  // before any version is read
  std::uint64_t first = 0;
  if (!innermost_frame(kLayout, thread_state, pages, first) || first == 0) [[unlikely]]
    return Result::kNone;
  if constexpr (kLayout.links == FrameLinks::kShim) {
    const std::uint32_t count = find(first, kWindow, kEndedWindow);
    const std::uint32_t live = count < count_ ? count : count_;
    std::uint32_t changed = 0;
    if (count != 0 && (count == live || are_called_again<kLayout>(count, pages)) && compare<kLayout>(live, changed)) {
      if (changed == count_ && count == count_) return Result::kFrames;  // nothing has changed
      if (resolve_again<kLayout>(changed, count)) [[likely]]
        return Result::kFrames;
    }
  } else if (frees_noticed) {
    std::uint64_t evaluation = kLayout.cframe == 0 ? 0 : load<std::uint64_t>(thread_state + kLayout.cframe);
    const std::uint32_t count = find(first, kElementWindow, kEndedWindow);
    const std::uint32_t live = count < count_ ? count : count_;
    std::uint32_t changed = 0;
    if (count != 0 && (count == live || evaluations_are_called_again<kLayout>(count, evaluation, pages)) &&
        compare_evaluations<kLayout>(live, evaluation, freed != freed_, changed) &&
        ((changed == count_ && count == count_) || resolve_again<kLayout>(changed, count))) [[likely]] {
      freed_ = freed;
      return Result::kFrames;
    }
  }
  begin_update();
  return finish_update(python, first, freed, pages, stream);
}

}  // namespace heapprof::python
