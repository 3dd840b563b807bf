// Names kept between runs, a file for each state of a module's files: its build id, and a fingerprint of all
// that the names were read from. A debug file that was installed since, another version of this program, or a
// file without build id has no entry, so nothing that was cached can be wrong, only lost.
//
// Damaged entries are removed, the folder is kept below kMaxCacheBytes by dropping what was not used for the
// longest time, and everything fails silently: without a cache names only take longer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/symbols/module_symbols.h"

namespace heapprof::symbols {

inline constexpr std::uint64_t kMaxCacheBytes = 256u << 20;

class SymbolCache {
 public:
  /// `folder`: made when something is stored; empty: nothing is kept. A folder that is another user's, or that
  /// others may write to, is not used.
  explicit SymbolCache(std::string folder, std::uint64_t max_bytes = kMaxCacheBytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  /// What is known of the module in this state.
  std::optional<ModuleSymbols> load(const std::string& build_id_hex, const std::string& fingerprint) const;
  /// Replaces it.
  void store(const std::string& build_id_hex, const std::string& fingerprint, ModuleSymbols names) const;

  /// $XDG_CACHE_HOME/heapprof/symbols, else ~/.cache/heapprof/symbols; empty when HEAPPROF_SYMBOL_CACHE is 0,
  /// off or no, or there is no home.
  static std::string default_folder();

 private:
  std::string file_of(const std::string& build_id_hex, const std::string& fingerprint) const;
  bool folder_is_ours() const;
  void shrink() const;

  std::string folder_;
  std::uint64_t max_bytes_;
};

}  // namespace heapprof::symbols
