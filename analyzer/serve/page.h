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

/// A page with all scripts and styles in it: one request instead of one for each file, which a tunnel would delay
/// each.
struct Page {
  std::string text;
  /// The directives "script-src" and "style-src" of a Content-Security-Policy: these scripts and styles by their
  /// hashes, and no others.
  std::string sources;
};

/// As the server sends it.
const Page& served_page();

/// A file that needs no server, and may load nothing: the page with `answers`, a JSON document, in an element with
/// the id "answers".
std::string page_with_answers(std::string_view answers);

}  // namespace heapprof::serve
