// The Python frames of a thread, read from memory that looks like CPython's, of version 3.13 unless a test says
// otherwise: what is remembered, what is refused, and what a signal handler leaves behind that leaves an update by
// longjmp.
#include "preload/python/thread_frames.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "preload/arch/arch.h"
#include "preload/python/code_objects.h"
#include "preload/unwind/stack_bounds.h"
#include "preload/unwind/unwinder.h"
#include "tests/support/seed.h"
#include "tests/unit/recorder/stream_fixture.h"

using namespace heapprof;
using namespace heapprof::python;
using namespace heapprof::test;

namespace {

constexpr const Layout& kLayout = kLayout313;

/// The memory of an interpreter.
class Memory {
 public:
  static constexpr std::size_t kBytes = 1u << 20;

  explicit Memory(const Layout& of_version = kLayout313) : layout(of_version) {
    void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    begin_ = end_ = reinterpret_cast<std::uint64_t>(mapped);
    const std::uint64_t runtime = object(4096);
    interpreter_state = object(64);
    state = object(512);
    python.layout = &layout;
    python.runtime = runtime;
    python.code_type.in_module = object(64);
    python.text_type.in_module = object(64);
    python.bytes_type.in_module = object(64);
    python.state_id = 8;
    set(state + layout.interpreter, interpreter_state);
  }
  ~Memory() { munmap(reinterpret_cast<void*>(begin_), kBytes); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  template <typename T>
  static void set(std::uint64_t address, T value) {
    *reinterpret_cast<T*>(address) = value;
  }

  std::uint64_t object(std::size_t bytes, std::uint64_t type = 0) {
    const std::uint64_t address = end_;
    end_ += (bytes + 15) / 16 * 16;
    REQUIRE(end_ <= begin_ + kBytes);
    set<std::uint64_t>(address, 1);  // reference count
    set(address + kObjectType, type);
    return address;
  }

  std::uint64_t text(std::string_view characters) {
    const std::uint64_t address = object(layout.ascii_text + characters.size() + 1, python.text_type.in_module);
    set(address + kObjectSize, std::uint64_t{characters.size()});
    set(address + kTextState, std::uint32_t{1 << 2 | 1 << 5 | 1 << 6});
    std::memcpy(reinterpret_cast<void*>(address + layout.ascii_text), characters.data(), characters.size());
    return address;
  }

  std::uint64_t code(std::string_view name, std::uint32_t version) {
    const std::uint64_t address = object(kCodeBytes, python.code_type.in_module);
    set(address + layout.first_line, 1);
    set(address + layout.file, text("file.py"));
    set(address + layout.name, text(name));
    set(address + layout.table, object(kBytesData + 1, python.bytes_type.in_module));
    if (layout.code_version != 0) set(address + layout.code_version, version);
    return address;
  }

  /// A frame inside of the frame `previous`, at the second instruction.
  std::uint64_t frame(std::uint64_t of_code, std::uint64_t previous) {
    const std::uint64_t address = object(kFrameBytes);
    set(address + layout.code, of_code);
    set(address + layout.previous, previous);
    set(address + layout.instruction, of_code + layout.bytecode + 2);
    return address;
  }

  static constexpr std::size_t kCodeBytes = 272, kFrameBytes = 128;

  const Layout& layout;
  Interpreter python{};
  std::uint64_t interpreter_state;
  std::uint64_t state;

 private:
  std::uint64_t begin_;
  std::uint64_t end_;
};

class Thread {
 public:
  explicit Thread(Memory& memory) : memory_(memory) { unwind::start_probing(); }

  ThreadFrames::Result update(std::uint64_t innermost) {
    Memory::set(memory_.state + kLayout.frame, innermost);
    pages.begin_event();
    return frames.update(memory_.python, memory_.state, false, pages, recording_.state->stream);
  }
  /// The fast path alone.
  ThreadFrames::Result update_again(std::uint64_t innermost) {
    Memory::set(memory_.state + kLayout.frame, innermost);
    pages.begin_event();
    return frames.update_again<kLayout313>(memory_.python, memory_.state, false, pages, stream());
  }
  std::uint32_t number(std::uint32_t index) const { return frames.frames()[index].number; }
  recorder::Stream& stream() { return recording_.state->stream; }

