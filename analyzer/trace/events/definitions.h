// What events refer to: call-tree nodes, modules, and the texts about the run.
//
// Node ids in a trace are opaque and may have gaps. The reader gives each id a dense index when it first meets it, in
// a definition or in an event, so that later stages can use plain vectors. Index 0 is NodeId::kNone. The same trace
// always gives the same indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/trace/events/python_code.h"
#include "common/ids.h"
#include "common/note_kind.h"

namespace heapprof::trace {

/// One frame of the call tree; its parent is the caller.
struct NodeDefinition {
  std::uint64_t offset = 0;  ///< address of the call instruction in the ELF file
  std::uint32_t parent = 0;  ///< dense index; 0: outermost frame
  std::uint32_t module = 0;  ///< ModuleId
  bool defined = false;      ///< false: the trace uses the id but never defines it
  bool guessed = false;      ///< found by frame pointers, without unwind information
};

/// A loaded ELF object.
struct ModuleDefinition {
  ModuleId id = ModuleId::kTruncationRoot;
  std::uint64_t first_address = 0;  ///< of its first mapping
  std::uint64_t map_bytes = 0;      ///< from first_address to the end of its last mapping
  std::uint64_t load_bias = 0;      ///< address in memory minus address in the file
  std::string build_id;             ///< raw bytes; empty: none
  std::string path;
  bool is_main = false;  ///< the program itself
};

/// A sentence that the recorder wrote for reports.
struct Note {
  NoteKind kind = NoteKind::kUntyped;
  std::string text;

  /// Whether it reports that allocations or frees were not recorded, so that figures can be wrong. Recorders before
  /// note kinds existed used a fixed phrase.
  bool is_about_unrecorded() const {
    if (kind != NoteKind::kUntyped) return kind == NoteKind::kNotRecorded;
    return text.find(" not recorded: ") != text.npos;
  }
};

/// Maps node ids to dense indices. A recorder assigns nearly consecutive ids, which are looked up in an array. Ids
/// far above them are in a hash map, so that a large id in a damaged trace does not allocate a large array.
class NodeIndex {
 public:
  static constexpr std::uint32_t kNoIndex = 0xffffffff;

  NodeIndex() : direct_(1 << 12, kNoIndex) { direct_[0] = 0; }

  std::uint32_t operator()(std::uint32_t id) {
    if (id < direct_.size() && direct_[id] != kNoIndex) [[likely]]
      return direct_[id];
    return add(id);
  }
  /// kNoIndex: the id was not met.
  std::uint32_t find(std::uint32_t id) const {
    if (id < direct_.size()) [[likely]]
      return direct_[id];
    const auto at = sparse_.find(id);
    return at == sparse_.end() ? kNoIndex : at->second;
  }
  std::uint32_t size() const noexcept { return count_; }  ///< dense indices in use, index 0 included

  /// From here on, ids that would exceed `count` dense indices have index 0, as if there were no stack.
  void set_limit(std::uint64_t count) noexcept { limit_ = count; }
  /// Whether an id was met that would.
  bool exceeds_limit() const noexcept { return exceeds_limit_; }

  /// The node id of each dense index.
  std::vector<std::uint32_t> ids() const {
    std::vector<std::uint32_t> result(count_, 0);
    for (std::uint32_t id = 1; id < direct_.size(); ++id)
      if (direct_[id] != kNoIndex) result[direct_[id]] = id;
    for (const auto& [id, index] : sparse_) result[index] = id;
    return result;
  }

  /// How many ids a lookup compares at most, for tests.
  std::size_t max_compared() const { return max_bucket_size(sparse_); }

 private:
  [[gnu::noinline]] std::uint32_t add(std::uint32_t id) {
    if (count_ >= limit_) [[unlikely]] {
      const std::uint32_t known = find(id);
      if (known != kNoIndex) return known;
      exceeds_limit_ = true;
      return 0;
    }
    if (id >= direct_.size() && id / 8 <= count_ + (1u << 16)) {
      std::size_t size = direct_.size();
      while (size <= id) size *= 2;
      const std::size_t old_size = direct_.size();
      direct_.resize(size, kNoIndex);
      for (auto at = sparse_.begin(); at != sparse_.end();) {
        if (at->first < old_size || at->first >= size) {
          ++at;
          continue;
        }
        direct_[at->first] = at->second;
        at = sparse_.erase(at);
      }
    }
    if (id < direct_.size()) {
      if (direct_[id] == kNoIndex) direct_[id] = count_++;
      return direct_[id];
    }
    const auto [at, fresh] = sparse_.try_emplace(id, count_);
    count_ += fresh;
    return at->second;
  }

  std::vector<std::uint32_t> direct_;  // index by id; kNoIndex: not met yet
  std::unordered_map<std::uint32_t, std::uint32_t, ChosenKeyHash> sparse_;
  std::uint32_t count_ = 1;
  std::uint64_t limit_ = kNoIndex;
  bool exceeds_limit_ = false;
};

/// All definitions of a trace. Complete only after its last batch was read: a definition may come after its first
/// use, in another stream.
struct Definitions {
  std::vector<NodeDefinition> nodes;  ///< by dense index; shorter than node_count if the last have no definition
  std::uint32_t node_count = 1;       ///< dense indices in use; every MergedEvent::node is less
  std::uint64_t redefined_nodes = 0;  ///< definitions that contradict an earlier one; the first is used
  std::vector<ModuleDefinition> modules;

  std::string program;                ///< absolute path of the executable
  std::string command_line;           ///< arguments, each ended by NUL
  bool command_line_cut = false;      ///< truncated by the recorder
  bool command_line_omitted = false;  ///< the arguments were left out of a copy; the program is still there
  std::string working_directory;
  std::string host;
  std::vector<Note> notes;  ///< at most Damage::kMaxNotes
  PythonDefinitions python;
};

}  // namespace heapprof::trace
