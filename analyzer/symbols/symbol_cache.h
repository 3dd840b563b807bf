// Resolved symbols on disk, kept between runs. An entry belongs to a module's build ID and to a fingerprint of this
// program and of all files that its symbols came from: when one of them changes, or a debug file is installed, there
// is no entry for the new state. A cached symbol is never outdated.
//
// Damaged entries are removed, and so are the least recently used ones when the cache exceeds its limit. All errors
// are ignored: without the cache, symbols only take longer to resolve.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/symbols/module_symbols.h"

namespace heapprof::symbols {

inline constexpr std::uint64_t kMaxCacheBytes = 256u << 20;

class SymbolCache {
 public:
  /// `directory` is created by store(); empty: nothing is cached. A directory that another user owns, or may write
  /// to, is not used.
  explicit SymbolCache(std::string directory, std::uint64_t max_bytes = kMaxCacheBytes)
      : directory_(std::move(directory)), max_bytes_(max_bytes) {}

  /// The cached symbols of the module in this state.
  std::optional<ModuleSymbols> load(const std::string& build_id_hex, const std::string& fingerprint) const;
  /// Replaces them. A module without a build ID is not cached.
  void store(const std::string& build_id_hex, const std::string& fingerprint, ModuleSymbols symbols) const;

  /// $XDG_CACHE_HOME/heapprof/symbols, else ~/.cache/heapprof/symbols; empty if HEAPPROF_SYMBOL_CACHE is 0, off or
  /// no, or if there is no home directory.
  static std::string default_directory();

 private:
  std::string path_of(const std::string& build_id_hex, const std::string& fingerprint) const;
  bool directory_is_private() const;
  void remove_least_recently_used() const;

  std::string directory_;
  std::uint64_t max_bytes_;
};

}  // namespace heapprof::symbols
