// Why something failed, for messages.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace heapprof {

inline constexpr const char* kNotEnoughMemory =
    "not enough memory; close other programs, raise the limit (ulimit -v), or use another machine";

/// Whether memory has run out, or would by far if it were tried.
inline bool is_out_of_memory(const std::exception& error) noexcept {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const std::length_error*>(&error) != nullptr;
}

/// what(), in plain words also when memory has run out: then it names a type or a function of the standard library.
inline std::string reason_of(const std::exception& error) {
  return is_out_of_memory(error) ? kNotEnoughMemory : error.what();
}

}  // namespace heapprof
