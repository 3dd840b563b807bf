#include "analyzer/symbols/symbolizer.h"

#include <libelf.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>

#include "analyzer/symbols/demangle.h"
#include "analyzer/symbols/dwarf_functions.h"
#include "analyzer/symbols/elf_symbols.h"
#include "analyzer/symbols/module_file.h"

namespace heapprof::symbols {

namespace {

/// What is asked of one module, and the answers.
struct Task {
  std::uint32_t module;
  std::vector<std::uint64_t> addresses;           ///< sorted, distinct
  std::vector<std::vector<SourceFrame>> frames;   ///< of each address
  std::vector<std::string> warnings;
};

/// Names come from files anybody may have written and go to terminals: no control characters.
void clean(std::string& text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
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

void resolve_module(const Module& module, const Options& options, Task& task) {
  task.frames.resize(task.addresses.size());
  ModuleFile file(module, options, task.warnings);
  if (!file.is_open()) return;

  // Before the symbols, so that libdwfl has found the separate debug file when their table is chosen.
  Dwarf_Addr bias = 0;
  Dwarf* dwarf = file.dwarf(bias);
  std::vector<bool> plain_name(task.addresses.size(), true);
  if (dwarf != nullptr) {
    std::vector<std::uint64_t> in_dwarf = task.addresses;
    for (std::uint64_t& address : in_dwarf) address -= bias;
    // A bias that wraps around would break the order that the search relies on.
    if (std::is_sorted(in_dwarf.begin(), in_dwarf.end())) {
      DwarfFunctions functions(dwarf, [&](std::uint64_t address) { return file.is_code(address + bias); });
      functions.resolve(in_dwarf, task.frames, plain_name);
      if (functions.damaged())
        task.warnings.push_back(module.path + ": its debug information is broken; some names or lines are missing");
    }
  }

  const ElfSymbols symbols(file.dwfl_module());
  for (std::size_t i = 0; i < task.addresses.size(); ++i) {
    auto& frames = task.frames[i];
    if (frames.empty()) frames.emplace_back();
    SourceFrame& real = frames.back();
    if (real.function.empty() || plain_name[i]) {
      const std::string symbol = symbols.name_at(task.addresses[i]);
      std::string name = demangle(symbol);
      if (real.function.empty()) {
        real.function = std::move(name);
      } else if (name != symbol && same_function(name, real.function)) {
        // Which of the compiler's copies of the function it is ("[clone .isra.0]") is no part of its name.
        real.function = name.substr(0, name.find(" [clone "));
      } else if (name == symbol && public_name_of(symbol, real.function)) {
        real.function = std::move(name);
      }
    }
    if (!options.inlines) frames.erase(frames.begin(), frames.end() - 1);
    for (SourceFrame& frame : frames) {
      clean(frame.function);
      clean(frame.file);
    }
  }
}

}  // namespace

Symbolizer::Symbolizer(std::vector<Module> modules, Options options)
    : modules_(std::move(modules)), options_(std::move(options)), warnings_(modules_.size()) {}

std::vector<std::vector<SourceFrame>> Symbolizer::resolve(const std::vector<CodeAddress>& addresses) {
  std::vector<std::vector<SourceFrame>> result(addresses.size(), std::vector<SourceFrame>(1));
  if (!options_.symbols) return result;

  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < addresses.size(); ++i)
    if (addresses[i].module < modules_.size()) order.push_back(i);
  const auto key = [&](std::size_t i) { return std::pair(addresses[i].module, addresses[i].address); };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });

  std::vector<Task> tasks;
  for (const std::size_t i : order) {
    if (tasks.empty() || tasks.back().module != addresses[i].module)
      tasks.push_back({addresses[i].module, {}, {}, {}});
    auto& asked = tasks.back().addresses;
    if (asked.empty() || asked.back() != addresses[i].address) asked.push_back(addresses[i].address);
  }

  // The most expensive first; a worker owns a module's handles, which elfutils requires.
  std::vector<Task*> queue;
  for (Task& task : tasks) queue.push_back(&task);
  std::stable_sort(queue.begin(), queue.end(),
                   [](const Task* a, const Task* b) { return a->addresses.size() > b->addresses.size(); });
  elf_version(EV_CURRENT);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < queue.size();) {
      Task& task = *queue[i];
      const Module& module = modules_[task.module];
      try {
        resolve_module(module, options_, task);
      } catch (const std::exception& error) {  // out of memory: one module's trouble stays its own
        task.warnings.push_back(module.path + ": " + error.what() + "; its functions are not named");
        task.frames.assign(task.addresses.size(), {});
      }
    }
  };
  std::vector<std::thread> workers;
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (std::size_t i = 1; i < std::min(cores, queue.size()); ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();

  std::size_t at = 0;  // in `order`, beside the walk over all tasks' addresses
  for (Task& task : tasks) {
    for (std::size_t i = 0; i < task.addresses.size(); ++i) {
      auto& frames = task.frames[i];
      if (frames.empty()) frames.emplace_back();
      for (; at < order.size() && key(order[at]) == std::pair(task.module, task.addresses[i]); ++at)
        result[order[at]] = frames;
    }
    auto& known = warnings_[task.module];
    for (std::string& warning : task.warnings)
      if (std::find(known.begin(), known.end(), warning) == known.end()) known.push_back(std::move(warning));
  }
  return result;
}

std::vector<std::string> Symbolizer::warnings() const {
  std::vector<std::string> all;
  for (const auto& of_module : warnings_)
    for (const std::string& warning : of_module)
      if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(warning);
  return all;
}

}  // namespace heapprof::symbols
