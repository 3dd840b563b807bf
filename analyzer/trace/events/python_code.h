// What a trace says about Python: its interpreters, and the code objects to which nodes of ModuleId::kPython refer.
//
// A code object is one text or several pieces of one (TextKind::kPythonCode). Pieces are put together by their
// numbers; an object of which a piece is missing does not exist for later stages. If a number is used twice with
// different contents, the first is used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/trace/files/byte_stream.h"
#include "common/trace_format.h"

namespace heapprof::trace {

struct PythonInterpreter {
  std::uint32_t version = 0;  ///< PY_VERSION_HEX; 0: unknown
  std::string why_off;        ///< why its frames are not recorded; empty: they are
  friend bool operator==(const PythonInterpreter&, const PythonInterpreter&) = default;
};

struct PythonCode {
  std::uint32_t number = 0;
  std::uint32_t first_line = 0;
  PythonLines lines = PythonLines::kNone;  ///< how `table` is encoded; kNone if the trace has another value
  std::string file;
  std::string name;   ///< qualified
  std::string table;  ///< of lines; empty: too long for the recorder
  friend bool operator==(const PythonCode&, const PythonCode&) = default;
};

class PythonDefinitions {
 public:
  static constexpr std::size_t kMaxInterpreters = 64;

  void add_interpreter(PythonInterpreter interpreter);
  /// Adds a piece of the text of the code object `number`.
  void add_piece(std::uint64_t number, std::uint64_t piece, std::string_view text);

  bool empty() const noexcept { return interpreters_.empty() && codes_.empty(); }
  const std::vector<PythonInterpreter>& interpreters() const noexcept { return interpreters_; }
  /// The complete code objects, in the order in which they became complete.
  const std::vector<PythonCode>& codes() const noexcept { return codes_; }
  /// Null: the trace has no complete code object of this number.
  const PythonCode* find(std::uint32_t number) const noexcept;

  /// Code objects whose text is malformed, or contradicts an earlier one of the same number.
  std::uint64_t malformed() const noexcept { return malformed_; }
  std::uint64_t contradictory() const noexcept { return contradictory_; }

  /// How many code objects a lookup compares at most, for tests.
  std::size_t max_compared() const { return std::max(max_bucket_size(position_), max_bucket_size(begun_)); }

 private:
  friend void save(const PythonDefinitions& python, ByteWriter& out);
  friend PythonDefinitions load_python(ByteReader& in);

  /// A code object whose last pieces are still to come.
  struct Begun {
    std::uint64_t pieces = 0;
    std::string text;
  };
  void complete(std::uint32_t number, std::string_view text);

  std::vector<PythonInterpreter> interpreters_;
  std::vector<PythonCode> codes_;
  std::unordered_map<std::uint32_t, std::size_t, ChosenKeyHash> position_;  // by number: in codes_
  std::unordered_map<std::uint32_t, Begun, ChosenKeyHash> begun_;
  std::uint64_t malformed_ = 0;
  std::uint64_t contradictory_ = 0;
};

/// "3.11.7", "3.14.0rc2"; "3.8" without a release level, of which only these parts are known; empty: unknown.
std::string version_text(std::uint32_t version);

/// For indexes and compacted traces; without the objects that are incomplete.
void save(const PythonDefinitions& python, ByteWriter& out);
/// Throws FormatError.
PythonDefinitions load_python(ByteReader& in);

}  // namespace heapprof::trace
