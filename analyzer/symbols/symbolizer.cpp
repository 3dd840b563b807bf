#include "analyzer/symbols/symbolizer.h"

#include <libelf.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "analyzer/symbols/demangle.h"
#include "analyzer/symbols/dwarf_frames.h"
#include "analyzer/symbols/elf_symbol_table.h"
#include "analyzer/symbols/module_file.h"
#include "analyzer/symbols/symbol_cache.h"
#include "analyzer/symbols/module_symbols.h"
#include "analyzer/symbols/perf_map.h"
#include "analyzer/symbols/tail_call_name.h"

namespace heapprof::symbols {

namespace {

/// Fewer addresses of one module than twice this are not worth a second reader of its files.
constexpr std::size_t kShare = 2048;

/// Names come from files anybody may have written and go to terminals: no control characters, but U+FFFD for each, as
/// everywhere (analyzer/render/text.h).
void clean(std::string& text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::none_of(text.begin(), text.end(), is_control)) return;
  std::string out;
  for (const char c : text) {
    if (is_control(c)) out += "\xef\xbf\xbd";
    else out += c;
  }
  text = std::move(out);
}

/// Whether the demangled ELF symbol `symbol` may be the function that the source calls `name`, and not
/// another one with the same code (linkers fold such).
bool same_function(const std::string& symbol, const std::string& name) {
  std::string_view base(name);
  if (const std::size_t at = base.find("operator"); at != std::string_view::npos) {
    base = "operator";
  } else {
    base = base.substr(0, base.find('<'));
    if (const std::size_t colons = base.rfind("::"); colons != std::string_view::npos) base = base.substr(colons + 2);
  }
  return symbol.find(base) != std::string::npos;
}

/// Whether `symbol` is the name users know of a C function that its library calls `name`: libc's malloc is
/// `__libc_malloc` in its source. Symbols with a dot are parts of functions that the compiler split off.
bool public_name_of(const std::string& symbol, const std::string& name) {
  const auto underscores = [](const std::string& text) { return std::min(text.find_first_not_of('_'), text.size()); };
  return !symbol.empty() && symbol.find('.') == std::string::npos && underscores(symbol) < underscores(name);
}

/// The files of one module, opened, and what answers questions about them. For one thread at a time, which
/// elfutils requires.
class ModuleReader {
 public:
  ModuleReader(const Module& module, const Options& options, const Origin& origin)
      : module_(module), file_(module, options, origin, warnings_), opening_warnings_(warnings_.size()) {}

  bool is_open() const { return file_.is_open(); }
  /// Of the files that answers come from; empty: what they answer cannot be kept.
  std::string fingerprint() { return file_.fingerprint(); }
  const std::string& build_id() const { return file_.build_id(); }

  /// Fills frames[first..last) of addresses[first..last), which are sorted and distinct.
  void resolve(const std::vector<std::uint64_t>& addresses, std::vector<std::vector<SourceFrame>>& frames,
               std::size_t first, std::size_t last) {
    if (!prepared_) prepare();
    const std::vector<std::uint64_t> asked(addresses.begin() + static_cast<std::ptrdiff_t>(first),
                                           addresses.begin() + static_cast<std::ptrdiff_t>(last));
    std::vector<std::vector<SourceFrame>> found(asked.size());
    std::vector<bool> plain_name(asked.size(), true);
    if (functions_) {
      std::vector<std::uint64_t> in_dwarf = asked;
      for (std::uint64_t& address : in_dwarf) address -= bias_;
      // A bias that wraps around would break the order that the search relies on.
      if (std::is_sorted(in_dwarf.begin(), in_dwarf.end())) functions_->resolve(in_dwarf, found, plain_name);
      if (functions_->damaged())
        warnings_.push_back(module_.path + ": its debug information is broken; some names or lines are missing");
    }
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (found[i].empty()) found[i].emplace_back();
      name_by_symbol(asked[i], found[i].back(), plain_name[i]);
      for (SourceFrame& frame : found[i]) {
        clean(frame.function);
        clean(frame.file);
      }
      frames[first + i] = std::move(found[i]);
    }
  }

