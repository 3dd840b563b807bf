// The files that hold a module's symbols: finding them, making sure they are the right ones, and handing
// them to libdwfl.
//
// The order of the search: while the process runs in another root (a container), the recorded path in that; the
// recorded path (below the sysroot); what the running process has mapped, for files deleted or replaced since;
// then by build id in the debug folders, then debuginfod when allowed. The vdso is this process's own one.
// Separate debug files: by build id, then by debug link, then debuginfod.
// The supplementary file of dwz: by its recorded path, then by build id.
//
// libdwfl's own search is not used: it would ask debuginfod whenever DEBUGINFOD_URLS is set, and does not
// know a sysroot.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/symbols/file_descriptor.h"
#include "analyzer/symbols/symbolizer.h"

namespace heapprof::symbols {

class ModuleFile {
 public:
  /// Opens the file of `module` if there is one that may be believed; otherwise is_open() is false and
  /// `warnings` got the reason. `options` and `warnings` must outlive the object.
  ModuleFile(const Module& module, const Options& options, const Origin& origin,
             std::vector<std::string>& warnings);
  ModuleFile(const ModuleFile&) = delete;
  ModuleFile& operator=(const ModuleFile&) = delete;

  bool is_open() const { return module_ != nullptr; }

  const std::string& build_id() const { return build_id_; }

  /// False: it was stripped, and no debug file was found.
  bool has_all_symbols() const { return has_symbols_ || has_debug_information_ || debug_file_.is_open(); }

  /// Where packages of split debug information may lie.
  std::vector<std::string> packages() const;

  /// Says which state of which files the answers come from: equal texts, equal answers. Empty: it can't be said.
  std::string fingerprint();

  /// Addresses in this Dwfl_Module are those of the ELF file.
  Dwfl_Module* dwfl_module() const { return module_; }

  /// Debug information, or null when there is none; `bias` is to be subtracted from addresses of the ELF
  /// file to get those of the debug information (not 0 when one of them was prelinked).
  Dwarf* dwarf(Dwarf_Addr& bias);

  /// True when code may lie at `address`: inside an executable segment. Debug information of functions
  /// that the linker dropped names addresses outside of them.
  bool is_code(std::uint64_t address) const;

 private:
  struct DwflEnd {
    void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
  };
  struct Segment {
    std::uint64_t begin, end;
  };
  /// Reference to the supplementary file of dwz (.gnu_debugaltlink).
  struct AltLink {
    std::string name;
    std::string build_id;  ///< hex
  };

  enum class Acceptance { kAccepted, kMissing, kRefused };
  /// Opens `path` as this module's own file if its build id is the recorded one. `must_match`: an unknown
  /// build id does not do.
  Acceptance open_main(const std::string& path, bool must_match, std::string* reason);
  Acceptance accept_main(FileDescriptor fd, const std::string& path, bool must_match, std::string* reason);
  bool open_vdso();
  bool open_in_live_root();
  bool open_mapped();
  /// Why a file that has no build id to go by is not the recorded one; empty: nothing speaks against it.
  std::string sign_of_change(const FileDescriptor& fd, Elf* elf) const;
  void locate_debug_file(Elf* elf);
  bool open_by_build_id();
  bool report(FileDescriptor fd, const std::string& path);
  std::vector<std::string> debug_roots() const;
  void warn(const std::string& text) { warnings_.push_back(name_ + ": " + text); }

  /// A descriptor of the separate debug file, or -1; `path` gets its name.
  int find_debug_file(const char* link, std::uint32_t link_crc, std::string& path);
  int debug_file(std::string& path) const;  ///< the one that was found, once more
  int find_alt_file(const std::string& referring_file, std::string& path);
  static int find_debuginfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                            char**);

  const Options& options_;
  const Origin& origin_;
  std::vector<std::string>& warnings_;
  const Module& recorded_;
  std::string name_;       ///< for warnings: the recorded path
  std::string original_;   ///< the recorded path without " (deleted)"
  std::string build_id_;   ///< of the opened file, hex; empty: it has none
  std::string main_path_;  ///< of the opened file
  std::string main_state_; ///< what of it would change if it were another one; empty: not a file
  bool has_symbols_ = false;            ///< a table of all of them, in the file itself
  bool has_debug_information_ = false;  ///< likewise
  FileDescriptor debug_file_;
  std::string debug_path_;
  std::string debug_state_;
  std::optional<AltLink> alt_link_;
  std::vector<Segment> code_;
  Dwfl_Callbacks callbacks_{};
  char* debuginfo_path_ = nullptr;
  std::unique_ptr<Dwfl, DwflEnd> dwfl_;
  Dwfl_Module* module_ = nullptr;
};

}  // namespace heapprof::symbols
