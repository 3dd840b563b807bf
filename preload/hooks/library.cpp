// The library's constructor and destructor. Recording starts at the first event after libc is ready, which may be
// earlier than the constructor; the constructor starts it in programs that never allocate.
#include "preload/hooks/dropped_registrations.h"
#include "preload/hooks/hook.h"
#include "preload/hooks/jit_frames.h"
#include "preload/hooks/musl.h"
#include "preload/intercept/intercept.h"
#include "preload/real/functions.h"
#include "preload/real/next_symbol.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/process/loader_start.h"
#include "preload/recorder/process/log.h"
#include "preload/recorder/recorder.h"
#include "preload/sys/kernel.h"

namespace heapprof::hooks {

namespace {

/// Whether the program's calls of free, and so of malloc, reach the hooks. False: an object that the loader searches
/// first defines free.
bool program_reaches_hooks() noexcept {
  return is_in_this_library(reinterpret_cast<std::uint64_t>(real::functions().program_free));
}

const char* why_hooks_are_not_reached() noexcept {
  return real::program_defines("free")
             ? "the program defines malloc itself: its allocations are not recorded"
             : "another preloaded library defines malloc: its allocations are not recorded; "
               "name libheapprof.so before it in LD_PRELOAD";
}

[[gnu::constructor]] void library_loaded() noexcept {
  real::functions();  // finds them at the latest here, before an object can be unloaded
  recorder::undo_loader_effects();
  if (recorder::state() == recorder::State::kNew) recorder::start();
  recorder::prepare_environment();
  // If there is no other thread, nothing is unloaded before the constructor returns.
  const bool only_thread = recorder::state() == recorder::State::kOn && sys::thread_count() == 1;
  // In a process that is not recorded, the first registration searches, because most processes register nothing.
  if (recorder::state() == recorder::State::kOn) {
    find_unwinding_library(only_thread);
    prepare_for_musl();
  }
  const bool free_is_patched = intercept::start(only_thread);
  if (recorder::state() == recorder::State::kOn && !free_is_patched && !program_reaches_hooks())
    recorder::log(recorder::LogLevel::kWarn, why_hooks_are_not_reached());
}

/// Runs after atexit handlers and after the destructors of objects that depend on this library. Frees that follow are
/// still recorded.
[[gnu::destructor]] void exiting() noexcept {
  note_dropped_registrations();
  recorder::exit_reached();
  prevent_tail_call();
}

}  // namespace

}  // namespace heapprof::hooks
