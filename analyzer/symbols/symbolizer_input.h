// What Symbolizer resolves, and where it looks for files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heapprof::symbols {

struct ModuleSymbols;

/// A module of the recorded process: an executable, a shared library, the vDSO, or code without a file.
struct Module {
  std::string path;             ///< as recorded; may end in " (deleted)", or be "[vdso]"
  std::string build_id_hex;     ///< lower case; empty: not recorded, so that the file can hardly be verified
  std::uint64_t map_bytes = 0;  ///< length of its mapping; 0: unknown
  bool generated = false;       ///< code that the program generated at run time; its addresses are absolute
  bool is_python = false;       ///< lines of Python: RecordedProcess::python_symbols has all of its addresses
};

struct CodeAddress {
  std::uint32_t module;   ///< index into the modules of the Symbolizer
  std::uint64_t address;  ///< of the call instruction, in the ELF file (link-time address)
};

struct Options {
  std::string sysroot;                  ///< root directory of the recorded system's files; empty: this system
  std::vector<std::string> debug_dirs;  ///< searched before <sysroot>/usr/lib/debug
  bool inlines = true;                  ///< false: omit inlined frames
  bool short_names = false;             ///< --short-names: shorten() long function names (shorten.h)
  bool symbols = true;                  ///< false: open no file, resolve nothing
  bool interpreter_frames = false;      ///< --interpreter-frames: the call tree keeps those between lines of Python
  bool debuginfod = false;              ///< request missing debug files from the servers in DEBUGINFOD_URLS
  std::string cache_directory;          ///< of SymbolCache; empty: no cache

  /// Whether the user named sources of symbols that the machine which bundled a trace may not have had.
  bool adds_sources() const { return !sysroot.empty() || !debug_dirs.empty() || debuginfod; }
};

/// What is known of the recorded process that helps to find its files and symbols.
struct RecordedProcess {
  std::uint64_t recorded_at_ns = 0;  ///< start of the recording, since 1970; 0: unknown
  std::uint64_t ended_at_ns = 0;     ///< when its program had ended at the latest, since 1970; 0: it may still run
  std::uint32_t pid = 0;             ///< in the process's own pid namespace; 0: unknown
  std::uint32_t live_pid = 0;        ///< in this pid namespace, while the process runs; else 0
  std::shared_ptr<const std::vector<ModuleSymbols>> embedded_symbols;  ///< of a bundled trace; null: none
  std::shared_ptr<const ModuleSymbols> python_symbols;                 ///< null: none
};

}  // namespace heapprof::symbols
