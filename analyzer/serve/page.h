// The page that the browser shows: the files of analyzer/page, which are part of this program.
#pragma once

#include <string>
#include <string_view>

namespace heapprof::serve {

struct Asset {
  std::string_view name;  ///< "page.css"
  std::string_view text;
  std::string_view hash;  ///< of the text, as in a Content-Security-Policy: "sha256-..."
};

/// nullptr: there is no such file.
const Asset* find_asset(std::string_view name);
std::string_view content_type_of(std::string_view name);

/// index.html as the server sends it.
const std::string& served_page();

/// The page as one file that needs no other, and may load none: with all scripts and styles, and with `answers`, a
/// JSON document, in an element with the id "answers".
std::string self_contained_page(std::string answers);

}  // namespace heapprof::serve
