// The library's start and end. Recording itself starts at the first event that finds libc ready, which may
// be earlier; the constructor sees to programs that never allocate.
#include "preload/hooks/real.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/recorder.h"

namespace heapprof::hooks {

namespace {

[[gnu::constructor]] void library_loaded() noexcept {
  real();  // at the latest now, while nothing can have been unloaded
  if (recorder::state() == recorder::State::kNew) recorder::start();
  recorder::prepare_environment();
}

/// Runs after the handlers of atexit and the destructors of whatever depends on us; what others free after
/// this is still recorded.
[[gnu::destructor]] void exiting() noexcept { recorder::exit_reached(); }

}  // namespace

}  // namespace heapprof::hooks
