// One call tree for several recordings: equal stacks of equal modules are one node, whose costs are added.
//
// What is peculiar to one recording (its program, its times, its threads) is not part of the result. The costs of
// peak are those at each recording's own peak.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analyzer/model/profile.h"

namespace heapprof::symbols {
struct SourceFrame;
}

namespace heapprof::model {

class ProfileMerger {
 public:
  ProfileMerger();
  ~ProfileMerger();
  ProfileMerger(const ProfileMerger&) = delete;
  ProfileMerger& operator=(const ProfileMerger&) = delete;

  /// Adds a profile. Returns the merged node of each of its nodes.
  std::vector<std::uint32_t> add(const Profile& profile);
  /// The sum of all that were added: call tree, costs, totals (without peaks, which are at different times), symbols.
  /// Call it once, at the end.
  Profile take();

 private:
  /// Path, build id, whether it is Python's; without build id also the size, so that other programs of the path are
  /// others.
  using ModuleKey = std::tuple<std::string, std::string, bool, std::uint64_t>;
  struct NodeKey {
    std::uint32_t parent;
    std::uint32_t address;
    std::string_view truncated;
    bool guessed;
    friend bool operator==(const NodeKey&, const NodeKey&) = default;
  };
  struct Hash {
    std::size_t operator()(const NodeKey& key) const noexcept;
    std::size_t operator()(const CodeAddress& address) const noexcept;
  };
  struct PythonLines;
  struct Names;

  std::vector<std::uint32_t> add_modules(const Profile& profile);
  std::vector<std::uint32_t> add_addresses(const Profile& profile);
  std::uint64_t python_offset(const std::vector<symbols::SourceFrame>& frames);
  void add_embedded_symbols(const Profile& profile);

  Profile merged_;
  bool is_part_ = false;  ///< of one of the profiles, not everything is selected
  std::map<ModuleKey, std::uint32_t> modules_;
  std::unordered_map<CodeAddress, std::uint32_t, Hash> addresses_;
  std::unordered_map<NodeKey, std::uint32_t, Hash> nodes_;
  std::unique_ptr<PythonLines> python_;
  /// By path, build id and size of a module.
  std::map<std::tuple<std::string, std::string, std::uint64_t>, Names> embedded_;
};

}  // namespace heapprof::model
