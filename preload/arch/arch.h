// Definitions that depend on the processor architecture. preload/meson.build puts preload/arch/<cpu family> on the
// include path; each of these directories has the same files, which include nothing of the recorder:
//
//   raw_syscall.h      raw system calls (not syscall.h: libc has a file of that name)
//   ticks.h            the cycle clock
//   entry.h            the host's registers at the call of a hook
//   dwarf_registers.h  DWARF register numbers, signal frames
//   libc.map           the versions of libc's functions (preload/libc_surface.c)
//
// The code that patches functions is in preload/intercept/<cpu family>, and that which unwinds musl's libc in
// preload/unwind/<cpu family>.
#pragma once

#include "dwarf_registers.h"
#include "entry.h"
#include "raw_syscall.h"
#include "ticks.h"
