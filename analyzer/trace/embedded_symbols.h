// The symbols a trace carries with it: a run of extents of kind kSymbols at the end of the file, put there by
// `heapprof bundle` (docs/concepts/trace-format.md, "Symbols").
//
// The run is found from its end, so it may stand behind a recording or behind anything else that begins with a
// file id: readers of recordings skip its extents one by one, readers of other layouts end where it begins.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/trace/files/input_file.h"

namespace heapprof::trace {

struct SymbolSection {
  std::uint64_t offset = 0;  ///< of its first extent; what stands before it does not know of it
  std::uint64_t bytes = 0;   ///< up to the end of the file
};

/// Where the symbols stand, if the file ends with some that belong to `file_id`.
std::optional<SymbolSection> find_symbols(const InputFile& file, std::uint64_t file_id);

/// What they hold (packed names: analyzer/symbols/name_table.h). None: an extent of them is damaged.
std::optional<std::string> read_symbols(const InputFile& file, std::uint64_t file_id, const SymbolSection& where);

/// The run as bytes to be written at `offset`, a multiple of `unit_bytes`.
std::string symbol_extents(std::string_view symbols, std::uint64_t file_id, std::uint64_t offset,
                           std::uint32_t unit_bytes);

}  // namespace heapprof::trace
