// The Python frames of a thread, read from memory that looks like CPython 3.13's: what is remembered, what is
// refused, and what a signal handler leaves behind that leaves an update by longjmp.
#include "preload/python/thread_frames.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "preload/python/code_objects.h"
#include "preload/unwind/stack_bounds.h"
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

  Memory() {
    void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    begin_ = end_ = reinterpret_cast<std::uint64_t>(mapped);
    const std::uint64_t runtime = object(64);
    interpreter_state = object(64);
    state = object(256);
    python.layout = &kLayout;
    python.runtime = runtime;
    python.code_type.in_module = object(64);
    python.text_type.in_module = object(64);
    python.bytes_type.in_module = object(64);
    python.state_id = 8;
    set(state + kLayout.interpreter, interpreter_state);
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
    const std::uint64_t address = object(kLayout.ascii_text + characters.size() + 1, python.text_type.in_module);
    set(address + kObjectSize, std::uint64_t{characters.size()});
    set(address + kTextState, std::uint32_t{1 << 2 | 1 << 5 | 1 << 6});
    std::memcpy(reinterpret_cast<void*>(address + kLayout.ascii_text), characters.data(), characters.size());
    return address;
  }

  std::uint64_t code(std::string_view name, std::uint32_t version) {
    const std::uint64_t address = object(kLayout.bytecode + 64, python.code_type.in_module);
    set(address + kLayout.first_line, 1);
    set(address + kLayout.file, text("file.py"));
    set(address + kLayout.name, text(name));
    set(address + kLayout.table, object(kBytesData + 1, python.bytes_type.in_module));
    set(address + kLayout.code_version, version);
    return address;
  }

  /// A frame inside of the frame `previous`, at the second instruction.
  std::uint64_t frame(std::uint64_t of_code, std::uint64_t previous) {
    const std::uint64_t address = object(80);
    set(address + kLayout.code, of_code);
    set(address + kLayout.previous, previous);
    set(address + kLayout.instruction, of_code + kLayout.bytecode + 2);
    return address;
  }

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
  std::uint32_t number(std::uint32_t index) const { return frames.frames()[index].number; }

  ThreadFrames frames{};
  ReadablePages pages{};

 private:
  Memory& memory_;
  StreamFixture recording_;
};

using Result = ThreadFrames::Result;

}  // namespace

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
