// Removes the white space between the tokens of a JSON document: what the commands print is indented for readers.
#pragma once

#include <string>

namespace heapprof::serve {

/// Removes, in place, all white space outside strings, except one line feed at the end if there was one. Text that is
/// no JSON stays text, without white space.
void compact_json(std::string& text);

}  // namespace heapprof::serve
