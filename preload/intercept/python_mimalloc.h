// The mimalloc in interpreters of Python.
#pragma once

#include <link.h>

#include "preload/sys/guarded_read.h"

namespace heapprof::intercept {

/// Whether the object is an interpreter of Python that contains mimalloc and does not use it. From 3.13 on, nearly
/// every one contains it. It allocates by it if it has no global interpreter lock, or if PYTHONMALLOC says so
/// (CPython, Objects/obmalloc.c and Python/preconfig.c). False if it cannot be read. True also if the object contains
/// another mimalloc, which it uses: that has the same texts, of which a linker keeps one. Its functions are found if
/// the object exports all symbols, which it usually does so that modules find those of Python.
bool python_leaves_mimalloc_unused(const link_map& map, sys::GuardedReader& reader) noexcept;

}  // namespace heapprof::intercept
