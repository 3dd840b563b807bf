// Text for people, in lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heapprof::render {

/// `text` (clean) in lines of at most so many code points, broken at blanks and at its own line feeds; a longer word
/// has a line of its own. At least one line.
std::vector<std::string> wrapped(std::string_view text, std::size_t code_points);

}  // namespace heapprof::render
