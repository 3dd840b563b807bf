#pragma once

#include <string>

namespace heapprof::cli {

/// What `heapprof` alone prints: how to begin, and what there is to look at in the current folder.
std::string first_screen();

}  // namespace heapprof::cli
