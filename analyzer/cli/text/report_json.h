// Figures as JSON. The keys are a contract with scripts: keys may be added, but not changed or removed. A key that is
// renamed keeps its old name for one release.
//
// Text of the recorded program may hold any bytes. What is not UTF-8 is replaced, so that the output always parses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

using Json = nlohmann::ordered_json;

/// "format_version" of every JSON document. It is increased when a key is removed or changes its meaning.
inline constexpr int kJsonFormatVersion = 1;

/// A document with nothing but its "format_version".
Json json_document();

/// "heap", "mmap" or "all", the value of "kind".
const char* kind_word(model::Kind kind) noexcept;

/// `text`, or null if it is empty.
Json text_or_null(const std::string& text);

/// Sets the key `name` and, for one release, the key `old_name` that it replaces.
void set_renamed(Json& json, const char* name, const char* old_name, const Json& value);
Json integrity_json(const model::Integrity& integrity);
Json threads_json(const model::Profile& profile);
/// A document with the keys that all commands write first: program, integrity, slice, selection.
Json head_json(const model::Profile& profile);
/// The keys of head_json() for several recordings: "processes", "unread", "copies", "outside", "notes".
void add_processes(Json& json, const model::Together& together);
/// A stack's frames, innermost first.
Json stack_json(const StackNames& names, std::uint32_t node);
Json frame_json(const Frame& frame);

/// The stacks of a document. `shared`: each frame is written once, in "frames", and stacks are positions in it; else
/// every stack has its frames. For documents with few stacks: see write_report().
class StackList {
 public:
  StackList(const StackNames& names, bool shared) : names_(names), shared_(shared) {}
  Json stack(std::uint32_t node);
  /// Adds "frames" to the document, if shared. Call it after the last stack.
  void add_frames_to(Json& json);

 private:
  const StackNames& names_;
  const bool shared_;
  Json frames_ = Json::array();
  std::unordered_map<std::string, std::size_t, ChosenTextHash> positions_;  ///< by the text of a frame: in frames_
};

/// The document of `report` and `leaks` without the frames of the stacks in "top", which write_report() adds. "share"
/// is that of the profile's total cost.
Json report_json(const model::Profile& profile, Cost cost, const std::vector<RankedStack>& stacks,
                 const StackNames& names);
/// What stacks take in a document in which every stack has its frames (not `shared`).
struct FramesSize {
  std::uint64_t frames = 0;
  std::uint64_t bytes = 0;
};
FramesSize frames_size(const std::vector<RankedStack>& stacks, const StackNames& names);
/// A sentence for the user if a reader that loads the whole document will need gigabytes of memory; else empty.
std::string size_warning(const FramesSize& size);

/// Writes `report` with the frames of its stacks, one stack at a time: all stacks of an interpreter are some hundred
/// megabytes, in which few frames repeat. `shared`: each frame is written once, in "frames", and stacks are positions
/// in it; else the user is warned of a large document before it is written. Throws OutputError.
void write_report(const std::string& output, Json report, const std::vector<RankedStack>& stacks,
                  const StackNames& names, bool shared);
Json info_json(const model::Profile& profile);

/// `json` as text in one line, without a line feed.
std::string line_of(const Json& json);

/// `json` as text with a line feed at the end.
std::string dump(const Json& json);

}  // namespace heapprof::cli
