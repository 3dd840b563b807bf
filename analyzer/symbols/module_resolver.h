// Resolves addresses of one module from all sources: the symbols embedded in the trace, the symbol cache, the
// module's files, or a perf map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/symbols/file_resolver.h"
#include "analyzer/symbols/module_symbols.h"
#include "analyzer/symbols/source_frame.h"
#include "analyzer/symbols/symbolizer_input.h"

namespace heapprof::symbols {

/// Finds the embedded symbols of a module.
class EmbeddedModules {
 public:
  /// `embedded` must outlive the object; null: there are none.
  explicit EmbeddedModules(const std::vector<ModuleSymbols>* embedded);
  const ModuleSymbols* find(const Module& module) const;

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::uint64_t>;  // path, build ID, length of the mapping
  std::map<Key, const ModuleSymbols*> by_module_;
};

/// Use: begin(); if it returns true, one of resolve_missing() and resolve_missing_in_parallel(); then the results. An
/// exception in between (out of memory) leaves the object valid after abandon().
class ModuleResolver {
 public:
  /// `embedded`: the embedded symbols of the module, or null. `addresses`: sorted and distinct. The references and
  /// `embedded` must outlive the object.
  ModuleResolver(std::uint32_t module_index, const Module& module, const Options& options,
                 const RecordedProcess& process, const ModuleSymbols* embedded, std::vector<std::uint64_t> addresses)
      : module_index_(module_index), module_(module), options_(options), process_(process), embedded_(embedded),
        addresses_(std::move(addresses)) {}

  /// Takes what the embedded symbols, the cache and the perf map have, and opens the files. True: missing_count()
  /// addresses are to be resolved from the files.
  bool begin();

  std::size_t missing_count() const { return missing_.size(); }

  /// Resolves the missing addresses from the files and updates the cache.
  void resolve_missing();
  /// The same in several threads, each of which opens the files.
  void resolve_missing_in_parallel();

  /// Gives up on the missing addresses and adds a warning.
  void abandon(const std::string& reason);

  /// Sets frames of addresses that are still unresolved, and removes inlined frames when the options say so.
  void finish();

  std::uint32_t module_index() const { return module_index_; }
  const std::vector<std::uint64_t>& addresses() const { return addresses_; }
  /// After finish(), the frames of `address`, which is one of addresses().
  const std::vector<SourceFrame>& frames_of(std::uint64_t address) const;
  /// After finish(). The reason why some addresses are unresolved is one of them.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// After finish(); moves the results.
  ModuleSymbols take_symbols();

 private:
  void add_known(const ModuleSymbols& symbols, bool also_replace_unnamed);
  void add_perf_map();
  void store_results();
  ModuleSymbols cache_entry() const;
  void warn(const std::vector<std::string>& texts) { warnings_.insert(warnings_.end(), texts.begin(), texts.end()); }

  const std::uint32_t module_index_;
  const Module& module_;
  const Options& options_;
  const RecordedProcess& process_;
  const ModuleSymbols* const embedded_;
  std::vector<std::uint64_t> addresses_;
  std::vector<std::vector<SourceFrame>> frames_;  ///< of each address; empty: unresolved so far
  std::vector<std::string> warnings_;
  std::string why_unnamed_;  ///< the reason for unresolved addresses, as a warning; or empty

  // While the files are read.
  std::vector<std::uint64_t> missing_;                    ///< the addresses to be resolved from files
  std::vector<std::vector<SourceFrame>> missing_frames_;  ///< of missing_
  std::unique_ptr<FileResolver> files_;
  std::optional<ModuleSymbols> cached_;
  std::string fingerprint_;  ///< key of the cache; empty: do not store the results
};

}  // namespace heapprof::symbols
