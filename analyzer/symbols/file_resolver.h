// Resolves addresses of one module from its files: debug information first, then the symbol table.
#pragma once

#include <elfutils/libdw.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/symbols/dwarf_frames.h"
#include "analyzer/symbols/elf_symbol_table.h"
#include "analyzer/symbols/module_file.h"
#include "analyzer/symbols/source_frame.h"
#include "analyzer/symbols/symbolizer_input.h"

namespace heapprof::symbols {

/// Not thread safe, since elfutils is not: each thread needs an object of its own.
class FileResolver {
 public:
  /// Opens the module's files. All arguments must outlive the object.
  FileResolver(const Module& module, const Options& options, const RecordedProcess& process);

  bool is_open() const { return file_.is_open(); }

  /// Sets frames[first..last) for addresses[first..last), which are sorted and distinct.
  void resolve(const std::vector<std::uint64_t>& addresses, std::vector<std::vector<SourceFrame>>& frames,
               std::size_t first, std::size_t last);

  /// Key of the symbol cache (ModuleFile::fingerprint); empty: the frames must not be cached.
  std::string fingerprint() { return file_.fingerprint(); }
  const std::string& build_id() const { return file_.build_id(); }

  /// False: a split DWARF file was missing, which the fingerprint does not cover.
  bool is_cacheable() const { return !debug_frames_ || debug_frames_->is_complete(); }

  /// False: the file was stripped and no debug file was found, so that local functions have no names.
  bool has_all_symbols() const { return file_.has_all_symbols(); }

  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Only the warnings of resolve(), not those of opening the files.
  std::vector<std::string> resolve_warnings() const;

 private:
  void open_symbols();
  void name_by_symbol(std::uint64_t address, SourceFrame& outermost, bool is_plain_name) const;

  const Module& module_;
  std::vector<std::string> warnings_;  ///< before file_, which adds to it
  ModuleFile file_;
  std::size_t open_warnings_;  ///< how many warnings_ are from opening the files
  bool symbols_opened_ = false;
  Dwarf_Addr bias_ = 0;  ///< address in the ELF file - address in the debug information
  std::optional<DwarfFrames> debug_frames_;
  std::optional<ElfSymbolTable> symbol_table_;
};

}  // namespace heapprof::symbols
