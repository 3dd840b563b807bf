#include "analyzer/findings/code_frames.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/base/chosen_key_hash.h"

namespace heapprof::findings {
namespace {

/// Numbers functions by name and module, or by module and begin if they are unresolved; those of Python by name and
/// file: every file has a <module>.
class FunctionNumbers {
 public:
  FunctionNumbers(const model::Profile& profile, const OriginRules& rules, std::vector<Function>& functions)
      : profile_(profile), rules_(rules), functions_(functions),
        has_python_(std::ranges::any_of(profile.modules, &model::Module::is_python)) {}

  std::uint32_t of(const symbols::SourceFrame* source, std::uint32_t address, std::uint32_t index) {
    const model::CodeAddress& code = profile_.addresses[address];
    std::uint64_t begin = 0;
    if (source == nullptr || source->function.empty())
      begin = source != nullptr && source->function_begin != 0 ? source->function_begin : code.offset;
    key_.assign(source == nullptr ? std::string_view() : std::string_view(source->function));
    key_.append(reinterpret_cast<const char*>(&code.module), sizeof code.module);
    key_.append(reinterpret_cast<const char*>(&begin), sizeof begin);
    if (source != nullptr && profile_.modules[code.module].is_python) key_.append(source->file);
    const auto [at, fresh] = numbers_.try_emplace(key_, static_cast<std::uint32_t>(functions_.size()));
    if (fresh) add(source, code.module, begin, {address, index});
    return at->second;
  }

 private:
  void add(const symbols::SourceFrame* source, std::uint32_t module, std::uint64_t begin, FrameRef frame) {
    Function& function = functions_.emplace_back();
    function.module = module;
    function.begin = begin;
    function.frame = frame;
    FrameFacts facts;
    facts.module_path = profile_.modules[module].path;
    facts.is_python = profile_.modules[module].is_python;
    if (source != nullptr) {
      function.name = source->function;
      facts.function = function.name;
      facts.file = source->file;
    }
    function.origin = rules_.of(facts);
    function.is_python = facts.is_python;
    function.is_machinery = facts.is_python && facts.file.starts_with("<frozen ");
    function.is_built_in =
        function.origin == Origin::kThirdParty && (has_python_ || rules_.is_own_module(facts.module_path));
    function.is_start_up =
        (function.origin == Origin::kRuntime || function.origin == Origin::kStandard) && is_start_up(function.name);
    function.is_main =
        !facts.is_python && (function.origin == Origin::kOwn || function.is_built_in) && is_main(function.name);
  }

  const model::Profile& profile_;
  const OriginRules& rules_;
  std::vector<Function>& functions_;
  const bool has_python_;
  std::unordered_map<std::string, std::uint32_t, ChosenTextHash> numbers_;
  std::string key_;
};

}  // namespace

CodeFrames::CodeFrames(const model::Profile& profile, const Resolve& resolve, const OriginRules& rules, Scope scope)
    : profile_(profile), scope_(scope) {
  FunctionNumbers functions(profile, rules, functions_);
  std::unordered_map<std::uint64_t, std::uint32_t, ChosenKeyHash> lines;
  const auto add = [&](const symbols::SourceFrame* source, std::uint32_t address, std::uint32_t index) {
    const std::uint32_t function = functions.of(source, address, index);
    const auto line = source == nullptr ? 0 : static_cast<std::uint32_t>(source->line);
    function_of_frame_.push_back(function);
    line_of_frame_.push_back(
        lines.try_emplace(std::uint64_t{function} << 32 | line, static_cast<std::uint32_t>(lines.size()))
            .first->second);
  };
  const auto count = static_cast<std::uint32_t>(profile.addresses.size());
  first_frame_.reserve(std::size_t{count} + 1);
  sources_.reserve(count);
  for (std::uint32_t address = 0; address < count; ++address) {
    first_frame_.push_back(static_cast<std::uint32_t>(function_of_frame_.size()));
    const std::span<const symbols::SourceFrame> sources = sources_.emplace_back(resolve(address));
    for (std::uint32_t index = 0; index < sources.size(); ++index) add(&sources[index], address, index);
    if (sources.empty()) add(nullptr, address, 0);
  }
  first_frame_.push_back(static_cast<std::uint32_t>(function_of_frame_.size()));
}

const symbols::SourceFrame* CodeFrames::source_of(FrameRef frame) const {
  const std::span<const symbols::SourceFrame> sources = sources_[frame.address];
  return sources.empty() ? nullptr : &sources[frame.index];
}

std::string CodeFrames::name_of(std::uint32_t number) const {
  const Function& function = functions_[number];
  if (!function.name.empty()) return function.name;
  char begin[24];
  std::snprintf(begin, sizeof begin, "0x%" PRIx64, function.begin);
  const std::string& path = profile_.modules[function.module].path;
  return path.empty() ? begin : base_name(path) + "+" + begin;
}

std::vector<FrameRef> CodeFrames::stack(std::uint32_t node) const {
  std::vector<FrameRef> stack;
  for (; node != 0; node = profile_.nodes[node].parent) {
    const std::uint32_t address = profile_.nodes[node].address;
    if (address == model::kNoIndex) continue;
    const auto count = static_cast<std::uint32_t>(functions_at(address).size());
    for (std::uint32_t index = 0; index < count; ++index) stack.push_back({address, index});
  }
  return stack;
}

}  // namespace heapprof::findings