  /// True while nothing but the files of the fingerprint had a say in the answers.
  bool can_be_kept() const { return !functions_ || functions_->is_whole(); }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Those that came from reading, not from looking for files.
  std::vector<std::string> reading_warnings() const {
    return {warnings_.begin() + static_cast<std::ptrdiff_t>(opening_warnings_), warnings_.end()};
  }
  /// False: local functions have no names, since the file was stripped and nothing makes up for it.
  bool has_all_symbols() const { return file_.has_all_symbols(); }

 private:
  void prepare() {
    prepared_ = true;
    // Before the symbols, so that libdwfl has found the separate debug file when their table is chosen.
    if (Dwarf* const dwarf = file_.dwarf(bias_); dwarf != nullptr)
      functions_.emplace(
          dwarf, [this](std::uint64_t address) { return file_.is_code(address + bias_); },
          [this](std::uint64_t address) {
            return !symbols_->has_local() || !symbols_->name_at(address + bias_).empty();
          },
          file_.packages());
    symbols_.emplace(file_.dwfl_module());
  }

  void name_by_symbol(std::uint64_t address, SourceFrame& real, bool plain) const {
    if (!real.function.empty() && !plain) return;
    const std::string symbol = symbols_->name_at(address);
    std::string name = demangle(symbol);
    if (real.function.empty()) {
      real.function = symbol.empty() ? symbols_->tail_at(address) : std::move(name);
      if (real.function.empty() && real.file.empty()) real.function_begin = symbols_->begin_at(address);
    } else if (name != symbol && same_function(name, real.function)) {
      // Which of the compiler's copies of the function it is ("[clone .isra.0]") is no part of its name.
      real.function = name.substr(0, name.find(" [clone "));
    } else if (name == symbol && public_name_of(symbol, real.function)) {
      real.function = std::move(name);
    }
  }

  const Module& module_;
  std::vector<std::string> warnings_;
  ModuleFile file_;
  std::size_t opening_warnings_;
  bool prepared_ = false;
  Dwarf_Addr bias_ = 0;
  std::optional<DwarfFrames> functions_;
  std::optional<ElfSymbolTable> symbols_;
};

/// What a module goes by in a table of names. Empty: it is nothing but a number, since its definition was lost.
std::string path_in_table(const Module& module) { return module.generated ? "[generated]" : module.path; }

const ModuleSymbols* find_names(const std::vector<ModuleSymbols>* all, const Module& module) {
  const std::string path = path_in_table(module);
  if (all == nullptr || path.empty()) return nullptr;
  for (const ModuleSymbols& names : *all)
    if (names.path == path && names.build_id_hex == module.build_id_hex && names.map_bytes == module.map_bytes)
      return &names;
  return nullptr;
}

/// A debug file would know more.
bool is_unknown(const std::vector<SourceFrame>& frames) {
  const std::string& function = frames.back().function;
  return function.empty() || function.starts_with(kTailCallPrefix);
}

}  // namespace

/// What is asked of one module, and the answers.
struct Symbolizer::Task {
  std::uint32_t module = 0;
  std::vector<std::uint64_t> addresses;          ///< sorted, distinct
  std::vector<std::vector<SourceFrame>> frames;  ///< of each address; empty: not known yet
  std::vector<std::string> warnings;
  std::string why_unnamed;

  // What has to be read from files, when that is shared out among several threads.
  std::vector<std::uint64_t> missing;
  std::vector<std::vector<SourceFrame>> found;   ///< of `missing`
  std::unique_ptr<ModuleReader> reader;
  std::optional<ModuleSymbols> cached;
  std::string fingerprint;