  ThreadFrames frames{};
  ReadablePages pages{};

 private:
  Memory& memory_;
  StreamFixture recording_;
};

using Result = ThreadFrames::Result;

/// A thread that calls and returns at random. Frames and code objects are at few addresses, which are used again.
class RandomCalls {
 public:
  static constexpr std::size_t kMaxDepth = 12;

  RandomCalls(Memory& memory, std::uint64_t seed) : memory_(memory), random_(seed), none_(memory.object(64)) {
    for (auto& depth : places_)
      for (std::uint64_t& place : depth) place = memory.object(Memory::kFrameBytes);
    for (std::uint64_t& structure : structures_) structure = memory.object(32);
    for (unsigned i = 0; i != kNames; ++i) names_.push_back(memory.text("f" + std::to_string(i)));
    for (std::uint64_t& code : codes_) {
      code = memory.code("f", ++version_);
      if (layout().first_traceable != 0) Memory::set(code + layout().first_traceable, std::int32_t{2});
    }
    call(0, codes_[0], 3);
    if (!has_shims()) calls_.back().evaluation = true;
  }

  void step() {
    switch (below(10)) {
      case 0:
      case 1:
      case 2: call(below(3), codes_[below(kCodes)], below(4)); break;
      case 3:
      case 4: end(1 + below(3)); break;
      case 5: calls_[below(calls_.size())].instruction = below(4); break;
      case 6: replace(codes_[below(kCodes)]); break;
      case 7: call_again_with_replaced_code(); break;
      default: calls_.back().instruction = below(4);
    }
  }

  /// Stores the frames as the interpreter has them.
  void publish() const {
    std::uint64_t frame = 0;
    std::uint64_t structure = has_structures() ? root_structure() : 0;
    for (std::size_t depth = 0; depth != calls_.size(); ++depth) {
      const Call& call = calls_[depth];
      const std::uint64_t outer = frame;
      frame = places_[depth][call.kind];
      Memory::set(frame + layout().code, call.code | (layout().code_tag & 1));
      Memory::set(frame + layout().previous, outer);
      if (layout().owner != 0) Memory::set(frame + layout().owner, kOwners[call.kind]);
      if (layout().bytecode != 0) {
        Memory::set(frame + layout().instruction, call.code + layout().bytecode + 2 * call.instruction);
      } else {
        Memory::set(frame + layout().instruction, std::uint32_t{call.instruction});
      }
      if (has_structures() && call.evaluation) {
        Memory::set(structures_[depth] + layout().cframe_previous, structure);
        structure = structures_[depth];
      }
      if (layout().frame == 0 && has_structures()) Memory::set(structure + layout().cframe_frame, frame);
    }
    if (layout().frame == 0 && !has_structures()) {  // 3.12
      structure = structures_[0];
      Memory::set(structure + layout().cframe_frame, frame);
    }
    if (layout().frame != 0) Memory::set(memory_.state + layout().frame, frame);
    if (layout().cframe != 0) Memory::set(memory_.state + layout().cframe, structure);
  }

 private:
  static constexpr unsigned kCodes = 4, kNames = 8;
  /// The first kind of place is on the thread's stack of frames, the second one is in a generator, and the last one,
  /// on the C stack, separates evaluations.
  static constexpr std::uint8_t kOwners[] = {0, kOwnedByGenerator, kFirstShimOwner};

  struct Call {
    std::uint64_t code;
    unsigned kind;
    unsigned instruction;
    bool evaluation;  ///< it begins one; only without shims
  };

  const Layout& layout() const { return memory_.layout; }
  bool has_shims() const { return layout().links == FrameLinks::kShim; }
  /// Whether structures of evaluations separate frames (3.10 and 3.11).
  bool has_structures() const { return !has_shims() && layout().cframe != 0; }
  /// The structure outside of all evaluations.
  std::uint64_t root_structure() const {
    return layout().root_cframe != 0 ? memory_.state + layout().root_cframe : structures_[kMaxDepth];
  }

  unsigned below(std::size_t end) {
    return static_cast<unsigned>(std::uniform_int_distribution<std::size_t>(0, end - 1)(random_));
  }

