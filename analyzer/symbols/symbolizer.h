// From addresses in ELF files to functions and source lines, through elfutils.
//
// All addresses of a trace are resolved in one go after the replay: Symbolizer sorts them by module and
// by address, opens each module once, and works on several modules at a time.
//
// A file is believed only when its build id is the recorded one; a file that was replaced since the
// recording gives a warning and no names. Debug information is taken from the file itself, from a separate
// debug file (by build id or debug link) and from .gnu_debugdata. The network is never used unless
// Options::debuginfod says so.
//
// What comes from files: everything that the trace's own names (Origin::bundle) and the cache (symbol_cache.h) do
// not know. A module with many addresses is shared out among the cores.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heapprof::symbols {

/// One function in one source position. An address has several when functions were inlined there.
struct SourceFrame {
  std::string function;  ///< demangled; empty: unknown
  std::string file;      ///< as the compiler recorded it, made absolute with its folder; empty: unknown
  int line = 0;          ///< from 1; 0: unknown
  bool inlined = false;  ///< the function has no frame of its own here: it was inlined into the next one
  /// Of a function without a name (and without a file): its first address in the ELF file, by the unwind information,
  /// so that what is called from several places in it can be told to be one. 0: unknown.
  std::uint64_t function_begin = 0;
};

struct Module {
  std::string path;          ///< as the recorder saw it; may end in " (deleted)", or be "[vdso]"
  std::string build_id_hex;  ///< lower case; empty: none was recorded, and the file can hardly be checked
  std::uint64_t map_bytes = 0;  ///< length of its mapping; 0: unknown
  bool generated = false;    ///< stands for code that the program made itself; its addresses are absolute
};

struct CodeAddress {
  std::uint32_t module;   ///< index into the modules given to Symbolizer
  std::uint64_t address;  ///< address in the ELF file (link-time vaddr) of the call instruction
};

struct Options {
  std::string sysroot;                  ///< where another machine's files lie; empty: this machine's
  std::vector<std::string> debug_dirs;  ///< searched before <sysroot>/usr/lib/debug
  bool inlines = true;                  ///< false: only the real function, at its own line
  bool short_names = false;             ///< long names with their template arguments and parameters left out
  bool symbols = true;                  ///< false: no file is opened, every address is unresolved
  bool debuginfod = false;              ///< ask the servers in DEBUGINFOD_URLS for missing debug files
  std::string cache_folder;             ///< where names are kept between runs (symbol_cache.h); empty: nowhere

  /// True when the user pointed at files that the machine which bundled a trace may not have had.
  bool points_at_files() const { return !sysroot.empty() || !debug_dirs.empty() || debuginfod; }
};

struct ModuleSymbols;

/// The recorded process, as far as finding its files takes it.
struct Origin {
  std::uint64_t recorded_at_ns = 0;  ///< start of the recording, since 1970; 0: unknown
  std::uint32_t pid = 0;             ///< as the process itself knew it; 0: unknown
  std::uint32_t live_pid = 0;        ///< as /proc here knows it, when it still runs here; else 0
  std::shared_ptr<const std::vector<ModuleSymbols>> bundle;  ///< names that the trace carries; null: none
};

class Symbolizer {
 public:
  Symbolizer(std::vector<Module> modules, Options options, Origin origin = {});

  /// The frames of each address, in the order of `addresses`; equal addresses are resolved once.
  ///
  /// Innermost first: inlined functions, then the real one. A frame's file and line are where that frame
  /// is executing. Never empty: what cannot be resolved gives one frame with an empty function, and
  /// warnings() may say why. An address beyond the modules given is unresolved too.
  ///
  /// A function's name is its DWARF linkage name, demangled; else the ELF symbol that covers the address.
  /// Of several symbols at one address that is a global rather than a local one, then the one with fewer
  /// underscores in front, then the shorter: `malloc`, not `__libc_malloc`. A C function whose symbol has
  /// fewer underscores than its name in the source goes by the symbol. C++ functions without linkage name
  /// (compilers give none to inlined functions of anonymous namespaces) are named without parameters,
  /// after the scopes around them: `space::(anonymous namespace)::helper`.
  ///
  /// Files are opened anew by each call, so give all addresses at once.
  std::vector<std::vector<SourceFrame>> resolve(const std::vector<CodeAddress>& addresses);

  /// The same by module, each address once, to be stored: module_symbols.h.
  std::vector<ModuleSymbols> resolve_by_module(const std::vector<CodeAddress>& addresses);

  /// What the calls so far met, a sentence each, ordered by module; what is so with several files is said once.
  std::vector<std::string> warnings() const;

 private:
  struct Task;
  std::vector<Task> look_up_tasks(const std::vector<CodeAddress>& addresses);
  void share_out(Task& task);

  std::vector<Module> modules_;
  Options options_;
  Origin origin_;
  std::vector<std::vector<std::string>> warnings_;  ///< by module
};

}  // namespace heapprof::symbols
