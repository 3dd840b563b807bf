// Names of functions that have no symbol themselves (elf_symbol_table.h).
#pragma once

#include <string_view>

namespace heapprof::symbols {

/// What they begin with: "[tail of putenv, setenv]" is what those jump to where they end.
inline constexpr std::string_view kTailCallPrefix = "[tail of ";

}  // namespace heapprof::symbols
