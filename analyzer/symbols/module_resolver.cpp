#include "analyzer/symbols/module_resolver.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <stdexcept>
#include <utility>

#include "analyzer/symbols/parallel.h"
#include "analyzer/symbols/perf_map.h"
#include "analyzer/symbols/symbol_cache.h"
#include "analyzer/symbols/tail_call_name.h"
#include "analyzer/symbols/untrusted_text.h"

namespace heapprof::symbols {

namespace {

/// Addresses that one thread resolves at a time.
constexpr std::size_t kPartAddresses = 2048;

/// Whether a debug file could add a function name.
bool is_unnamed(const std::vector<SourceFrame>& frames) {
  const std::string& function = frames.back().function;
  return function.empty() || function.starts_with(kTailCallPrefix);
}

/// The path of a module in ModuleSymbols. Empty: its definition was lost.
std::string path_in_symbols(const Module& module) { return module.generated ? "[generated]" : module.path; }

}  // namespace

EmbeddedModules::EmbeddedModules(const std::vector<ModuleSymbols>* embedded) {
  if (embedded == nullptr) return;
  for (const ModuleSymbols& symbols : *embedded)
    by_module_.try_emplace({symbols.path, symbols.build_id_hex, symbols.map_bytes}, &symbols);
}

const ModuleSymbols* EmbeddedModules::find(const Module& module) const {
  const std::string path = path_in_symbols(module);
  if (path.empty()) return nullptr;
  const auto found = by_module_.find({path, module.build_id_hex, module.map_bytes});
  return found == by_module_.end() ? nullptr : found->second;
}

void ModuleResolver::add_known(const ModuleSymbols& symbols, bool also_replace_unnamed) {
  for (std::size_t i = 0; i < addresses_.size(); ++i)
    if (const auto* known = symbols.find(addresses_[i]); known != nullptr)
      if (frames_[i].empty() || (also_replace_unnamed && is_unnamed(frames_[i]))) frames_[i] = *known;
}

bool ModuleResolver::begin() {
  frames_.resize(addresses_.size());
  if (module_.is_python) {
    if (process_.python_symbols != nullptr) add_known(*process_.python_symbols, false);
    return false;
  }
  if (embedded_ != nullptr) {
    add_known(*embedded_, false);
    const bool all = std::none_of(frames_.begin(), frames_.end(), [](const auto& frames) { return frames.empty(); });
    if (all && !options_.adds_sources()) {
      warn(embedded_->warnings);
      why_unnamed_ = embedded_->why_unnamed;
      return false;
    }
  }
  for (std::size_t i = 0; i < addresses_.size(); ++i)
    if (frames_[i].empty() || is_unnamed(frames_[i])) missing_.push_back(addresses_[i]);
  if (missing_.empty()) return false;
  if (module_.generated) {
    add_perf_map();
    return false;
  }
  files_ = std::make_unique<FileResolver>(module_, options_, process_);
  if (!files_->is_open()) {
    warn(files_->warnings());
    files_.reset();
    missing_.clear();
    return false;
  }
  if (!options_.cache_directory.empty()) {
    fingerprint_ = files_->fingerprint();
    cached_ = SymbolCache(options_.cache_directory).load(files_->build_id(), fingerprint_);
    if (cached_) {
      std::erase_if(missing_, [&](std::uint64_t address) { return cached_->find(address) != nullptr; });
      add_known(*cached_, true);
      warn(cached_->warnings);
    }
  }
  missing_frames_.resize(missing_.size());
  if (!missing_.empty()) return true;
  store_results();
  return false;
}

void ModuleResolver::add_perf_map() {
  PerfMap map;
  std::string reason;
  if (!find_perf_map(options_, process_, map, reason)) {
    why_unnamed_ = "functions that a just-in-time compiler generated are not named: " + reason;
    return;
  }
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    if (!frames_[i].empty() && !is_unnamed(frames_[i])) continue;  // by embedded symbols
    SourceFrame frame = map.find(addresses_[i]);
    replace_control_characters(frame.function);
    replace_control_characters(frame.file);
    if (!frame.function.empty()) frames_[i] = {std::move(frame)};
  }
}

void ModuleResolver::resolve_missing() {
  files_->resolve(missing_, missing_frames_, 0, missing_.size());
  store_results();
}

