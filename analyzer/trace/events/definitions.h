// What events refer to, as the trace defines it: call-tree nodes, modules, and the texts about the run.
//
// Node ids of the trace are opaque and may have gaps. The reader gives each a dense index when it first
// meets it, in a definition or in an event, so that everything behind the reader can use plain vectors.
// Index 0 is NodeId::kNone. The same trace always gives the same indices.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/ids.h"
#include "common/note_kind.h"

namespace heapprof::trace {

struct NodeDefinition {
  std::uint64_t offset = 0;
  std::uint32_t parent = 0;   ///< dense index
  std::uint32_t module = 0;   ///< ModuleId
  bool defined = false;       ///< false: only its id was met
  bool guessed = false;
};

struct ModuleDefinition {
  ModuleId id = ModuleId::kMark;
  std::uint64_t first_address = 0;
  std::uint64_t map_bytes = 0;
  std::uint64_t load_bias = 0;
  std::string build_id;       ///< bytes
  std::string path;
  bool is_main = false;
};

/// What the recorder wrote for the reader of a report.
struct Note {
  NoteKind kind = NoteKind::kUntyped;
  std::string text;

  /// Whether figures can be wrong because of what it reports. Before notes had kinds the recorder's phrase said it.
  bool is_about_unrecorded() const {
    if (kind != NoteKind::kUntyped) return kind == NoteKind::kNotRecorded;
    return text.find(" not recorded: ") != text.npos;
  }
};

/// Raw ids to dense indices: an array while ids are as dense as a recorder makes them, else a hash map, so
/// that no id of a damaged trace asks for memory.
class NodeIndex {
 public:
  NodeIndex() : direct_(1 << 12, kUnknown) { direct_[0] = 0; }

  std::uint32_t operator()(std::uint32_t id) {
    if (id < direct_.size() && direct_[id] != kUnknown) [[likely]] return direct_[id];
    return meet(id);
  }
  std::uint32_t size() const noexcept { return count_; }

  /// The id of each dense index.
  std::vector<std::uint32_t> ids() const {
    std::vector<std::uint32_t> result(count_, 0);
    for (std::uint32_t id = 1; id < direct_.size(); ++id)
      if (direct_[id] != kUnknown) result[direct_[id]] = id;
    for (const auto& [id, index] : far_) result[index] = id;
    return result;
  }

 private:
  static constexpr std::uint32_t kUnknown = 0xffffffff;

  [[gnu::noinline]] std::uint32_t meet(std::uint32_t id) {
    if (id >= direct_.size() && id / 8 <= count_ + (1u << 16)) {
      std::size_t size = direct_.size();
      while (size <= id) size *= 2;
      const std::size_t old_size = direct_.size();
      direct_.resize(size, kUnknown);
      for (auto at = far_.begin(); at != far_.end();) {
        if (at->first < old_size || at->first >= size) {
          ++at;
          continue;
        }
        direct_[at->first] = at->second;
        at = far_.erase(at);
      }
    }
    if (id < direct_.size()) {
      if (direct_[id] == kUnknown) direct_[id] = count_++;
      return direct_[id];
    }
    const auto [at, fresh] = far_.try_emplace(id, count_);
    count_ += fresh;
    return at->second;
  }

  std::vector<std::uint32_t> direct_;
  std::unordered_map<std::uint32_t, std::uint32_t> far_;
  std::uint32_t count_ = 1;
};

struct Definitions {
  std::vector<NodeDefinition> nodes;    ///< by dense index; shorter than node_count when the last were not defined
  std::uint32_t node_count = 1;         ///< dense indices given out
  std::uint64_t redefined_nodes = 0;    ///< definitions that contradict an earlier one: not used
  std::vector<ModuleDefinition> modules;

  std::string program;
  std::string command_line;             ///< arguments, each ended by NUL
  bool command_line_cut = false;
  std::string working_directory;
  std::string host;
  std::vector<Note> notes;              ///< of the recorder
};

}  // namespace heapprof::trace
