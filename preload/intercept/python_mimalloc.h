// The mimalloc in interpreters of Python.
#pragma once

#include <link.h>

#include "preload/sys/guarded_read.h"

namespace heapprof::intercept {

/// Whether the object is an interpreter of Python that contains mimalloc and does not use it. From 3.13 on, nearly
/// every one contains it. It allocates by it if it has no global interpreter lock, or if PYTHONMALLOC says so
/// (CPython, Objects/obmalloc.c and Python/preconfig.c). False if it cannot be read.
bool python_leaves_mimalloc_unused(const link_map& map, sys::GuardedReader& reader) noexcept;

}  // namespace heapprof::intercept