  void take_known(const ModuleSymbols& names) {
    for (std::size_t i = 0; i < addresses.size(); ++i)
      if (const auto* known = names.find(addresses[i]); frames[i].empty() && known != nullptr) frames[i] = *known;
  }
  void warn(const std::vector<std::string>& texts) { warnings.insert(warnings.end(), texts.begin(), texts.end()); }

  /// False: all is done. True: `missing` is to be looked up by `reader`.
  bool begin(const Module& recorded, const Options& options, const Origin& origin) {
    frames.resize(addresses.size());
    if (const ModuleSymbols* bundled = find_names(origin.bundle.get(), recorded); bundled != nullptr) {
      take_known(*bundled);
      const bool all = std::none_of(frames.begin(), frames.end(), [](const auto& f) { return f.empty(); });
      if (all && !options.points_at_files()) {
        warn(bundled->warnings);
        why_unnamed = bundled->why_unnamed;
        return false;
      }
    }
    for (std::size_t i = 0; i < addresses.size(); ++i)
      if (frames[i].empty() || is_unknown(frames[i])) missing.push_back(addresses[i]);
    if (missing.empty()) return false;
    if (recorded.generated) {
      name_generated(options, origin);
      return false;
    }
    reader = std::make_unique<ModuleReader>(recorded, options, origin);
    if (!reader->is_open()) {
      warn(reader->warnings());
      reader.reset();
      missing.clear();
      return false;
    }
    if (!options.cache_folder.empty()) {
      fingerprint = reader->fingerprint();
      cached = SymbolCache(options.cache_folder).load(reader->build_id(), fingerprint);
      if (cached) {
        std::erase_if(missing, [&](std::uint64_t address) { return cached->find(address) != nullptr; });
        for (std::size_t i = 0; i < addresses.size(); ++i)
          if (const auto* known = cached->find(addresses[i]); known != nullptr)
            if (frames[i].empty() || is_unknown(frames[i])) frames[i] = *known;
        warn(cached->warnings);
      }
    }
    found.resize(missing.size());
    return !missing.empty();
  }

  void name_generated(const Options& options, const Origin& origin) {
    PerfMap map;
    std::string reason;
    if (!find_perf_map(options, origin, map, reason)) {
      why_unnamed = "some code was generated by the program while it ran, and its names are not known: " + reason;
      return;
    }
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      SourceFrame frame = map.find(addresses[i]);
      clean(frame.function);
      clean(frame.file);
      if (!frame.function.empty()) frames[i] = {std::move(frame)};
    }
  }

  /// Takes over what was looked up, and keeps it for the next run.
  void end(const Module& recorded, const Options& options) {
    if (reader == nullptr) return;
    for (std::size_t i = 0, m = 0; i < addresses.size() && m < missing.size(); ++i)
      if (addresses[i] == missing[m]) frames[i] = std::move(found[m++]);
    warn(reader->warnings());
    if (!missing.empty() && !fingerprint.empty() && reader->can_be_kept())
      SymbolCache(options.cache_folder).store(reader->build_id(), fingerprint, merged());
    if (!reader->has_all_symbols())
      why_unnamed = recorded.path +
                    ": without symbols (stripped), and no debug symbols were found; install them (Debian: "
                    "-dbgsym packages), point at them with --debug-dir, or use --debuginfod";
    reader.reset();
  }

  ModuleSymbols merged() const {
    std::map<std::uint64_t, const std::vector<SourceFrame>*> all;
    if (cached)
      for (std::size_t i = 0; i < cached->addresses.size(); ++i) all[cached->addresses[i]] = &cached->frames[i];
    for (std::size_t i = 0; i < addresses.size(); ++i) all[addresses[i]] = &frames[i];
    ModuleSymbols names;
    names.warnings = reader->reading_warnings();
    if (cached) names.warnings.insert(names.warnings.end(), cached->warnings.begin(), cached->warnings.end());
    for (const auto& [address, known] : all) {
      names.addresses.push_back(address);
      names.frames.push_back(*known);
    }
    return names;
  }
};

