// Finds the files with debug information of one ELF file:
//
//   separate debug file   by build ID in the debug directories, then by debug link, then from debuginfod
//   supplementary file    (dwz) by its recorded path, then by build ID
//   packages (.dwp)       of split DWARF, beside the files and in the debug directories
//
// libdwfl's own search is not used: it sends requests to debuginfod whenever DEBUGINFOD_URLS is set, and it does not
// support a sysroot.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/symbols/elf_file.h"
#include "analyzer/symbols/file_descriptor.h"
#include "analyzer/symbols/symbolizer_input.h"

namespace heapprof::symbols {

/// <root>/.build-id/ab/cdef...<suffix>; empty for a build ID that is too short.
std::string build_id_path(const std::string& root, const std::string& build_id, const char* suffix);

/// The directories of debug files, in the order of the search.
std::vector<std::string> debug_roots(const Options& options);

class DebugFiles {
 public:
  using Warn = std::function<void(const std::string&)>;

  /// `recorded_path`: of the module, without " (deleted)". `options` must outlive the object.
  DebugFiles(const Options& options, std::string recorded_path, Warn warn);

  /// Looks for the debug files of `elf`, which was opened from `path`. Replaces the result of an earlier call.
  void locate(Elf* elf, const std::string& path, const std::string& build_id);

  /// False: the file was stripped, and no separate debug file was found.
  bool has_all_symbols() const { return has_symbols_ || has_debug_information_ || debug_file_.is_open(); }

  /// A duplicate of the separate debug file's descriptor, and its path; -1: there is none.
  int duplicate_debug_file(std::string& path) const;

  /// Whether `link` is the name in .gnu_debugaltlink.
  bool is_alt_link(const char* link) const { return link != nullptr && alt_link_ && alt_link_->file_name == link; }

  /// Opens the supplementary file of dwz, to which `referring_file` refers. Adds a warning if it is not found.
  FileDescriptor open_alt_file(const std::string& referring_file, std::string& path) const;

  /// Where packages of split DWARF may be; the files need not exist.
  std::vector<std::string> package_paths() const;

  /// The states of all these files, for the key of the symbol cache.
  std::string fingerprint() const;

 private:
  FileDescriptor find_debug_file(const char* link, std::uint32_t link_crc);
  FileDescriptor open_debug_file(const std::string& path, std::optional<std::uint32_t> link_crc);
  std::vector<std::string> linked_paths(const std::string& link) const;

  const Options& options_;
  const std::string recorded_path_;
  const Warn warn_;
  std::string main_path_;
  std::string build_id_;                ///< hex; empty: the file has none
  bool has_symbols_ = false;            ///< the file itself has a .symtab
  bool has_debug_information_ = false;  ///< the file itself has a .debug_info
  FileDescriptor debug_file_;
  std::string debug_path_;
  std::string debug_state_;
  std::optional<AltLink> alt_link_;
};

}  // namespace heapprof::symbols
