// The architecture's folder, chosen by the build: preload/meson.build puts preload/arch/<cpu family> on the
// include path. Each folder has the same files:
//   raw_syscall.h      raw system calls (not syscall.h, which libc has)
//   ticks.h            the cycle clock
//   entry.h            the registers with which a stack begins
//   dwarf_registers.h  registers by DWARF's numbers, signal frames
// and for programs that carry their own allocator, included where they are used:
//   intercept_call.h   the registers of a diverted function's caller
//   patch.h            diverting a function
#pragma once

#include "dwarf_registers.h"
#include "entry.h"
#include "raw_syscall.h"
#include "ticks.h"