Symbolizer::Symbolizer(std::vector<Module> modules, Options options, Origin origin)
    : modules_(std::move(modules)), options_(std::move(options)), origin_(std::move(origin)),
      warnings_(modules_.size()) {}

namespace {

/// Runs `work` on as many threads as there are jobs for and cores.
void on_all_cores(std::size_t jobs, const std::function<void()>& work) {
  std::vector<std::thread> workers;
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (std::size_t i = 1; i < std::min(cores, jobs); ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
}

}  // namespace

std::vector<Symbolizer::Task> Symbolizer::look_up_tasks(const std::vector<CodeAddress>& addresses) {
  std::vector<CodeAddress> order;
  for (const CodeAddress& address : addresses)
    if (address.module < modules_.size()) order.push_back(address);
  const auto key = [](const CodeAddress& a) { return std::pair(a.module, a.address); };
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  std::vector<Task> tasks;
  for (const CodeAddress& address : order) {
    if (tasks.empty() || tasks.back().module != address.module) tasks.emplace_back().module = address.module;
    auto& asked = tasks.back().addresses;
    if (asked.empty() || asked.back() != address.address) asked.push_back(address.address);
  }

  // The most expensive first.
  std::vector<Task*> queue;
  for (Task& task : tasks) queue.push_back(&task);
  std::stable_sort(queue.begin(), queue.end(),
                   [](const Task* a, const Task* b) { return a->addresses.size() > b->addresses.size(); });
  elf_version(EV_CURRENT);
  const auto guarded = [&](Task& task, const std::function<void()>& step) {
    try {
      step();
    } catch (const std::exception& error) {  // out of memory: one module's trouble stays its own
      task.warnings.push_back(modules_[task.module].path + ": " + error.what() + "; its functions are not named");
      task.reader.reset();
      task.missing.clear();
    }
  };
  std::atomic<std::size_t> next = 0;
  on_all_cores(queue.size(), [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < queue.size();) {
      Task& task = *queue[i];
      guarded(task, [&] {
        if (task.begin(modules_[task.module], options_, origin_)) {
          if (task.missing.size() >= 2 * kShare) return;  // below, by all
          task.reader->resolve(task.missing, task.found, 0, task.missing.size());
        }
        task.end(modules_[task.module], options_);
      });
    }
  });
  for (Task& task : tasks)
    if (task.reader != nullptr) guarded(task, [&] { share_out(task); });

  for (Task& task : tasks) {
    task.frames.resize(task.addresses.size());
    bool unnamed = false;
    for (auto& frames : task.frames) {
      if (frames.empty()) frames.emplace_back();
      if (!options_.inlines) frames.erase(frames.begin(), frames.end() - 1);
      unnamed |= is_unknown(frames);
    }
    auto& known = warnings_[task.module];
    if (unnamed && !task.why_unnamed.empty()) task.warn({task.why_unnamed});
    for (const std::string& warning : task.warnings)
      if (std::find(known.begin(), known.end(), warning) == known.end()) known.push_back(warning);
  }
  return tasks;
}

/// A module with many addresses: each thread has a reader of its own and takes parts of them in turn. They are
/// in order, so that a unit of debug information belongs to one part as a rule, and is walked once.
void Symbolizer::share_out(Task& task) {
  const Module& module = modules_[task.module];
  const std::size_t parts = (task.missing.size() + kShare - 1) / kShare;
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> first = true;
  std::atomic<bool> whole = true;
  on_all_cores(parts, [&] {
    std::unique_ptr<ModuleReader> own;
    ModuleReader* reader = first.exchange(false) ? task.reader.get() : nullptr;
    try {
      for (std::size_t part; (part = next.fetch_add(1)) < parts;) {
        if (reader == nullptr) {
          own = std::make_unique<ModuleReader>(module, options_, origin_);
          if (!own->is_open()) throw std::runtime_error("it can't be opened any more");
          reader = own.get();
        }
        reader->resolve(task.missing, task.found, part * kShare, std::min((part + 1) * kShare, task.missing.size()));
      }
    } catch (const std::exception&) {  // out of memory: this thread's part stays without names
      whole = false;
    }
    if (reader != nullptr && !reader->can_be_kept()) whole = false;
  });
  if (!whole) {
    task.fingerprint.clear();
    if (std::any_of(task.found.begin(), task.found.end(), [](const auto& frames) { return frames.empty(); }))
      task.warnings.push_back(module.path + ": not enough memory to name all of its functions");
  }
  task.end(module, options_);
}

