// Word wrapping.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heapprof::render {

/// `text` in lines of at most `code_points`, broken at blanks and at the line feeds in it. Apart from line feeds it
/// is clean (utf8.h). A longer word is a line of its own. Returns at least one line.
std::vector<std::string> wrapped(std::string_view text, std::size_t code_points);

}  // namespace heapprof::render
