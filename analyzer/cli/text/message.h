// Messages to the user.
#pragma once

#include <string>

namespace heapprof::cli {

/// Prints "heapprof: TEXT" on standard error, without control characters.
void print_message(const std::string& text);

}  // namespace heapprof::cli
