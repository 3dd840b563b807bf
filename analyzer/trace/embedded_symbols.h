// The function names that a bundled trace contains, and perhaps the source files: consecutive extents of kind
// kSymbols at the end of the file, written by `heapprof bundle` (docs/concepts/trace-format.md, "Symbols").
//
// They are found from the end of the file, so they can follow a trace of any layout that begins with a file id.
// Readers of recordings skip these extents; readers of other layouts end where the first of them begins.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/trace/files/input_file.h"

namespace heapprof::trace {

struct EmbeddedSymbols {
  std::uint64_t offset = 0;  ///< of the first extent
  std::uint64_t bytes = 0;   ///< from there to the end of the file
};

/// Locates the symbols of the trace `file_id` in the file; nullopt: it has none.
std::optional<EmbeddedSymbols> find_symbols(const InputFile& file, std::uint64_t file_id);

/// The packed table of names (analyzer/symbols/module_symbols.h); nullopt: an extent is damaged.
std::optional<std::string> read_symbols(const InputFile& file, std::uint64_t file_id, const EmbeddedSymbols& where);

/// The packed source files (analyzer/symbols/source_files.h) that follow the table of names; empty: there are none;
/// nullopt: an extent is damaged.
std::optional<std::string> read_sources(const InputFile& file, std::uint64_t file_id, const EmbeddedSymbols& where);

/// Extents that contain `symbols` and, unless empty, `sources`, to be written at file offset `offset`, a multiple of
/// `unit_bytes`.
std::string symbol_extents(std::string_view symbols, std::string_view sources, std::uint64_t file_id,
                           std::uint64_t offset, std::uint32_t unit_bytes);

}  // namespace heapprof::trace