  void call(unsigned kind, std::uint64_t code, unsigned instruction) {
    if (calls_.size() == kMaxDepth) return;
    if (has_shims()) {
      calls_.push_back({kOwners[kind] == kFirstShimOwner ? none_ : code, kind, instruction, false});
    } else {
      const bool evaluation = layout().links == FrameLinks::kOneFrame || kOwners[kind] == kFirstShimOwner;
      calls_.push_back({code, kind % 2, instruction, evaluation});
    }
  }

  /// The outermost call never ends.
  void end(std::size_t calls) { calls_.resize(calls_.size() - std::min(calls, calls_.size() - 1)); }

  /// Another code object takes the memory of one that no frame executes.
  void replace(std::uint64_t code) {
    for (const Call& each : calls_)
      if (each.code == code) return;
    block_freed(reinterpret_cast<const void*>(code));
    Memory::set(code + layout().name, names_[below(kNames)]);
    if (layout().code_version != 0) Memory::set(code + layout().code_version, ++version_);
  }

  void call_again_with_replaced_code() {
    if (calls_.size() == 1) return;
    const Call last = calls_.back();
    end(1);
    if (last.code != none_) replace(last.code);
    calls_.push_back(last);
  }

  Memory& memory_;
  std::mt19937_64 random_;
  std::uint64_t none_;
  std::uint64_t places_[kMaxDepth][3];
  std::uint64_t structures_[kMaxDepth + 1];
  std::uint64_t codes_[kCodes];
  std::vector<std::uint64_t> names_;
  std::uint32_t version_ = 0;
  std::vector<Call> calls_;
};

/// Whether `frames` are those that `full`, which remembers nothing, reads.
bool are_those_in_full(const ThreadFrames& frames, const ThreadFrames& full) {
  if (frames.count() != full.count()) return false;
  for (std::uint32_t i = 0; i != full.count(); ++i) {
    const PythonFrame& frame = frames.frames()[i];
    const PythonFrame& expected = full.frames()[i];
    if (frame.address != expected.address || frame.offset != expected.offset || frame.hash != expected.hash)
      return false;
  }
  return true;
}

template <const Layout& kVersion>
void compare_random_calls() {
  forget_code_objects();
  unwind::start_probing();
  const bool frees_noticed = kVersion.code_version == 0;
  REQUIRE_FALSE(python::detail::code_table_full);
  Memory memory(kVersion);
  StreamFixture recording;
  recorder::Stream& stream = recording.state->stream;
  ReadablePages pages{};
  ThreadFrames frames{}, full{};
  RandomCalls calls(memory, seed(1));
  constexpr unsigned kEvents = 10'000;
  unsigned again = 0;
  for (unsigned event = 0; event != kEvents; ++event) {
    for (unsigned steps = event % 4; steps != 0; --steps) calls.step();
    calls.publish();
    pages.begin_event();
    if (frames.update_again<kVersion>(memory.python, memory.state, frees_noticed, pages, stream) == Result::kFrames)
      ++again;
    else if (frames.update(memory.python, memory.state, frees_noticed, pages, stream) != Result::kFrames)
      FAIL("no frames at event " << event);
    full.forget_as(frames);
    if (full.update(memory.python, memory.state, frees_noticed, pages, stream) != Result::kFrames)
      FAIL("no frames in full at event " << event);
    if (!are_those_in_full(frames, full)) FAIL("other frames than in full at event " << event);
  }
  CHECK(again == kEvents - 1);  // the first event has nothing to compare with
}

}  // namespace

TEST_CASE("Frames that are compared with remembered ones are those that are read in full") {
  SECTION("3.8") { compare_random_calls<kLayout38>(); }
  SECTION("3.9") { compare_random_calls<kLayout39>(); }
  SECTION("3.10") { compare_random_calls<kLayout310>(); }
  SECTION("3.11") { compare_random_calls<kLayout311>(); }
  SECTION("3.12") { compare_random_calls<kLayout312>(); }
  SECTION("3.13") { compare_random_calls<kLayout313>(); }
  SECTION("3.14") { compare_random_calls<kLayout314>(); }
  SECTION("3.15") { compare_random_calls<kLayout315>(); }
}

TEST_CASE("A frame that has ended is taken for a new one only with its link, code object and readable memory") {
  forget_code_objects();
  Memory memory;
  Thread thread(memory);
  const std::uint64_t outer_code = memory.code("outer", 1);
  const std::uint64_t outer = memory.frame(outer_code, 0);
  const std::uint64_t code = memory.code("inner", 2);
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  const auto inner = reinterpret_cast<std::uint64_t>(page);
  Memory::set(inner + kLayout.code, code);
  Memory::set(inner + kLayout.previous, outer);
  Memory::set(inner + kLayout.instruction, code + kLayout.bytecode + 2);
  REQUIRE(thread.update(inner) == Result::kFrames);
  const std::uint64_t hash = thread.frames.hash();
  const std::uint32_t number = thread.number(1);
  REQUIRE(thread.update_again(outer) == Result::kFrames);
  REQUIRE(thread.frames.count() == 1);
  SECTION("the same call") {
    REQUIRE(thread.update_again(inner) == Result::kFrames);
    CHECK(thread.frames.hash() == hash);
    CHECK(thread.number(1) == number);
  }
  SECTION("from another instruction of the outer frame") {
    Memory::set(outer + kLayout.instruction, outer_code + kLayout.bytecode + 4);
    REQUIRE(thread.update_again(inner) == Result::kFrames);
    CHECK(thread.frames.count() == 2);
    CHECK(thread.frames.hash() != hash);
    CHECK(thread.number(1) == number);
  }
  SECTION("another code object with the same address") {
    Memory::set(code + kLayout.name, memory.text("other"));
    Memory::set(code + kLayout.code_version, std::uint32_t{3});
    REQUIRE(thread.update_again(inner) == Result::kFrames);
    CHECK(thread.number(1) != number);
  }
  SECTION("from another frame") {
    const std::uint64_t between = memory.frame(memory.code("between", 3), outer);
    Memory::set(inner + kLayout.previous, between);
    REQUIRE(thread.update_again(inner) == Result::kFrames);
    CHECK(thread.frames.count() == 3);
    CHECK(thread.number(2) == number);
  }
  SECTION("after the outer frame has ended, too") {
    const std::uint64_t other = memory.frame(memory.code("other", 3), 0);
    REQUIRE(thread.update_again(other) == Result::kFrames);
    REQUIRE(thread.update_again(inner) == Result::kFrames);
    CHECK(thread.frames.count() == 2);
    CHECK(thread.frames.frames()[0].address == outer);
    CHECK(thread.frames.hash() == hash);
  }
  SECTION("memory that was unmapped") {
    munmap(page, 4096);
    unwind::invalidate_stack_region(inner, 4096);
    CHECK(thread.update_again(inner) != Result::kFrames);
    CHECK(thread.update(inner) == Result::kUnreadable);
    REQUIRE(thread.update(outer) == Result::kFrames);
    CHECK(thread.frames.count() == 1);
    return;
  }
  munmap(page, 4096);
}

TEST_CASE("An evaluation that has ended is taken for a new one only with its structure, links and code object") {
  forget_code_objects();
  unwind::start_probing();
  REQUIRE_FALSE(python::detail::code_table_full);
  Memory memory(kLayout311);
  StreamFixture recording;
  recorder::Stream& stream = recording.state->stream;
  ReadablePages pages{};
  ThreadFrames frames{}, full{};
  const auto structure = [&memory](std::uint64_t outer) {
    const std::uint64_t address = memory.object(32);
    Memory::set(address + kLayout311.cframe_previous, outer);
    return address;
  };
  // Two evaluations: each has one frame.
  const std::uint64_t outer_structure = structure(memory.object(32));
  const std::uint64_t outer_code = memory.code("outer", 0);
  const std::uint64_t outer = memory.frame(outer_code, 0);
  std::uint64_t inner_structure = structure(outer_structure);
  const std::uint64_t code = memory.code("inner", 0);
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  const auto inner = reinterpret_cast<std::uint64_t>(page);
  Memory::set(inner + kLayout311.code, code);
  Memory::set(inner + kLayout311.previous, outer);
  Memory::set(inner + kLayout311.instruction, code + kLayout311.bytecode + 2);
  // `evaluation` executes `frame`, which is the innermost one.
  const auto execute = [&memory, &pages](std::uint64_t evaluation, std::uint64_t frame) {
    Memory::set(evaluation + kLayout311.cframe_frame, frame);
    Memory::set(memory.state + kLayout311.cframe, evaluation);
    pages.begin_event();
  };
  const auto update = [&](std::uint64_t evaluation, std::uint64_t frame) {
    execute(evaluation, frame);
    return frames.update(memory.python, memory.state, true, pages, stream);
  };
  const auto update_again = [&](std::uint64_t evaluation, std::uint64_t frame) {
    execute(evaluation, frame);
    return frames.update_again<kLayout311>(memory.python, memory.state, true, pages, stream);
  };
  REQUIRE(update(outer_structure, outer) == Result::kFrames);
  REQUIRE(update(inner_structure, inner) == Result::kFrames);
  REQUIRE(frames.count() == 4);
  const std::uint64_t hash = frames.hash();
  const std::uint32_t number = frames.frames()[3].number;
  REQUIRE(update_again(outer_structure, outer) == Result::kFrames);
  REQUIRE(frames.count() == 2);
  SECTION("the same call") {
    REQUIRE(update_again(inner_structure, inner) == Result::kFrames);
    CHECK(frames.count() == 4);
    CHECK(frames.hash() == hash);
    CHECK(frames.frames()[3].number == number);
  }
  SECTION("from another instruction of the outer frame") {
    Memory::set(outer + kLayout311.instruction, outer_code + kLayout311.bytecode + 4);
    REQUIRE(update_again(inner_structure, inner) == Result::kFrames);
    CHECK(frames.count() == 4);
    CHECK(frames.hash() != hash);
  }
  SECTION("with a structure at another place") {
    inner_structure = structure(outer_structure);
    REQUIRE(update_again(inner_structure, inner) == Result::kFrames);
    CHECK(frames.count() == 4);
    CHECK(frames.frames()[2].address == inner_structure);
  }
  SECTION("from another frame of the outer evaluation") {
    const std::uint64_t between = memory.frame(memory.code("between", 0), outer);
    Memory::set(outer_structure + kLayout311.cframe_frame, between);
    Memory::set(inner + kLayout311.previous, between);
    REQUIRE(update_again(inner_structure, inner) == Result::kFrames);
    CHECK(frames.count() == 5);
  }
  SECTION("from another evaluation") {
    const std::uint64_t between_structure = structure(outer_structure);
    const std::uint64_t between = memory.frame(memory.code("between", 0), outer);
    Memory::set(between_structure + kLayout311.cframe_frame, between);
    Memory::set(inner_structure + kLayout311.cframe_previous, between_structure);
    Memory::set(inner + kLayout311.previous, between);
    REQUIRE(update_again(inner_structure, inner) == Result::kFrames);
    CHECK(frames.count() == 6);
  }
  SECTION("in the outer evaluation") {
    REQUIRE(update_again(outer_structure, inner) == Result::kFrames);
    CHECK(frames.count() == 3);
  }
  SECTION("another code object with the same address") {
    block_freed(reinterpret_cast<const void*>(code));
    Memory::set(code + kLayout311.name, memory.text("other"));
    REQUIRE(update_again(inner_structure, inner) == Result::kFrames);
    CHECK(frames.frames()[3].number != number);
  }
  SECTION("memory that was unmapped") {
    munmap(page, 4096);
    unwind::invalidate_stack_region(inner, 4096);
    CHECK(update_again(inner_structure, inner) != Result::kFrames);
    CHECK(update(inner_structure, inner) == Result::kUnreadable);
    REQUIRE(update(outer_structure, outer) == Result::kFrames);
    CHECK(frames.count() == 2);
    return;
  }
  full.forget_as(frames);
  REQUIRE(full.update(memory.python, memory.state, true, pages, stream) == Result::kFrames);
  CHECK(are_those_in_full(frames, full));
  munmap(page, 4096);
}

TEST_CASE("The fast path leaves to the whole update what may be another thread or interpreter") {
  forget_code_objects();
  Memory memory;
  constexpr std::uint32_t kFirst = 16, kNext = 24;
  memory.python.first_state = kFirst;
  memory.python.next_state = kNext;
  Memory::set(memory.python.runtime + kFirst, memory.interpreter_state);
  Thread thread(memory);
  const std::uint64_t frame = memory.frame(memory.code("f", 1), 0);
  CHECK(thread.update_again(frame) != Result::kFrames);  // nothing is remembered
  REQUIRE(thread.update(frame) == Result::kFrames);
  REQUIRE(thread.update_again(frame) == Result::kFrames);
  SECTION("another thread state") {
    const std::uint64_t other = memory.object(256);
    Memory::set(other + kLayout.interpreter, memory.interpreter_state);
    memory.state = other;
  }
  SECTION("another interpreter state") { Memory::set(memory.state + kLayout.interpreter, memory.object(64)); }
  SECTION("an interpreter state with another id") {
    Memory::set(memory.interpreter_state + memory.python.state_id, std::uint64_t{1});
  }
  SECTION("a runtime that began again") { ++memory.python.restarts; }
  SECTION("a second interpreter after the first one") {
    Memory::set(memory.interpreter_state + kNext, memory.object(64));
  }
  SECTION("a second interpreter before the first one") {
    Memory::set(memory.python.runtime + kFirst, memory.object(64));
  }
  SECTION("frames that were forgotten") { thread.frames.forget(); }
  CHECK(thread.update_again(frame) != Result::kFrames);
  CHECK(thread.update(frame) == Result::kFrames);
}

TEST_CASE("A thread has no frames, or ones that cannot be read, also by the fast path") {
  forget_code_objects();
  Memory memory;
  Thread thread(memory);
  const std::uint64_t frame = memory.frame(memory.code("f", 1), 0);
  REQUIRE(thread.update(frame) == Result::kFrames);
  CHECK(thread.update_again(0) != Result::kFrames);
  CHECK(thread.update(0) == Result::kNone);
  REQUIRE(thread.update(frame) == Result::kFrames);
  CHECK(thread.update_again(frame + 4) != Result::kFrames);
  CHECK(thread.update(frame + 4) == Result::kUnreadable);
  REQUIRE(thread.update(frame) == Result::kFrames);
  CHECK(thread.frames.count() == 1);
}

TEST_CASE("A thread has the same state only while key, runtime and owner say so") {
  Memory memory;
  const std::uint64_t runtime = memory.python.runtime;
  ReadablePages pages{};
  pthread_key_t key;
  REQUIRE(pthread_key_create(&key, nullptr) == 0);
  pthread_setspecific(key, reinterpret_cast<void*>(memory.state));
  Memory::set(runtime + kLayout.tss_key, std::uint64_t{1} | std::uint64_t{key} << 32);
  Memory::set(memory.state + kLayout.thread_id, arch::thread_pointer());
  const auto is_same = [&] { return has_same_state<kLayout313>(memory.python, memory.state, pages); };
  CHECK(is_same());
  SECTION("another state") { pthread_setspecific(key, reinterpret_cast<void*>(runtime)); }
  SECTION("no state") { pthread_setspecific(key, nullptr); }
  SECTION("no key") { Memory::set(runtime + kLayout.tss_key, std::uint64_t{key} << 32); }
  SECTION("a runtime that another thread ends") { Memory::set(runtime + kLayout.finalizing, runtime); }
  SECTION("a runtime that this thread ends") { Memory::set(runtime + kLayout.finalizing, memory.state); }
  SECTION("the state of another thread") {
    Memory::set(memory.state + kLayout.thread_id, arch::thread_pointer() + 16);
  }
  CHECK_FALSE(is_same());
  pthread_key_delete(key);
}

TEST_CASE("The state with the lock is used if this thread executes it, not if it has only created it") {
  const bool is_older = GENERATE(true, false);
  const Layout& layout = is_older ? kLayout310 : kLayout311;
  unwind::start_probing();
  Memory memory(layout);
  const std::uint64_t runtime = memory.python.runtime;
  pthread_key_t key;
  REQUIRE(pthread_key_create(&key, nullptr) == 0);
  pthread_setspecific(key, reinterpret_cast<void*>(memory.state));
  Memory::set(runtime + layout.tss_key, std::uint64_t{1} | std::uint64_t{key} << 32);
  const std::uint64_t other = memory.object(512);
  Memory::set(other + layout.interpreter, memory.interpreter_state);
  Memory::set(memory.state + layout.thread_id, arch::thread_pointer());
  Memory::set(other + layout.thread_id, arch::thread_pointer());
  Memory::set(runtime + layout.lock_holder, other);
  // A word of this function's frame.
  Memory::set(other + layout.cframe, to_address(arch::stack_pointer()));
  std::uint64_t expected = memory.state;
  SECTION("in an evaluation on this stack") { expected = other; }
  SECTION("in one on another stack") { Memory::set(other + layout.cframe, memory.object(64)); }
  SECTION("in memory below this stack") { Memory::set(other + layout.cframe, std::uint64_t{4096}); }
  SECTION("in no evaluation") { Memory::set(other + layout.cframe, other + 264); }
  SECTION("a state of another thread") { Memory::set(other + layout.thread_id, arch::thread_pointer() + 16); }
  SECTION("nobody has the lock") { Memory::set(runtime + layout.lock_holder, std::uint64_t{0}); }
  ReadablePages pages{};
  pages.begin_event();
  unwind::StackBounds bounds{};
  CheckedState checked{};
  CHECK(thread_state(memory.python, pages, bounds, checked) == expected);
  pthread_key_delete(key);
}

TEST_CASE("Frames of one code object have one number, also when they are read again") {
  forget_code_objects();
  Memory memory;
  Thread thread(memory);
  const std::uint64_t outer = memory.frame(memory.code("outer", 1), 0);
  const std::uint64_t code = memory.code("inner", 2);
  const std::uint64_t inner = memory.frame(code, memory.frame(code, outer));
  REQUIRE(thread.update(inner) == Result::kFrames);
  REQUIRE(thread.frames.count() == 3);
  CHECK(thread.number(1) == thread.number(2));
  CHECK(thread.number(0) != thread.number(1));
  const std::uint64_t hash = thread.frames.hash();
  CHECK(thread.update(outer) == Result::kFrames);
  CHECK(thread.frames.hash() != hash);
  CHECK(thread.update(inner) == Result::kFrames);
  CHECK(thread.frames.hash() == hash);
  CHECK(thread.update(0) == Result::kNone);
}

TEST_CASE("Without versions, the content of a code object is read again unless it is in the interpreter's data") {
  forget_code_objects();
  Memory memory(kLayout311);
  Thread thread(memory);
  const std::uint64_t code = memory.code("f", 0);
  const std::uint64_t structure = memory.object(32);
  Memory::set(structure + kLayout311.cframe_frame, memory.frame(code, 0));
  Memory::set(structure + kLayout311.cframe_previous, std::uint64_t{0});
  Memory::set(memory.state + kLayout311.cframe, structure);
  memory.python.module = 2;
  const auto number = [&] {
    thread.pages.begin_event();
    REQUIRE(thread.frames.update(memory.python, memory.state, false, thread.pages, thread.stream()) ==
            Result::kFrames);
    return thread.number(thread.frames.count() - 1);
  };
  SECTION("in its data") {
    memory.python.static_begin = code;
    memory.python.static_end = code + 1;
    const std::uint32_t first = number();
    REQUIRE(first != 0);
    Memory::set(code + kLayout311.first_line, 2);
    CHECK(number() == first);
    thread.frames.forget();
    CHECK(number() == first);
    memory.python.module = 3;  // another module in its place
    thread.frames.forget();
    CHECK(number() != first);
  }
  SECTION("before its data") {
    memory.python.static_begin = code + 16;
    memory.python.static_end = code + 32;
    const std::uint32_t first = number();
    REQUIRE(first != 0);
    Memory::set(code + kLayout311.first_line, 2);
    CHECK(number() != first);
  }
}

TEST_CASE("Another interpreter, or one that began again, may have a code object with the same address and version") {
  forget_code_objects();
  Memory memory;
  Thread thread(memory);
  const std::uint64_t code = memory.code("first", 1);
  const std::uint64_t frame = memory.frame(code, 0);
  REQUIRE(thread.update(frame) == Result::kFrames);
  const std::uint32_t first = thread.number(0);
  SECTION("the same one") {
    REQUIRE(thread.update(frame) == Result::kFrames);
    CHECK(thread.number(0) == first);
  }
  SECTION("another one") {
    Memory::set(code + kLayout.name, memory.text("other"));
    SECTION("another id") { Memory::set(memory.interpreter_state + memory.python.state_id, std::uint64_t{1}); }
    SECTION("begun again") { ++memory.python.restarts; }
    REQUIRE(thread.update(frame) == Result::kFrames);
    CHECK(thread.number(0) != first);
  }
}

TEST_CASE("No number of an interpreter is found for another one, though there are many") {
  forget_code_objects();
  Memory memory;
  Thread thread(memory);
  const CodeReader reader{memory.python, thread.pages};
  const std::uint64_t code = memory.code("first", 1);
  const std::uint32_t first = code_number(reader, code, 1, 0, thread.stream());
  REQUIRE(first != 0);
  Memory::set(code + kLayout.name, memory.text("other"));
  const std::uint32_t other = code_number(reader, code, 1, 1, thread.stream());
  CHECK((other != 0 && other != first));
  // An object that is being freed gets no number, but one that is stored is found: so that of the first interpreter
  // stays stored, and no other one is.
  Memory::set(code, std::uint32_t{0});
  constexpr std::uint64_t kInterpreters = 1u << 18;
  std::uint32_t wrong = 0;
  for (std::uint64_t each = 2; each != kInterpreters; ++each)
    wrong += code_number(reader, code, 1, each, thread.stream()) != 0;
  CHECK(wrong == 0);
  CHECK(code_number(reader, code, 1, 0, thread.stream()) == first);
}

TEST_CASE("Wrong pointers are not followed") {
  forget_code_objects();
  Memory memory;
  Thread thread(memory);
  const std::uint64_t outer = memory.frame(memory.code("outer", 1), 0);
  const std::uint64_t code = memory.code("inner", 2);
  const std::uint64_t frame = memory.frame(code, outer);
  REQUIRE(thread.update(frame) == Result::kFrames);
  void* const unreadable = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(unreadable != MAP_FAILED);
  const auto inaccessible = reinterpret_cast<std::uint64_t>(unreadable);
  for (const std::uint64_t wrong : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{8}, frame + 4, inaccessible,
                                    inaccessible - 8, ~std::uint64_t{7}}) {
    CAPTURE(wrong);
    CHECK(thread.update(wrong) == Result::kUnreadable);
    Memory::set(frame + kLayout.previous, wrong);
    CHECK(thread.update(frame) == Result::kUnreadable);
    Memory::set(frame + kLayout.previous, outer);
    Memory::set(frame + kLayout.code, wrong);
    CHECK(thread.update(frame) == Result::kUnreadable);
    Memory::set(frame + kLayout.code, code);
    // A new code object, whose texts are read for the first time.
    const std::uint64_t damaged = memory.code("damaged", static_cast<std::uint32_t>(wrong) | 1);
    Memory::set(damaged + kLayout.name, wrong);
    Memory::set(damaged + kLayout.table, wrong);
    CHECK(thread.update(memory.frame(damaged, outer)) == Result::kFrames);
  }
  // No frame, and no code object: of a thread whose state is being freed.
  Memory::set(frame + kLayout.code, std::uint64_t{0});
  CHECK(thread.update(frame) == Result::kUnreadable);
  Memory::set(frame + kLayout.code, code);
  REQUIRE(thread.update(frame) == Result::kFrames);
  CHECK(thread.frames.count() == 2);
  munmap(unreadable, 4096);
}

TEST_CASE("A chain of frames without an end is read once, and then not for some events") {
  forget_code_objects();
  Memory memory;
  Thread thread(memory);
  const std::uint64_t code = memory.code("f", 1);
  const std::uint64_t frame = memory.frame(code, 0);
  Memory::set(frame + kLayout.previous, frame);
  CHECK(thread.update(frame) == Result::kTooMany);
  Memory::set(frame + kLayout.previous, std::uint64_t{0});
  unsigned skipped = 0;
  while (thread.update(frame) == Result::kTooMany) ++skipped;
  CHECK(skipped == 1024);
  CHECK(thread.frames.count() == 1);
  // Another thread that gets the object has other frames.
  Memory::set(frame + kLayout.previous, frame);
  CHECK(thread.update(frame) == Result::kTooMany);
  Memory::set(frame + kLayout.previous, std::uint64_t{0});
  thread.frames.forget();
  CHECK(thread.update(frame) == Result::kFrames);
}
