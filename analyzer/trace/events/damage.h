// What is missing or damaged in a trace, collected while it is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heapprof::trace {

struct Damage {
  /// Further notes are only counted.
  static constexpr std::size_t kMaxNotes = 40;

  std::uint64_t bytes = 0;                       ///< that could not be used
  std::optional<std::uint64_t> events_lost = 0;  ///< nullopt: the number cannot be known
  bool incomplete = false;                       ///< committed records are missing, or may be
  std::vector<std::string> notes;
  std::uint64_t notes_left_out = 0;  ///< beyond kMaxNotes

  /// Counts `count` bytes at file offset `offset` as damaged; `what` names the part.
  void damaged(std::uint64_t offset, std::uint64_t count, const std::string& what) {
    bytes += count;
    incomplete = true;
    note("byte " + std::to_string(offset) + ": " + std::to_string(count) + " bytes damaged (" + what + ")");
  }
  void lost_events(std::uint64_t count) {
    incomplete = true;
    if (events_lost) *events_lost += count;
  }
  /// An unknown number of events is missing.
  void lost_unknown() {
    incomplete = true;
    events_lost.reset();
  }
  /// Definitions of stack frames, modules or code objects are missing, but no event.
  void lost_definitions() { incomplete = true; }
  void note(std::string text) {
    if (notes.size() < kMaxNotes) notes.push_back(std::move(text));
    else ++notes_left_out;
  }
  void add(const Damage& other) {
    bytes += other.bytes;
    if (!other.events_lost) events_lost.reset();
    else if (events_lost) *events_lost += *other.events_lost;
    incomplete |= other.incomplete;
    for (const std::string& text : other.notes) note(text);
    notes_left_out += other.notes_left_out;
  }
};

}  // namespace heapprof::trace
