#include "analyzer/model/merged_profile.h"

#include <algorithm>
#include <memory>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/symbols/module_symbols.h"

namespace heapprof::model {

struct ProfileMerger::PythonLines {
  std::map<std::vector<std::tuple<std::string, std::string, int, bool>>, std::uint64_t> numbers;
  symbols::ModuleSymbols symbols;
};

/// Names of one module from all bundled recordings.
struct ProfileMerger::Names {
  symbols::ModuleSymbols module;  ///< without addresses
  std::map<std::uint64_t, std::vector<symbols::SourceFrame>> frames;
};

std::size_t ProfileMerger::Hash::operator()(const NodeKey& key) const noexcept {
  return ChosenKeyHash()(std::uint64_t{key.parent} << 32 | key.address);
}

std::size_t ProfileMerger::Hash::operator()(const CodeAddress& address) const noexcept {
  return ChosenKeyHash()(mix_bits(kHashSeed + address.offset) + address.module);
}

ProfileMerger::ProfileMerger() : python_(std::make_unique<PythonLines>()) {
  merged_.modules.emplace_back();  // code outside of every object
  merged_.nodes.emplace_back();    // the root
}

ProfileMerger::~ProfileMerger() = default;

std::vector<std::uint32_t> ProfileMerger::add_modules(const Profile& profile) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(profile.modules.size());
  for (const Module& module : profile.modules) {
    const auto position = static_cast<std::uint32_t>(merged_.modules.size());
    if (module.lost) {  // it can be any: equal offsets are not equal code
      merged_.modules.push_back(module);
      numbers.push_back(position);
      continue;
    }
    if (module.path.empty()) {
      numbers.push_back(0);
      continue;
    }
    const std::uint64_t map_bytes = module.build_id.empty() ? module.map_bytes : 0;
    const auto [at, is_new] =
        modules_.try_emplace(ModuleKey{module.path, module.build_id, module.is_python, map_bytes}, position);
    if (is_new) {
      merged_.modules.push_back(module);
    } else {
      merged_.modules[at->second].loads += module.loads;
      merged_.modules[at->second].is_main |= module.is_main;
    }
    numbers.push_back(at->second);
  }
  return numbers;
}

/// The number of a line of Python: recordings number their code objects differently.
std::uint64_t ProfileMerger::python_offset(const std::vector<symbols::SourceFrame>& frames) {
  std::vector<std::tuple<std::string, std::string, int, bool>> key;
  for (const symbols::SourceFrame& frame : frames)
    key.emplace_back(frame.function, frame.file, frame.line, frame.inlined);
  const auto [at, is_new] = python_->numbers.try_emplace(std::move(key), python_->numbers.size() + 1);
  if (is_new) {
    python_->symbols.addresses.push_back(at->second);
    python_->symbols.frames.push_back(frames);
  }
  return at->second;
}

std::vector<std::uint32_t> ProfileMerger::add_addresses(const Profile& profile) {
  const std::vector<std::uint32_t> modules = add_modules(profile);
  std::vector<std::uint32_t> numbers;
  numbers.reserve(profile.addresses.size());
  for (const CodeAddress& address : profile.addresses) {
    CodeAddress merged{modules[address.module], address.offset};
    if (profile.modules[address.module].is_python && profile.python_symbols != nullptr)
      if (const auto* const frames = profile.python_symbols->find(address.offset); frames != nullptr)
        merged.offset = python_offset(*frames);
    const auto [at, is_new] = addresses_.try_emplace(merged, static_cast<std::uint32_t>(merged_.addresses.size()));
    if (is_new) merged_.addresses.push_back(merged);
    numbers.push_back(at->second);
  }
  return numbers;
}

void ProfileMerger::add_embedded_symbols(const Profile& profile) {
  if (profile.embedded_symbols == nullptr) return;
  for (const symbols::ModuleSymbols& module : *profile.embedded_symbols) {
    Names& names = embedded_[{module.path, module.build_id_hex, module.map_bytes}];
    if (names.frames.empty()) {
      names.module.path = module.path;
      names.module.build_id_hex = module.build_id_hex;
      names.module.map_bytes = module.map_bytes;
      names.module.warnings = module.warnings;
      names.module.why_unnamed = module.why_unnamed;
    }
    for (std::size_t i = 0; i < module.addresses.size(); ++i)
      names.frames.try_emplace(module.addresses[i], module.frames[i]);
  }
}

std::vector<std::uint32_t> ProfileMerger::add(const Profile& profile) {
  const std::vector<std::uint32_t> addresses = add_addresses(profile);
  std::vector<std::uint32_t> nodes(profile.nodes.size(), 0);
  for (std::size_t i = 0; i < profile.nodes.size(); ++i) {
    const CallNode& node = profile.nodes[i];
    if (i != 0) {
      const NodeKey key{nodes[node.parent], node.address == kNoIndex ? kNoIndex : addresses[node.address],
                        node.truncated == nullptr ? "" : node.truncated, node.guessed};
      const auto [at, is_new] = nodes_.try_emplace(key, static_cast<std::uint32_t>(merged_.nodes.size()));
      if (is_new) merged_.nodes.push_back({key.parent, key.address, node.truncated, node.guessed, {}});
      nodes[i] = at->second;
    }
    merged_.nodes[nodes[i]].costs += node.costs;
  }
  merged_.whole.resize(merged_.nodes.size());
  for (std::uint32_t i = 0; i < nodes.size(); ++i) merged_.whole[nodes[i]] += profile.whole_of(i);
  is_part_ |= !profile.whole.empty();
  add_embedded_symbols(profile);

  merged_.kind = profile.kind;
  merged_.selection_text = profile.selection_text;
  merged_.totals += profile.totals;
  merged_.heap.allocations += profile.heap.allocations;
  merged_.heap.allocated_bytes += profile.heap.allocated_bytes;
  merged_.heap.frees += profile.heap.frees;
  merged_.heap.failed += profile.heap.failed;
  merged_.heap.leaked_bytes += profile.heap.leaked_bytes;
  merged_.heap.leaked_blocks += profile.heap.leaked_blocks;
  merged_.heap.temporary_allocations += profile.heap.temporary_allocations;
  merged_.heap.unmatched_frees += profile.heap.unmatched_frees;
  merged_.heap.implied_frees += profile.heap.implied_frees;
  merged_.mmap.mappings += profile.mmap.mappings;
  merged_.mmap.mapped_bytes += profile.mmap.mapped_bytes;
  merged_.mmap.live_bytes += profile.mmap.live_bytes;
  if (!std::ranges::count(merged_.recording.other_programs, profile.recording.program))
    merged_.recording.other_programs.push_back(profile.recording.program);
  return nodes;
}

Profile ProfileMerger::take() {
  if (!is_part_) merged_.whole.clear();
  if (!python_->symbols.addresses.empty()) {
    for (const Module& module : merged_.modules)
      if (module.is_python) python_->symbols.path = module.path;
    merged_.python_symbols = std::make_shared<const symbols::ModuleSymbols>(std::move(python_->symbols));
  }
  if (!embedded_.empty()) {
    std::vector<symbols::ModuleSymbols> all;
    for (auto& [key, names] : embedded_) {
      for (auto& [address, frames] : names.frames) {
        names.module.addresses.push_back(address);
        names.module.frames.push_back(std::move(frames));
      }
      all.push_back(std::move(names.module));
    }
    merged_.embedded_symbols = std::make_shared<const std::vector<symbols::ModuleSymbols>>(std::move(all));
  }
  return std::move(merged_);
}

}  // namespace heapprof::model
