// The library's start and end. Recording itself starts at the first event that finds libc ready, which may
// be earlier; the constructor sees to programs that never allocate.
#include "preload/hooks/hook.h"
#include "preload/hooks/jit_frames.h"
#include "preload/real/next_symbol.h"
#include "preload/real/functions.h"
#include "preload/intercept/intercept.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/process/loader_start.h"
#include "preload/recorder/process/log.h"
#include "preload/recorder/recorder.h"

namespace heapprof::hooks {

namespace {

/// False when another object's free, and then surely its malloc, is found before ours: the program calls hooks never.
bool program_reaches_hooks() noexcept {
  return is_own(reinterpret_cast<std::uint64_t>(real().program_free));
}

/// Who answers instead: the program itself, or a preloaded allocator that was named before us.
const char* who_answers() noexcept {
  return program_defines("free")
             ? "the program answers malloc itself: nothing it serves is recorded"
             : "another preloaded library answers malloc: nothing it serves is recorded; "
               "name libheapprof.so before it";
}

[[gnu::constructor]] void library_loaded() noexcept {
  real();  // at the latest now, while nothing can have been unloaded
  recorder::undo_loader_effects();
  if (recorder::state() == recorder::State::kNew) recorder::start();
  recorder::prepare_environment();
  // Elsewhere the first registration searches: most programs that are not recorded never need it.
  if (recorder::state() == recorder::State::kOn) find_unwinding_library();
  const bool diverted = intercept::start();
  if (recorder::state() == recorder::State::kOn && !diverted && !program_reaches_hooks())
    recorder::log(recorder::LogLevel::kWarn, who_answers());
}

/// Runs after the handlers of atexit and the destructors of whatever depends on us; what others free after
/// this is still recorded.
[[gnu::destructor]] void exiting() noexcept {
  report_lost_registrations();
  recorder::exit_reached();
  return_here();
}

}  // namespace

}  // namespace heapprof::hooks
