// Removes the white space between the tokens of a JSON document: what the commands print is indented for readers. Of
// a tree of 500 levels, 97% is indentation.
#pragma once

#include <string>
#include <string_view>

namespace heapprof::serve {

/// Compacts a document that arrives in pieces.
class JsonCompactor {
 public:
  /// Appends the piece to `text` without white space outside strings.
  void append(std::string_view piece, std::string& text);

 private:
  bool in_string_ = false;
  bool escaped_ = false;
};

/// Removes, in place, all white space outside strings, except one line feed at the end if there was one. Text that is
/// no JSON stays text, without white space.
void compact_json(std::string& text);

}  // namespace heapprof::serve
