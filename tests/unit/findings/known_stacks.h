// A profile of stacks that a test writes down by name.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/code_frames.h"
#include "analyzer/findings/held.h"
#include "analyzer/findings/helpers.h"
#include "analyzer/model/profile.h"

namespace heapprof::test {

class KnownStacks {
 public:
  KnownStacks() {
    profile_.modules.resize(2);
    profile_.modules[1].path = "/home/user/program";
    profile_.modules[1].is_main = true;
    profile_.recording.program = "/home/user/program";
    profile_.nodes.resize(1);
  }

  /// The node of a stack. Frames are innermost first: "f" or "f:12" with a line of program.c, "f@b.c:12" with one of
  /// another file, "f@b.y(b.c):12" if the function is defined in a third one, "f@b.py#10:12" if its first line is 10;
  /// "f/g:3" are a function that is inlined into the next one; "libx.so!f" is in another module. The source of
  /// "crate::f" is a third party's.
  std::uint32_t node(const std::vector<std::string>& frames) {
    std::uint32_t node = 0;
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      const auto [at, fresh] = nodes_.try_emplace({node, address_of(*frame)}, profile_.nodes.size());
      if (fresh) {
        model::CallNode child;
        child.parent = node;
        child.address = address_of(*frame);
        profile_.nodes.push_back(child);
      }
      node = static_cast<std::uint32_t>(at->second);
    }
    return node;
  }

  /// Blocks of one size that a stack allocated; `left` of them were never freed.
  std::uint32_t add(const std::vector<std::string>& frames, std::uint64_t blocks, std::uint64_t size,
                    std::uint64_t left) {
    const std::uint32_t at = node(frames);
    model::Costs costs;
    costs.allocations = blocks;
    costs.allocated_bytes = blocks * size;
    costs.leaked_blocks = left;
    costs.leaked_bytes = left * size;
    profile_.nodes[at].costs += costs;
    profile_.totals += costs;
    return at;
  }

  model::Profile& profile() { return profile_; }

  findings::CodeFrames frames(const std::string& program = "/home/user/program",
                              findings::Scope scope = findings::Scope::kAll) const {
    return {profile_, [&](std::uint32_t address) { return std::span<const symbols::SourceFrame>(sources_[address]); },
            findings::OriginRules(program), scope};
  }

  /// What was never freed.
  findings::HeldByNode left() const {
    findings::HeldByNode held;
    for (const model::CallNode& node : profile_.nodes)
      held.push_back({node.costs.leaked_bytes, node.costs.leaked_blocks});
    return held;
  }

 private:
  std::uint32_t address_of(const std::string& frame) {
    const auto [at, fresh] = addresses_.try_emplace(frame, profile_.addresses.size());
    if (!fresh) return static_cast<std::uint32_t>(at->second);
    std::string names = frame;
    std::uint32_t module = 1;
    if (const std::size_t mark = names.find('!'); mark != std::string::npos) {
      module = module_of(names.substr(0, mark));
      names.erase(0, mark + 1);
    }
    profile_.addresses.push_back({module, 0x1000 + 16 * addresses_.size()});
    std::vector<symbols::SourceFrame>& sources = sources_.emplace_back();
    for (std::size_t begin = 0; begin <= names.size();) {
      const std::size_t end = std::min(names.find('/', begin), names.size());
      symbols::SourceFrame source;
      source.function = names.substr(begin, end - begin);
      const std::size_t colon = source.function.rfind(':');
      if (colon != std::string::npos && colon + 1 < source.function.size() &&
          source.function.find_first_not_of("0123456789", colon + 1) == std::string::npos) {
        source.line = std::stoi(source.function.substr(colon + 1));
        source.file = "/home/user/program.c";
        source.function.resize(colon);
        if (const std::size_t mark = source.function.find('@'); mark != std::string::npos) {
          source.file = "/home/user/" + source.function.substr(mark + 1);
          source.function.resize(mark);
          if (const std::size_t at = source.file.find('#'); at != std::string::npos) {
            source.definition_line = std::stoi(source.file.substr(at + 1));
            source.file.resize(at);
          }
          if (const std::size_t of = source.file.find('('); of != std::string::npos) {
            source.definition_file = "/home/user/" + source.file.substr(of + 1, source.file.size() - of - 2);
            source.file.resize(of);
          }
        }
      }
      if (source.function.starts_with("crate::")) source.file = "/home/user/.cargo/registry/src/crate/lib.rs";
      source.inlined = end < names.size();
      sources.push_back(source);
      begin = end + 1;
    }
    return static_cast<std::uint32_t>(at->second);
  }

  std::uint32_t module_of(const std::string& path) {
    for (std::uint32_t i = 0; i < profile_.modules.size(); ++i)
      if (profile_.modules[i].path == path) return i;
    profile_.modules.emplace_back().path = path;
    return static_cast<std::uint32_t>(profile_.modules.size() - 1);
  }

  model::Profile profile_;
  std::deque<std::vector<symbols::SourceFrame>> sources_;  // by address
  std::map<std::string, std::size_t> addresses_;
  std::map<std::tuple<std::uint32_t, std::uint32_t>, std::size_t> nodes_;
};

}  // namespace heapprof::test
