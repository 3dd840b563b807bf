// Names come from symbol tables of anybody's programs: they may hold any bytes. Everything that is drawn
// or written passes through here first, so that no name can break a file or a terminal.
//
// The order is always: clean_utf8 once, when a name enters; then one of the escapes, when it leaves.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace heapprof::render {

/// Receives output piece by piece.
using TextSink = std::function<void(std::string_view)>;

/// `bytes` as valid UTF-8 without control characters. Each byte that starts no valid sequence, each control
/// character (C0, DEL, C1: line feeds and escape sequences among them) and each of U+FFFE and U+FFFF, which
/// XML forbids, becomes U+FFFD. The result is safe in a terminal, in XML once escaped, and in JSON.
std::string clean_utf8(std::string_view bytes);

/// Appends `text` (clean) for use between tags or inside a quoted attribute.
void append_xml(std::string& out, std::string_view text);
std::string xml(std::string_view text);

/// Appends `text` (clean) as a JSON string with its quotes. `<`, `>` and `&` are written as \u escapes, so
/// that no string can end a script element, open a comment or close a CDATA section around it.
void append_script_json(std::string& out, std::string_view text);

/// Appends `text` (clean) as a field of a CSV line (RFC 4180): quoted where it has to be.
void append_csv(std::string& out, std::string_view text);

/// Number of code points of clean text.
std::size_t length_utf8(std::string_view text) noexcept;

/// The first code points of clean text, with an ellipsis as the last of them when something was cut.
std::string clip_utf8(std::string_view text, std::size_t code_points);

/// A function's name without what makes C++ and Rust names long: template arguments become `<…>`, parameter
/// lists `()`. `operator<`, `operator()`, `(anonymous namespace)` and `{lambda(...)#1}` stay recognisable.
/// A name whose brackets do not balance is returned unchanged.
std::string short_name(std::string_view name);

/// A short name for a place of so many code points: outer scopes go first (`a::b::f()` becomes `f()`), for
/// the end of a name tells most; then the end is clipped.
std::string fit_name(std::string_view short_name, std::size_t code_points);

/// A path, perhaps with a line behind it, for a place of so many code points: outer folders go first
/// (`/usr/src/redis/listpack.c:855` becomes `…/listpack.c:855`); then the end is clipped.
std::string fit_path(std::string_view path, std::size_t code_points);

}  // namespace heapprof::render
