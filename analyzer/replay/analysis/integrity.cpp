#include "analyzer/replay/analysis/integrity.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "analyzer/trace/events/limits.h"

namespace heapprof::replay {
namespace {

std::string count_of(std::uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

}  // namespace

void describe_end(const FileHeader& header, model::Integrity& integrity) {
  if (header.end_kind == EndKind::kSignal ||
      (header.end_kind == EndKind::kExit && header.end_status != kEndStatusUnknown))
    integrity.end_status = header.end_status;
  if (header.end_kind == EndKind::kStopped)
    integrity.stop_reason = std::string(header.stop_reason, ::strnlen(header.stop_reason, sizeof header.stop_reason));
}

namespace {

trace::Damage all_damage(const IntegrityInput& input, const model::Recording& recording) {
  const FileHeader& header = input.file.header();
  trace::Damage damage = input.has_file_damage ? trace::Damage() : input.file.damage();
  damage.add(input.stream_damage);
  if (damage.events_lost.value_or(0) != 0 && damage.bytes == 0) {
    // Blocks are missing, but no bytes are damaged: the file was truncated between two extents. Streams after that
    // offset are unknown. If the blocks are missing in a compacted trace, TraceFile has added a note.
    damage.lost_unknown();
    if (input.stream_damage.events_lost.value_or(0) != 0)
      damage.note("the file is truncated at byte " + std::to_string(input.file.original_bytes()));
  }
  const bool running = input.file.recorder() == trace::RecorderState::kRecording;
  const bool stopped = header.end_kind == EndKind::kStopped;
  if (recording.tail_not_kill_safe && !running &&
      (stopped || header.end_kind == EndKind::kNone || header.end_kind == EndKind::kSignal)) {
    damage.lost_unknown();
    damage.note(stopped ? "the last events before the recording stopped may be missing on this file system"
                        : "the last events of a killed program may be missing on this file system");
  }
  if (input.symbols_damaged) damage.note("the embedded symbols of the trace are damaged and are not used");
  if (input.lost_nodes != 0)
    damage.note("the definition of " + count_of(input.lost_nodes, "stack frame", "stack frames") +
                " is lost: shown as 'definition_lost'");
  const trace::PythonDefinitions& python = input.definitions.python;
  if (input.lost_python_codes != 0)
    damage.note(count_of(input.lost_python_codes, "code object", "code objects") +
                " of Python missing: shown as '(unknown Python code)'");
  if (python.malformed() != 0)
    damage.note(count_of(python.malformed(), "record", "records") + " of Python code objects malformed, not used");
  if (python.contradictory() != 0)
    damage.note(count_of(python.contradictory(), "code object", "code objects") +
                " of Python defined twice with different contents; the first is used");
  if (input.definitions.redefined_nodes != 0)
    damage.note(count_of(input.definitions.redefined_nodes, "stack frame has", "stack frames have") +
                " two different definitions; the first is used");
  return damage;
}

void add_heap_notes(const IntegrityInput& input, const model::Profile& profile, bool complete,
                    std::vector<std::string>& notes) {
  const bool unrecorded =
      std::ranges::any_of(input.definitions.notes, [](const auto& note) { return note.is_about_unrecorded(); });
  const std::string because = unrecorded ? ", perhaps because some calls were not recorded" : "";
  if (profile.heap.unmatched_frees != 0) {
    std::string why = " of blocks whose allocation is not in the trace";
    if (profile.recording.forked_child) why += ": they were allocated before the fork";
    else if (input.paused_once) why += ": recording was paused meanwhile";
    else if (!complete) why += ", parts of which are lost";
    else why += because;
    notes.push_back(count_of(profile.heap.unmatched_frees, "free", "frees") + why);
  }
  if (profile.heap.implied_frees != 0)
    notes.push_back(count_of(profile.heap.implied_frees, "free is", "frees are") +
                    " not in the trace: the address was allocated again" + because);
}

}  // namespace

model::Integrity integrity_of(const IntegrityInput& input, const model::Profile& profile) {
  model::Integrity integrity;
  integrity.ended_by = input.file.ended_by();
  describe_end(input.file.header(), integrity);
  const trace::Damage damage = all_damage(input, profile.recording);
  integrity.complete = !damage.incomplete;
  integrity.bytes_damaged = damage.bytes;
  integrity.events_lost = damage.events_lost;

  std::vector<std::string>& notes = integrity.notes;
  for (const trace::Note& note : input.definitions.notes) notes.push_back(note.text);
  notes.insert(notes.end(), damage.notes.begin(), damage.notes.end());
  if (damage.notes_left_out != 0)
    notes.push_back(count_of(damage.notes_left_out, "further note", "further notes") + " about damage left out");
  if (input.threads_merged)
    notes.push_back("the threads exceed the " + std::to_string(trace::max_threads(input.file.bytes())) +
                    " that a file of this size can hold; further ones are shown as '(other threads)'");
  if (input.thread_names_left_out)
    notes.push_back("the names of threads exceed what a file of this size can hold; further ones are left out");
  if (input.bad_events != 0)
    notes.push_back(count_of(input.bad_events, "event", "events") + " without an address ignored");
  if (input.unfinished != 0)
    notes.push_back(count_of(input.unfinished, "call", "calls") +
                    " of realloc, munmap or mremap did not return before the end: not counted");
  add_heap_notes(input, profile, integrity.complete, notes);
  return integrity;
}

model::Integrity integrity_of(const trace::TraceFile& file, const trace::TraceSummary& summary) {
  trace::Damage damage = summary.damage;
  // A replay of a compacted trace finds what the copy lacks; the original's damage is in the summary inside.
  if (file.compacted() != nullptr) damage.add(file.compacted()->summary->damage);
  model::Profile profile;
  profile.recording.tail_not_kill_safe = (file.header().flags & kHeaderTailNotKillSafe) != 0;
  return integrity_of({.file = file, .stream_damage = damage, .definitions = summary.definitions}, profile);
}

}  // namespace heapprof::replay
