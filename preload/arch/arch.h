// The architecture's folder, chosen by the build: preload/meson.build puts preload/arch/<cpu family> on the
// include path. Each folder has the same files:
//   syscall.h  raw system calls
//   ticks.h    the cycle clock
//   entry.h    the registers with which a stack begins
//   unwind.h   registers by DWARF's numbers, signal frames
#pragma once

#include "entry.h"
#include "syscall.h"
#include "ticks.h"
#include "unwind.h"
