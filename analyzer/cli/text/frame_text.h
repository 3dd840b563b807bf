// A stack frame in one line of text.
#pragma once

#include <string>

#include "analyzer/cli/text/stack_names.h"

namespace heapprof::cli {

/// A function's name without its return type, template arguments and parameters: "std::map<…>::operator[]()". Clean
/// UTF-8.
std::string short_function(const std::string& function);

/// short_function() without "()" at its end and without Rust's traits, for tables: "SessionStore::open_session",
/// "std::vector<…>::push_back", "Table<…>::clone" of "<Table<T> as Clone>::clone".
std::string function_name(const std::string& function);

/// A frame that is no code, but a text in the place of one.
Frame text_frame(const std::string& text);

/// The name of a frame in tables: function_name(), or with `full_names` all of the name; of an unresolved address
/// "libx.so+0x12". Clean UTF-8.
std::string name_in_table(const Frame& frame, bool full_names);

/// The name of a frame in flame graphs, not clean: all of it, with the file of a line of Python ("<module> app.py").
std::string name_in_flame_graph(const Frame& frame);

/// A text for --function that finds `function`: its name up to the first template argument or parameter.
std::string searched_name(const std::string& function);

/// "parse() at parse.cpp:12", "parse() in libx.so", or "libx.so+0x12" of an unresolved address. Clean UTF-8.
std::string one_line(const Frame& frame, bool full_names = false);

/// one_line() of a call site. A frame without a module has what takes its place as its function's name, by default
/// "(no stack recorded)".
std::string site_name(const Frame& frame, bool full_names = false);

/// Source file and line ("parse.cpp:12"), else "in libx.so"; of an unresolved address its distance into the function
/// ("+0x2a"), if that function's begin is known. Empty: nothing is known. Clean UTF-8.
std::string location_of(const Frame& frame);

/// Why a stack is truncated, in words. `reason` is model::CallNode::truncated.
const char* words_for_truncation(const char* reason);

/// The frame that flame graphs and exports show instead of the missing frames: "[truncated stack: max_depth]".
/// `reason` may be null: unknown.
std::string truncation_frame(const char* reason);

}  // namespace heapprof::cli