std::vector<std::vector<SourceFrame>> Symbolizer::resolve(const std::vector<CodeAddress>& addresses) {
  std::vector<std::vector<SourceFrame>> result(addresses.size(), std::vector<SourceFrame>(1));
  if (!options_.symbols) return result;
  const std::vector<Task> tasks = look_up_tasks(addresses);
  std::vector<const Task*> of_module(modules_.size(), nullptr);
  for (const Task& task : tasks) of_module[task.module] = &task;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i].module >= modules_.size()) continue;
    const Task& task = *of_module[addresses[i].module];
    const auto at = std::lower_bound(task.addresses.begin(), task.addresses.end(), addresses[i].address);
    result[i] = task.frames[static_cast<std::size_t>(at - task.addresses.begin())];
    if (options_.short_names)
      for (SourceFrame& frame : result[i]) frame.function = shorten(frame.function);
  }
  return result;
}

std::vector<ModuleSymbols> Symbolizer::resolve_by_module(const std::vector<CodeAddress>& addresses) {
  std::vector<ModuleSymbols> result;
  for (Task& task : look_up_tasks(addresses)) {
    ModuleSymbols& names = result.emplace_back();
    const Module& module = modules_[task.module];
    names.path = path_in_table(module);
    names.build_id_hex = module.build_id_hex;
    names.map_bytes = module.map_bytes;
    std::erase(task.warnings, task.why_unnamed);  // shown where an address without name is asked for
    names.warnings = std::move(task.warnings);
    names.why_unnamed = std::move(task.why_unnamed);
    names.addresses = std::move(task.addresses);
    names.frames = std::move(task.frames);
  }
  return result;
}

namespace {

std::string base_name(const std::string& path) {
  const std::size_t slash = path.rfind('/') + 1;
  return slash < path.size() ? path.substr(slash) : path;
}

/// "a", "a and b", "a, b, c, d and 5 other files".
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 4;
  std::string text;
  const bool all = names.size() <= kMost + 1;
  const std::size_t shown = all ? names.size() : kMost;
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : all && i + 1 == shown ? " and " : ", ") + names[i];
  return all ? text : text + " and " + std::to_string(names.size() - shown) + " other files";
}

}  // namespace

std::vector<std::string> Symbolizer::warnings() const {
  struct Said {
    std::string what;                ///< with ": " in front, of files
    std::vector<std::string> paths;  ///< none: it is of no file
  };
  std::vector<Said> all;
  for (std::size_t i = 0; i < warnings_.size(); ++i) {
    const std::string& path = modules_[i].path;
    for (const std::string& warning : warnings_[i]) {
      const bool of_file = !path.empty() && warning.starts_with(path + ": ");
      const std::string what = of_file ? warning.substr(path.size()) : warning;
      auto said = std::find_if(all.begin(), all.end(),
                               [&](const Said& one) { return one.what == what && one.paths.empty() != of_file; });
      if (said == all.end()) said = all.insert(all.end(), Said{what, {}});
      if (of_file && std::find(said->paths.begin(), said->paths.end(), path) == said->paths.end())
        said->paths.push_back(path);
    }
  }
  std::vector<std::string> texts;
  for (Said& said : all) {
    if (said.paths.size() > 1)
      for (std::string& path : said.paths) path = base_name(path);
    texts.push_back(listed(said.paths) + said.what);
  }
  return texts;
}

}  // namespace heapprof::symbols
