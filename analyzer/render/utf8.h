// UTF-8 text: cleaning, measuring, clipping and padding.
//
// Names come from the symbol tables and command lines of recorded programs and may contain any bytes. clean_utf8() is
// called once, before such text is used, so that no name can break a file or a terminal. When the text is written to
// XML, JSON or CSV, a function of escape.h is applied. The other functions expect clean text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heapprof::render {

inline constexpr std::string_view kEllipsis = "\xe2\x80\xa6";

/// `bytes` as valid UTF-8 without control characters. U+FFFD replaces each byte that starts no valid sequence, each
/// control character (C0, DEL and C1, which includes line feeds and escape sequences), U+FFFE and U+FFFF, which XML
/// forbids. The result is safe in a terminal, in JSON, and, escaped, in XML.
std::string clean_utf8(std::string_view bytes);

/// Number of code points.
std::size_t length_utf8(std::string_view text) noexcept;

/// `text`, if it has at most `code_points`; else its first ones and an ellipsis, together `code_points`.
std::string clip_utf8(std::string_view text, std::size_t code_points);

/// `text` with blanks before it, or after it, up to `code_points`. Longer text is unchanged.
std::string pad_left(std::string_view text, std::size_t code_points);
std::string pad_right(std::string_view text, std::size_t code_points);

}  // namespace heapprof::render
