// Names of functions that have no symbol, by the functions that end in a jump to them (elf_symbol_table.h).
#pragma once

#include <string_view>

namespace heapprof::symbols {

/// "[tail of putenv, setenv]": both putenv and setenv end in a jump to this function.
inline constexpr std::string_view kTailCallPrefix = "[tail of ";

}  // namespace heapprof::symbols
