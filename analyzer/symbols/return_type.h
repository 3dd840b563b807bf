// The function's own name in a demangled name.
#pragma once

#include <string_view>

namespace heapprof::symbols {

/// `demangled` without its return type: "void (*pick<int>(int))(char)" is "pick<int>(int)".
///
/// Only C++ function templates are printed with one (Itanium C++ ABI, 5.1.5.3). What comes back is a part of
/// `demangled` that begins with the outermost scope and ends with the parameters, and with the qualifiers after them
/// unless the type encloses the name. All other names come back whole: Rust's, C's, functions that are no templates,
/// special names ("vtable for Cache"), and names whose brackets do not match.
std::string_view without_return_type(std::string_view demangled);

}  // namespace heapprof::symbols
