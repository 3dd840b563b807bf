#include "analyzer/cli/text/interpreter_frames.h"

#include <cstddef>
#include <utility>

#include "analyzer/findings/interpreter.h"
#include "analyzer/symbols/symbolizer.h"

namespace heapprof::cli {

std::vector<std::uint8_t> find_interpreter_frames(const model::Profile& profile,
                                                  const std::vector<model::CodeAddress>& addresses,
                                                  const symbols::Options& options, KnownFrames* known) {
  std::vector<std::uint8_t> is_folded(addresses.size(), 0);
  enum Interpreter : std::uint8_t { kNone, kByFrames, kByFile };
  std::vector<Interpreter> interpreters;
  for (const model::Module& module : profile.modules)
    interpreters.push_back(findings::is_python_interpreter(module.path) ? kByFile
                           : module.evaluates_python                    ? kByFrames
                                                                        : kNone);
  const auto judge = [&](std::size_t at, const std::vector<symbols::SourceFrame>& frames) {
    // Whatever is inlined into the evaluation of bytecode happens inside of the line, and would stand outside of it.
    const std::string& function = frames.back().function;
    // A program that contains an interpreter has functions of its own, which may have no name, either.
    const bool may_be_own = interpreters[addresses[at].module] == kByFrames && findings::is_nameless(function);
    is_folded[at] = !may_be_own && findings::leads_to_python(function);
  };
  std::vector<symbols::CodeAddress> wanted;
  std::vector<std::size_t> positions;
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    const model::CodeAddress& address = addresses[at];
    if (interpreters[address.module] == kNone) continue;
    if (known != nullptr)
      if (const auto* const frames = known->find(profile.modules[address.module], address.offset)) {
        judge(at, *frames);
        continue;
      }
    wanted.push_back({address.module, address.offset});
    positions.push_back(at);
  }
  if (wanted.empty()) return is_folded;
  std::vector<std::vector<symbols::SourceFrame>> found = symbolizer_of(profile, options).resolve(wanted);
  for (std::size_t i = 0; i < found.size(); ++i) {
    judge(positions[i], found[i]);
    if (known != nullptr) known->add(profile.modules[wanted[i].module], wanted[i].address, std::move(found[i]));
  }
  return is_folded;
}

void fold_interpreter_frames(const symbols::Options& options, replay::Selection& selection) {
  if (!folds_interpreter_frames(options)) return;
  selection.find_folded = [options](const model::Profile& profile, const std::vector<model::CodeAddress>& addresses) {
    return find_interpreter_frames(profile, addresses, options, nullptr);
  };
}

}  // namespace heapprof::cli
