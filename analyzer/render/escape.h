// Escapes for text in XML, JSON and CSV. `text` must be clean (clean_utf8() in utf8.h).
#pragma once

#include <string>
#include <string_view>

namespace heapprof::render {

/// Escapes `text` for use between tags or inside a quoted attribute.
std::string xml(std::string_view text);
void append_xml(std::string& out, std::string_view text);

/// Appends `text` as a JSON string with its quotes. `<`, `>` and `&` are written as \u escapes, so that no string can
/// end a script element, open a comment or close a CDATA section around it.
void append_script_json(std::string& out, std::string_view text);

/// Appends `text` as a field of a CSV line (RFC 4180), quoted where necessary.
void append_csv(std::string& out, std::string_view text);

}  // namespace heapprof::render
