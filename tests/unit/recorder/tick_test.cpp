// The tick word, which the kernel changes at each tick of its timer.
#include "preload/recorder/clock/tick.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <time.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "preload/sys/proc_maps.h"
#include "tests/support/skip_case.h"

using namespace heapprof;
using namespace heapprof::recorder;

extern "C" {
extern void* __libc_stack_end;
}

namespace {

/// Hides the vDSO in the auxiliary vector. Emulators such as qemu-user 7.2 have none.
class HiddenVdso {
 public:
  HiddenVdso() {
    // The stack at the start: the number of arguments, these, the environment, and the auxiliary vector.
    auto* at = static_cast<std::uint64_t*>(__libc_stack_end);
    at += 1 + at[0] + 1;
    while (*at != 0) ++at;
    for (auto* entry = reinterpret_cast<ElfW(auxv_t)*>(at + 1); entry->a_type != AT_NULL; ++entry)
      if (entry->a_type == AT_SYSINFO_EHDR) hidden_ = entry;
    if (hidden_ != nullptr) hidden_->a_type = AT_IGNORE;
  }
  ~HiddenVdso() {
    if (hidden_ != nullptr) hidden_->a_type = AT_SYSINFO_EHDR;
  }
  HiddenVdso(const HiddenVdso&) = delete;
  HiddenVdso& operator=(const HiddenVdso&) = delete;

 private:
  ElfW(auxv_t) * hidden_ = nullptr;
};

std::uint64_t coarse_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

/// False, and the case is skipped, where the kernel's page has no such word (a time namespace, an emulator).
bool find_or_skip() {
  find_tick_word();
  if (has_tick_word()) return true;
  test::skip_case("no tick word in this process: each event reads the clock");
  CHECK(tick() == 0);
  return false;
}

const void* before_word(std::uint64_t bytes) { return reinterpret_cast<const char*>(g_tick_word) - bytes; }

}  // namespace

TEST_CASE("The word changes with each tick of the coarse clock, and only then") {
  if (!find_or_skip()) return;
  unsigned ticks = 0, compared = 0;
  std::uint64_t last_tick = 0, last_ns = 0;
  while (ticks < 5) {
    // The word belongs to `ns` if the clock did not tick around it.
    const std::uint64_t ns = coarse_ns();
    const std::uint64_t now = tick();
    if (coarse_ns() != ns) continue;
    if (last_ns != 0) {
      REQUIRE((now == last_tick) == (ns == last_ns));
      ++compared;
      if (ns != last_ns) ++ticks;
    }
    last_tick = now;
    last_ns = ns;
  }
  CHECK(compared > ticks);
}

TEST_CASE("The word is in the kernel's page") {
  if (!find_or_skip()) return;
  sys::Mapping mapping;
  REQUIRE(sys::find_mapping("[vvar]", mapping));
  const auto word = reinterpret_cast<std::uint64_t>(g_tick_word);
  CHECK(word >= mapping.begin);
  CHECK(word + sizeof *g_tick_word <= mapping.end);
}

TEST_CASE("A word that the host unmaps is not read any more") {
  if (!find_or_skip()) return;
  SECTION("the range begins at the word") {
    forget_tick_word_in(g_tick_word, 1);
    CHECK_FALSE(has_tick_word());
  }
  SECTION("the word is the last in the range") {
    forget_tick_word_in(before_word(4096), 4096 + sizeof *g_tick_word);
    CHECK_FALSE(has_tick_word());
  }
  SECTION("the range ends before the word") {
    forget_tick_word_in(before_word(4096), 4096);
    CHECK(has_tick_word());
  }
  SECTION("the range begins after the word") {
    forget_tick_word_in(g_tick_word + 1, 4096);
    CHECK(has_tick_word());
  }
  SECTION("the range is empty") {
    forget_tick_word_in(g_tick_word, 0);
    CHECK(has_tick_word());
  }
  if (!has_tick_word()) CHECK(tick() == 0);
  find_tick_word();
  CHECK(has_tick_word());
}

TEST_CASE("Without a tick word there is nothing to forget") {
  if (find_or_skip()) forget_tick_word_in(g_tick_word, sizeof *g_tick_word);
  REQUIRE_FALSE(has_tick_word());
  forget_tick_word_in(g_tick_word, sizeof *g_tick_word);
  CHECK_FALSE(has_tick_word());
  CHECK(tick() == 0);
  find_tick_word();
}

TEST_CASE("A forked child's search for the word keeps errno where there is no vDSO") {
  find_tick_word();  // as its parent did at the start
  const HiddenVdso hidden;
  errno = 0;
  REQUIRE(getauxval(AT_SYSINFO_EHDR) == 0);
  REQUIRE(errno == ENOENT);
  errno = 0;
  find_tick_word();
  CHECK(errno == 0);
}
