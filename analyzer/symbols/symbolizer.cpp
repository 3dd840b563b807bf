#include "analyzer/symbols/symbolizer.h"

#include <libelf.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <unordered_set>
#include <utility>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/base/reason_of.h"
#include "analyzer/symbols/merged_warnings.h"
#include "analyzer/symbols/module_resolver.h"
#include "analyzer/symbols/parallel.h"
#include "analyzer/symbols/shorten.h"

namespace heapprof::symbols {

namespace {

/// From so many missing addresses on, a module is resolved by several threads, each of which opens its files.
constexpr std::size_t kParallelAddresses = 4096;

/// Runs `step`, an operation on `module`. An exception (out of memory) affects this module only.
template <typename Step>
void contain_exceptions(ModuleResolver& module, Step&& step) {
  try {
    step();
  } catch (const std::exception& error) {
    module.abandon(reason_of(error));
  }
}

}  // namespace

Symbolizer::Symbolizer(std::vector<Module> modules, Options options, RecordedProcess process)
    : modules_(std::move(modules)), options_(std::move(options)), process_(std::move(process)),
      warnings_(modules_.size()) {}

std::vector<std::unique_ptr<ModuleResolver>> Symbolizer::resolve_modules(const std::vector<CodeAddress>& addresses) {
  std::vector<std::vector<std::uint64_t>> by_module(modules_.size());
  for (const CodeAddress& address : addresses)
    if (address.module < modules_.size() && (options_.symbols || modules_[address.module].is_python))
      by_module[address.module].push_back(address.address);
  const EmbeddedModules embedded(process_.embedded_symbols.get());
  std::vector<std::unique_ptr<ModuleResolver>> resolvers;
  for (std::uint32_t module = 0; module < by_module.size(); ++module) {
    std::vector<std::uint64_t>& distinct = by_module[module];
    if (distinct.empty()) continue;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    resolvers.push_back(std::make_unique<ModuleResolver>(module, modules_[module], options_, process_,
                                                         embedded.find(modules_[module]), std::move(distinct)));
  }

  // The most expensive modules first, so that no thread starts one when the others have finished.
  std::vector<ModuleResolver*> queue;
  for (const auto& resolver : resolvers) queue.push_back(resolver.get());
  std::stable_sort(queue.begin(), queue.end(), [](const ModuleResolver* a, const ModuleResolver* b) {
    return a->addresses().size() > b->addresses().size();
  });
  elf_version(EV_CURRENT);
  std::vector<char> has_many(modules_.size(), 0);  // not vector<bool>: several threads write
  std::atomic<std::size_t> next = 0;
  run_on_all_cores(queue.size(), [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < queue.size();) {
      ModuleResolver& resolver = *queue[i];
      contain_exceptions(resolver, [&] {
        if (!resolver.begin()) return;
        if (resolver.missing_count() >= kParallelAddresses) has_many[resolver.module_index()] = 1;
        else resolver.resolve_missing();
      });
    }
  });
  for (const auto& resolver : resolvers)
    if (has_many[resolver->module_index()] != 0)
      contain_exceptions(*resolver, [&] { resolver->resolve_missing_in_parallel(); });

  for (const auto& resolver : resolvers) {
    resolver->finish();
    std::vector<std::string>& known = warnings_[resolver->module_index()];
    std::unordered_set<std::string, ChosenTextHash> distinct(known.begin(), known.end());
    for (const std::string& warning : resolver->warnings())
      if (distinct.insert(warning).second) known.push_back(warning);
  }
  return resolvers;
}

std::vector<std::vector<SourceFrame>> Symbolizer::resolve(const std::vector<CodeAddress>& addresses) {
  std::vector<std::vector<SourceFrame>> result(addresses.size(), std::vector<SourceFrame>(1));
  const std::vector<std::unique_ptr<ModuleResolver>> resolvers = resolve_modules(addresses);
  std::vector<const ModuleResolver*> by_module(modules_.size(), nullptr);
  for (const auto& resolver : resolvers) by_module[resolver->module_index()] = resolver.get();
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i].module >= modules_.size() || by_module[addresses[i].module] == nullptr) continue;
    result[i] = by_module[addresses[i].module]->frames_of(addresses[i].address);
    if (options_.short_names)
      for (SourceFrame& frame : result[i]) frame.function = shorten(frame.function);
  }
  return result;
}

std::vector<ModuleSymbols> Symbolizer::resolve_by_module(const std::vector<CodeAddress>& addresses) {
  std::vector<ModuleSymbols> result;
  for (const auto& resolver : resolve_modules(addresses)) result.push_back(resolver->take_symbols());
  return result;
}

std::vector<std::string> Symbolizer::warnings() const { return merge_warnings(modules_, warnings_); }

}  // namespace heapprof::symbols
