// Whether standard input and output are a terminal on which `top` can draw.
#pragma once

#include <string>

namespace heapprof::cli {

/// Why nothing can be drawn on standard output, or no key be read from standard input: "this is no terminal". Empty:
/// both can.
std::string why_no_screen();

}  // namespace heapprof::cli
