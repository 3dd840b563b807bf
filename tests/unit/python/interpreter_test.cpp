// What is noted of an interpreter at events at which its frames are not read.
#include "preload/python/interpreter.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstdint>

#include "preload/arch/arch.h"
#include "preload/recorder/recorder.h"
#include "preload/recorder/trace/recording.h"
#include "preload/unwind/invalidation.h"
#include "preload/unwind/unwinder.h"
#include "tests/unit/recorder/thread_fixture.h"

using namespace heapprof;
using namespace heapprof::python;
using namespace heapprof::test;

namespace {

constexpr const Layout& kLayout = kLayout312;
constexpr std::uint64_t kModuleBegin = 0x10000, kModuleEnd = 0x20000;
constexpr std::uint64_t kPageBytes = 4096;

/// The only interpreter of the process during the lifetime of this object, whose frames were read once. Recording is
/// paused.
class PausedInterpreter {
 public:
  PausedInterpreter() {
    unwind::start_probing();
    REQUIRE(recorder::attach_thread() != nullptr);
    void* const mapped = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    entry() = {};
    entry().layout = &kLayout;
    entry().runtime = reinterpret_cast<std::uint64_t>(mapped);
    entry().first_state = kLayout.first_state;
    entry().module_begin = kModuleBegin;
    entry().module_end = kModuleEnd;
    entry().readable_epoch = unwind::kNoEpoch;
    entry().initialized = 1;
    entry().module = 1;
    detail::interpreter_count = 1;
    begin();
    recorder::g_next_sample = ~std::uint64_t{0};
    recorder::g_pause = 1;
    recorder::g_state = recorder::State::kOn;
  }
  ~PausedInterpreter() {
    recorder::g_state = state_before_;
    recorder::g_pause = 0;
    detail::interpreter_count = 0;
    if (loaded_) unload();
    entry() = {};
  }
  PausedInterpreter(const PausedInterpreter&) = delete;
  PausedInterpreter& operator=(const PausedInterpreter&) = delete;

  void begin() { set(1, 1); }
  void end() { set(0, 0); }
  void set(std::uint64_t key, std::uint64_t first_state) {
    *reinterpret_cast<std::uint64_t*>(entry().runtime + kLayout.tss_key) = key;
    *reinterpret_cast<std::uint64_t*>(entry().runtime + kLayout.first_state) = first_state;
  }
  void unload() {
    loaded_ = false;
    munmap(reinterpret_cast<void*>(entry().runtime), kPageBytes);
    unwind::loader_activity();
  }

  static void allocate(std::uint64_t caller) {
    const auto sp = arch::stack_pointer();
    recorder::detail::allocated(&recorder::g_pause, 8, ProgramCounter{caller}, sp, 0);
  }
  static std::uint32_t restarts() { return entry().restarts; }

 private:
  static Interpreter& entry() { return interpreter(1); }

  bool loaded_ = true;
  const ThreadFixture recording_{65536};
  const recorder::State state_before_ = recorder::g_state;
};

}  // namespace

TEST_CASE("A runtime that ends and begins again while recording is paused is noticed") {
  PausedInterpreter interpreter;
  interpreter.allocate(kModuleBegin);
  CHECK(interpreter.restarts() == 0);
  SECTION("without key and states") { interpreter.end(); }
  SECTION("without key") { interpreter.set(0, 1); }
  SECTION("without states") { interpreter.set(1, 0); }
  interpreter.allocate(kModuleEnd);  // not by the interpreter: it may not be loaded any more
  interpreter.allocate(kModuleBegin - 1);
  CHECK(interpreter.restarts() == 0);
  interpreter.allocate(kModuleEnd - 1);
  CHECK(interpreter.restarts() == 1);
  interpreter.allocate(kModuleBegin);
  interpreter.begin();
  interpreter.allocate(kModuleBegin);
  CHECK(interpreter.restarts() == 1);
  interpreter.end();
  interpreter.allocate(kModuleBegin);
  CHECK(interpreter.restarts() == 2);
}

TEST_CASE("A runtime that was unloaded while recording is paused is not read") {
  PausedInterpreter interpreter;
  interpreter.allocate(kModuleBegin);
  interpreter.unload();
  interpreter.allocate(kModuleBegin);
  CHECK(interpreter.restarts() == 0);
}
