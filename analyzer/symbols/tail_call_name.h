// Names of functions without a symbol that others end in a jump to (elf_symbol_table.h).
#pragma once

#include <string_view>

namespace heapprof::symbols {

/// "[tail of putenv, setenv]" is a function that putenv and setenv end in a jump to.
inline constexpr std::string_view kTailCallPrefix = "[tail of ";

}  // namespace heapprof::symbols
