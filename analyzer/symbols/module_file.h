// Finds the ELF file of a module, verifies that it is the recorded one, and opens it with libdwfl.
//
// The search, until a file matches:
//   1. the recorded path in the root of the running process, if that has another root (a container)
//   2. the recorded path, below the sysroot
//   3. what the running process has mapped, for files that were deleted or replaced
//   4. by build ID in the debug directories
//   5. by build ID from debuginfod, if allowed
// The vDSO is that of the current process.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/symbols/debug_files.h"
#include "analyzer/symbols/file_descriptor.h"
#include "analyzer/symbols/symbolizer_input.h"

namespace heapprof::symbols {

class ModuleFile {
 public:
  /// Opens the file of `module`. If there is none, is_open() is false and `warnings` has the reason. The references
  /// must outlive the object.
  ModuleFile(const Module& module, const Options& options, const RecordedProcess& process,
             std::vector<std::string>& warnings);
  ModuleFile(const ModuleFile&) = delete;
  ModuleFile& operator=(const ModuleFile&) = delete;

  bool is_open() const { return module_ != nullptr; }

  const std::string& build_id() const { return build_id_; }

  /// False: the file was stripped, and no separate debug file was found.
  bool has_all_symbols() const { return debug_files_.has_all_symbols(); }

  /// Where packages of split DWARF may be.
  std::vector<std::string> package_paths() const { return debug_files_.package_paths(); }

  /// The states of this program and of all files that symbols come from: equal fingerprints give equal symbols.
  /// Empty: unknown.
  std::string fingerprint() const;

  /// Addresses in this Dwfl_Module are those of the ELF file.
  Dwfl_Module* dwfl_module() const { return module_; }

  /// The debug information; null: there is none. Sets `bias`: address in the ELF file - address in the debug
  /// information, which is not 0 when one of the two files was prelinked.
  Dwarf* dwarf(Dwarf_Addr& bias);

  /// Whether `address` is in an executable segment. Debug information also describes functions that the linker
  /// removed, whose addresses are not.
  bool is_code(std::uint64_t address) const;

 private:
  struct DwflEnd {
    void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
  };
  struct Segment {
    std::uint64_t begin, end;
  };

  /// Opens `path` if it is the recorded file. If no build ID was recorded, the file is accepted unless its time or
  /// size contradicts, but always rejected if `build_id_required` is set. Sets `reason`, unless null, to why it was
  /// rejected.
  bool open_main(const std::string& path, bool build_id_required, std::string* reason);
  bool accept_main(FileDescriptor file, const std::string& path, bool build_id_required, std::string* reason);
  bool open_vdso();
  bool open_in_live_root();
  bool open_mapped();
  bool open_by_build_id();
  std::string build_id_mismatch(const std::string& build_id, bool build_id_required) const;
  std::string sign_of_change(const FileDescriptor& file, Elf* elf) const;
  bool open_dwfl(FileDescriptor file, const std::string& path);
  void warn(const std::string& text) { warnings_.push_back(recorded_.path + ": " + text); }

  /// Callback of libdwfl.
  static int find_debuginfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                            char**);

  const Options& options_;
  const RecordedProcess& process_;
  std::vector<std::string>& warnings_;
  const Module& recorded_;
  const std::string path_;  ///< the recorded path without " (deleted)"
  DebugFiles debug_files_;
  std::string build_id_;    ///< of the opened file, hex; empty: it has none
  std::string main_path_;   ///< of the opened file
  std::string main_state_;  ///< of the opened file (file_state); empty: it is not in a file
  std::vector<Segment> code_;
  Dwfl_Callbacks callbacks_{};
  char* debuginfo_path_ = nullptr;
  std::unique_ptr<Dwfl, DwflEnd> dwfl_;
  Dwfl_Module* module_ = nullptr;
};

}  // namespace heapprof::symbols