/// The threads take parts of the sorted addresses in turn, so that most compilation units belong to one part and
/// their debug information is read once.
void ModuleResolver::resolve_missing_in_parallel() {
  const std::size_t parts = (missing_.size() + kPartAddresses - 1) / kPartAddresses;
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> is_first_thread = true;
  std::atomic<bool> complete = true;
  run_on_all_cores(parts, [&] {
    std::unique_ptr<FileResolver> own_files;
    FileResolver* files = is_first_thread.exchange(false) ? files_.get() : nullptr;
    try {
      for (std::size_t part; (part = next.fetch_add(1)) < parts;) {
        if (files == nullptr) {
          own_files = std::make_unique<FileResolver>(module_, options_, process_);
          if (!own_files->is_open()) throw std::runtime_error("cannot be opened again");
          files = own_files.get();
        }
        files->resolve(missing_, missing_frames_, part * kPartAddresses,
                       std::min((part + 1) * kPartAddresses, missing_.size()));
      }
    } catch (const std::exception&) {  // out of memory: the addresses of this part stay unresolved
      complete = false;
    }
    if (files != nullptr && !files->is_cacheable()) complete = false;
  });
  if (!complete) {
    fingerprint_.clear();
    const auto is_empty = [](const auto& frames) { return frames.empty(); };
    if (std::any_of(missing_frames_.begin(), missing_frames_.end(), is_empty))
      warnings_.push_back(module_.path + ": out of memory; some of its functions are not named");
  }
  store_results();
}

void ModuleResolver::abandon(const std::string& reason) {
  warnings_.push_back(module_.path + ": " + reason + "; its functions are not named");
  files_.reset();
  missing_.clear();
}

/// Merges what the files gave into the cache and into frames_.
void ModuleResolver::store_results() {
  warn(files_->warnings());
  if (!missing_.empty() && !fingerprint_.empty() && files_->is_cacheable())
    SymbolCache(options_.cache_directory).store(files_->build_id(), fingerprint_, cache_entry());
  for (std::size_t i = 0, m = 0; i < addresses_.size() && m < missing_.size(); ++i)
    if (addresses_[i] == missing_[m]) frames_[i] = std::move(missing_frames_[m++]);
  if (!files_->has_all_symbols())
    why_unnamed_ = module_.path +
                   ": stripped, and no debug file was found; install debug symbols (Debian: -dbgsym "
                   "packages), or use --debug-dir or --debuginfod";
  files_.reset();
}

/// What the files gave, now and earlier. Not frames_, which has the embedded symbols of one trace, that anybody may
/// have written: the cache is for all traces.
ModuleSymbols ModuleResolver::cache_entry() const {
  std::map<std::uint64_t, const std::vector<SourceFrame>*> all;
  if (cached_)
    for (std::size_t i = 0; i < cached_->addresses.size(); ++i) all[cached_->addresses[i]] = &cached_->frames[i];
  for (std::size_t i = 0; i < missing_.size(); ++i) all[missing_[i]] = &missing_frames_[i];
  ModuleSymbols symbols;
  symbols.warnings = files_->resolve_warnings();
  if (cached_) symbols.warnings.insert(symbols.warnings.end(), cached_->warnings.begin(), cached_->warnings.end());
  for (const auto& [address, frames] : all) {
    symbols.addresses.push_back(address);
    symbols.frames.push_back(*frames);
  }
  return symbols;
}

void ModuleResolver::finish() {
  frames_.resize(addresses_.size());
  bool any_unnamed = false;
  for (std::vector<SourceFrame>& frames : frames_) {
    if (frames.empty()) frames.emplace_back();
    if (!options_.inlines) frames.erase(frames.begin(), frames.end() - 1);
    any_unnamed |= is_unnamed(frames);
  }
  if (any_unnamed && !why_unnamed_.empty()) warnings_.push_back(why_unnamed_);
}

const std::vector<SourceFrame>& ModuleResolver::frames_of(std::uint64_t address) const {
  const auto at = std::lower_bound(addresses_.begin(), addresses_.end(), address);
  return frames_[static_cast<std::size_t>(at - addresses_.begin())];
}

ModuleSymbols ModuleResolver::take_symbols() {
  ModuleSymbols symbols;
  symbols.path = path_in_symbols(module_);
  symbols.build_id_hex = module_.build_id_hex;
  symbols.map_bytes = module_.map_bytes;
  std::erase(warnings_, why_unnamed_);  // stored separately: it is printed only with an unresolved address
  symbols.warnings = std::move(warnings_);
  symbols.why_unnamed = std::move(why_unnamed_);
  symbols.addresses = std::move(addresses_);
  symbols.frames = std::move(frames_);
  return symbols;
}

}  // namespace heapprof::symbols
