// Demangled names without their return types.
#pragma once

#include <string_view>

namespace heapprof::symbols {

/// `demangled` without its return type: "void (*pick<int>(int))(char)" becomes "pick<int>(int)".
///
/// Demanglers print a return type for instances of C++ function templates only (Itanium C++ ABI, 5.1.5.3). The result
/// is the part of `demangled` from the outermost scope to the parameters, with the qualifiers after them unless the
/// return type encloses the name. Any other name is returned unchanged: names of Rust and C, functions that are not
/// templates, special names ("vtable for Cache"), and names whose brackets do not match.
std::string_view without_return_type(std::string_view demangled);

}  // namespace heapprof::symbols
