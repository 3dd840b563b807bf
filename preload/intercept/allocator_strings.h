// Recognises an allocator in a program without symbols, by strings in its read-only data.
#pragma once

namespace heapprof::intercept {

/// The name of the allocator that the file at `path` contains; null when no known string is found, or it cannot be
/// read.
const char* find_allocator_by_strings(const char* path) noexcept;

}  // namespace heapprof::intercept
