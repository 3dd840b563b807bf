#include "analyzer/trace/trace_file.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "analyzer/trace/align.h"
#include "analyzer/trace/compact/origin.h"
#include "analyzer/trace/events/limits.h"
#include "analyzer/trace/files/read_header.h"
#include "analyzer/trace/recorder_process.h"
#include "common/checksum.h"
#include "common/event_codec.h"
#include "common/trace_header.h"

namespace heapprof::trace {
namespace {

constexpr std::uint32_t kMaxUnitBytes = 1 << 20;
constexpr std::uint64_t kMinStreamLimit = 4096;

std::string at_byte(std::uint64_t at) { return "byte " + std::to_string(at); }

/// What a file without the magic of a trace is instead, as the predicate of a sentence, and what to do. `size`: of
/// what there is of `header`.
std::string describe_other_file(const FileHeader& header, std::size_t size) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&header);
  const auto begins = [&](std::string_view with) {
    return size >= with.size() && std::memcmp(bytes, with.data(), with.size()) == 0;
  };
  if (begins("\x89HPRF") || begins(std::string_view("\x09HPRF", 5)))
    return "is a heapprof trace that a transfer in text mode has damaged; copy it again in binary mode";
  if (begins("\x1f\x8b") || begins("\x28\xb5\x2f\xfd") ||
      begins("\xfd"
             "7zXZ") ||
      begins("BZh"))
    return "is compressed; decompress it first";
  if (std::all_of(bytes, bytes + size, [](unsigned char c) { return c == 0; }))
    return "contains only zeros: its program ended before recording began";
  if (size == sizeof header && is_unfinished(header))
    return "has no complete header: its program ended before recording began";
  if (begins("\x7f"
             "ELF"))
    return "is a program or library, not a trace; record it with 'heapprof record'";
  const bool text = std::all_of(bytes, bytes + size, [](unsigned char c) {
    return (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\r' || c == '\t';
  });
  return text ? "is a text file, not a heapprof trace" : "is not a heapprof trace";
}

/// The newest major version that this reader supports.
constexpr std::uint16_t kNewestVersionMajor = kVersionMajor;
static_assert(kNewestVersionMajor > kCompactedVersionMajor && kNewestVersionMajor > kOldVersionMajor);

/// "trace version 3.0".
std::string version_of(const FileHeader& header) {
  return "trace version " + std::to_string(header.version_major) + "." + std::to_string(header.version_minor);
}

/// The offsets of the first byte in [begin, end) that is not zero, and of the byte after the last such byte;
/// {end, end}: all bytes are zero.
std::pair<std::uint64_t, std::uint64_t> nonzero_range(const InputFile& input, std::uint64_t begin,
                                                      std::uint64_t end) {
  constexpr std::size_t kChunk = 1 << 18;
  const auto buffer = std::make_unique_for_overwrite<unsigned char[]>(std::min<std::uint64_t>(kChunk, end - begin));
  std::uint64_t first = end;
  std::uint64_t last = end;
  for (std::uint64_t at = begin; at < end;) {
    const std::size_t got = input.read(at, buffer.get(), std::min<std::uint64_t>(kChunk, end - at));
    if (got == 0) break;
    const auto is_set = [](unsigned char c) { return c != 0; };
    const unsigned char* const stop = buffer.get() + got;
    const unsigned char* const found = std::find_if(buffer.get(), const_cast<unsigned char*>(stop), is_set);
    if (found != stop) {
      if (first == end) first = at + static_cast<std::uint64_t>(found - buffer.get());
      const unsigned char* back = stop;
      while (!is_set(back[-1])) --back;
      last = at + static_cast<std::uint64_t>(back - buffer.get());
    }
    at += got;
  }
  return {first, last};
}

}  // namespace

bool is_frame(const FrameHeader& header, std::uint64_t file_id, std::uint64_t offset, std::uint64_t end) noexcept {
  return header.magic == kFrameMagic && header.file_id == file_id &&
         header.header_checksum == header_checksum(header) && header.header_bytes >= sizeof(FrameHeader) &&
         header.stream != StreamId::kNone && header.raw_bytes <= column_bytes_bound(kMaxBlockSlots) &&
         header.payload_bytes <= kMaxExtentBytes && header.record_count <= kMaxBlockSlots &&
         header.event_count <= header.record_count && offset + header.header_bytes + header.payload_bytes <= end;
}

std::uint64_t find_frame(const InputFile& input, std::uint64_t file_id, std::uint64_t begin, std::uint64_t end) {
  constexpr std::size_t kChunk = 1 << 18;
  const auto buffer = std::make_unique_for_overwrite<unsigned char[]>(std::min<std::uint64_t>(kChunk, end - begin));
  std::uint64_t at = align_up(begin, 8);
  while (at + sizeof(FrameHeader) <= end) {
    const std::size_t got = input.read(at, buffer.get(), std::min<std::uint64_t>(kChunk, end - at));
    if (got < sizeof(FrameHeader)) break;
    std::size_t i = 0;
    for (; i + sizeof(FrameHeader) <= got; i += 8) {
      std::uint32_t magic;
      std::memcpy(&magic, buffer.get() + i, sizeof magic);
      if (magic != kFrameMagic) continue;
      FrameHeader header;
      std::memcpy(&header, buffer.get() + i, sizeof header);
      if (is_frame(header, file_id, at + i, end)) return at + i;
    }
    at += i;
  }
  return end;
}

bool is_extent(const ExtentHeader& extent, const FileHeader& of, std::uint64_t offset) noexcept {
  return extent.magic == kExtentMagic && extent.file_id == of.file_id && extent.offset == offset &&
         extent.checksum == header_checksum(extent) && extent.bytes != 0 && extent.bytes % of.unit_bytes == 0 &&
         extent.bytes <= kMaxExtentBytes && extent.stream != StreamId::kNone;
}

bool copy_staging_block(const InputFile& input, const ExtentHeader& extent, StreamIndex& into, Damage& damage,
                        bool note_truncation, std::uint64_t end) {
  const std::uint64_t commit_at = extent.offset + offsetof(StagingHeader, commit);
  const std::uint64_t slots_at = extent.offset + sizeof(StagingHeader);
  const std::uint32_t room =
      std::min<std::uint32_t>((extent.bytes - sizeof(StagingHeader)) / sizeof(Slot), kMaxBlockSlots);
  // Slots of one sequence are written once, so a copy is consistent when the sequence did not change meanwhile.
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::uint64_t before = 0;
    if (!input.read_all(commit_at, &before, sizeof before)) {
      damage.lost_unknown();
      if (note_truncation) damage.note(at_byte(extent.offset) + ": the file is truncated within a staging block");
      return false;
    }
    std::uint32_t count = commit_slots(before);
    if (count > room) {
      damage.damaged(commit_at, sizeof before, "commit word of a staging block");
      damage.lost_unknown();
      return false;
    }
    std::vector<Slot> slots(count);
    const std::uint64_t wanted = std::min(count * sizeof(Slot), std::max(end, slots_at) - slots_at);
    const std::size_t got = input.read(slots_at, slots.data(), wanted);
    if (got != count * sizeof(Slot)) {
      damage.lost_events(count - got / sizeof(Slot));
      damage.lost_unknown();
      if (note_truncation) damage.note(at_byte(slots_at + got) + ": the file is truncated within a staging block");
      slots.resize(got / sizeof(Slot));
    }
    std::uint64_t after = 0;
    if (!input.read_all(commit_at, &after, sizeof after)) after = before;
    if (commit_sequence(after) != commit_sequence(before)) continue;
    into.has_staging = true;
    into.staging_sequence = commit_sequence(before);
    into.staging = std::move(slots);
    into.staging_offset = slots_at;
    return true;
  }
  // The recorder is faster than this loop. The frames before its current block are a consistent state too.
  std::uint64_t word = 0;
  into.has_staging = input.read_all(commit_at, &word, sizeof word);
  into.staging_sequence = commit_sequence(word);
  into.staging.clear();
  into.staging_offset = slots_at;
  return into.has_staging;
}

TraceFile::TraceFile(const std::string& path, const FrameListSource& find_list)
    : input_(path), modified_ns_(input_.modified_ns()) {
  read_header();
  symbols_ = find_symbols(input_, header_.file_id);
  if (header_.version_major == kCompactedVersionMajor) open_compacted();
  else open_recording(find_list);
}

/// Whether nothing is damaged, as far as it was read, and nobody writes to the file.
bool TraceFile::is_final() const noexcept {
  // Without an end, the process may run where this one cannot see it (in another container), and the times of the
  // file do not show what it stores in pages that are mapped already.
  return recorder_ == RecorderState::kGone && header_.end_kind != EndKind::kNone && compacted_ == nullptr &&
         damage_.bytes == 0 && !damage_.incomplete && damage_.notes.empty();
}

std::optional<FrameList> TraceFile::frame_list() const {
  // The file's time of change has steps of some milliseconds: a change soon after the last one would not be noticed.
  constexpr std::chrono::milliseconds kMinAge{100};
  const std::chrono::nanoseconds age =
      std::chrono::system_clock::now().time_since_epoch() - std::chrono::nanoseconds(modified_ns_);
  if (!is_final() || streams_.empty() || age < kMinAge || input_.modified_ns() != modified_ns_) return std::nullopt;
  return FrameList{modified_ns_, fingerprint_, streams_};
}

/// False: the list is not one of this file as it is now.
bool TraceFile::take(FrameList list) {
  if (list.modified_ns != modified_ns_) return false;
  for (StreamIndex& one : list.streams)
    if (!input_.read_all(one.staging_offset, one.staging.data(), one.staging.size() * sizeof(Slot))) return false;
  for (const StreamIndex& one : list.streams)
    for (const FrameRef& frame : one.frames) frame_bytes_ += frame.bytes;
  fingerprint_ = list.fingerprint;
  streams_ = std::move(list.streams);
  opened_with_list_ = true;
  return true;
}

void TraceFile::open_recording(const FrameListSource& find_list) {
  recorder_ = find_recorder(header_, input_);
  if (recorder_ == RecorderState::kRecording && header_.end_kind != EndKind::kStopped)
    cut_ticks_ = ticks_now(header_).value_or(kNoCut);

  if (recorder_ == RecorderState::kGone)
    if (const std::string original = find_original(header_, input_); !original.empty())
      damage_.note("this file is a copy, made while the program ran; the program still runs, and its recording is " +
                   original);

  size_ = size_now();
  const bool header_truncated = size_ < sizeof header_;  // read_header() has added a note
  const bool truncated = size_ < header_.file_bytes && recorder_ != RecorderState::kRecording;
  if (truncated) damage_.lost_unknown();
  if (truncated && !header_truncated)
    damage_.note("the file is truncated at byte " + std::to_string(size_) + " of " +
                 std::to_string(header_.file_bytes));
  if (find_list && is_final())
    if (std::optional<FrameList> list = find_list(input_, header_, size_); list && take(std::move(*list))) return;
  add_to_fingerprint(&header_, offsetof(FileHeader, mailbox));
  if (recorder_ == RecorderState::kRecording) complete_clock_rate(header_);
  visit_extents(true);
  size_ = size_now();
  visit_extents(false);

  const bool tail_in_staging = (header_.flags & kHeaderTailNotKillSafe) == 0;
  for (auto& [id, one] : by_id_) {
    one.id = static_cast<StreamId>(id);
    if (recorder_ == RecorderState::kRecording && (tail_in_staging || one.has_staging)) {
      // Ignore frames that were written after the block was copied, and streams that began after all copies.
      std::erase_if(one.frames,
                    [&](const FrameRef& frame) { return !one.has_staging || frame.sequence > one.staging_sequence; });
    }
    std::stable_sort(one.frames.begin(), one.frames.end(),
                     [](const FrameRef& a, const FrameRef& b) { return a.sequence < b.sequence; });
    for (const FrameRef& frame : one.frames) frame_bytes_ += frame.bytes;
    if (!one.frames.empty() || one.has_staging) streams_.push_back(std::move(one));
  }
  by_id_.clear();
  if (streams_.empty() && recorder_ != RecorderState::kRecording) {
    damage_.lost_unknown();
    damage_.note(damage_.notes.empty()
                     ? "the file has no events: it is truncated, or its program ended when recording began"
                     : "the file has no events");
  }
}

void TraceFile::open_compacted() {
  size_ = size_now();
  auto compacted = std::make_shared<Compacted>();
  compacted->sections = walk_sections(input_, header_.file_id, header_.header_bytes, size_);
  const SectionTable& sections = compacted->sections;
  try {
    if (sections.summaries.empty()) throw FormatError("its trace summary is damaged");
    if (sections.origins.empty()) throw FormatError("its section about the original file is damaged");
    compacted->summary = std::make_shared<const TraceSummary>(read_summary(input_, sections, header_, size_));
    const std::vector<std::uint8_t> contents = read_contents(input_, sections.origins.front());
    ByteReader in(contents);
    const Origin origin = load_origin(in);
    damage_ = origin.damage;
    recorder_ = origin.recorder;
    cut_ticks_ = origin.cut_ticks;
    // Every stream has the text of its thread in a chunk.
    if (origin.streams > kMinStreamLimit + size_)
      throw FormatError("it claims more streams than a file of its size can contain");
    streams_.resize(origin.streams);
    compacted->original_bytes = origin.bytes;
    compacted->quantum = origin.quantum;
    compacted->exact = (header_.flags & kHeaderRounded) == 0;
    if (compacted->summary->nodes_left_out != 0) {
      // They have the numbers of nodes that were left out; commands read the events instead.
      for (std::vector<Section>* const of :
           {&compacted->sections.snapshots, &compacted->sections.pinned, &compacted->sections.totals})
        of->clear();
      damage_.lost_definitions();
      damage_.note(
          "the stacks exceed what a file of this size can hold; further ones are empty; compact the original "
          "recording again to keep them");
    }
  } catch (const FormatError& error) {
    throw TraceError(input_.path() + ": cannot be read as a compacted trace: " + error.what());
  }
  std::uint64_t records = 0;
  std::uint64_t events = 0;
  for (const Section& chunk : sections.chunks) {
    frame_bytes_ += chunk.header.payload_bytes;
    records += chunk.header.number;
    events += chunk.header.events;
  }
  if (records < compacted->summary->records) {
    if (sections.end < size_) damage_.damaged(sections.end, size_ - sections.end, "not a section");
    damage_.lost_events(compacted->summary->events > events ? compacted->summary->events - events : 0);
    damage_.note("no valid section at byte " + std::to_string(sections.end) + ": the last events are missing");
  }
  compacted_ = std::move(compacted);
}

void TraceFile::read_header() {
  const std::size_t got = trace::read_header(input_, header_);
  const std::string& path = input_.path();
  if (got == 0) throw TraceError(path + ": is empty: nothing was recorded; check whether the disk is full");
  if (std::memcmp(header_.magic, kFileMagic, std::min(got, sizeof kFileMagic)) != 0)
    throw TraceError(path + ": " + describe_other_file(header_, got));
  if (got < offsetof(FileHeader, zero_1))
    throw TraceError(path + ": truncated at byte " + std::to_string(got) + ", within its header");
  if (got < sizeof header_) {
    damage_.lost_unknown();
    damage_.note("the file is truncated at byte " + std::to_string(got) + ", within its header");
  }
  // Nothing in a header is used before its checksum was verified, not even the version.
  const bool valid = header_.checksum == header_checksum(header_);
  if (!valid) return recover_header();
  if (header_.version_major > kNewestVersionMajor)
    throw TraceError(path + ": " + version_of(header_) + ", but this heapprof reads versions up to " +
                     std::to_string(kNewestVersionMajor) + ".x; use a newer heapprof");
  // The unit is the larger of 4096 bytes and the page size of the machine that recorded.
  const std::uint32_t unit = header_.unit_bytes;
  if (unit < kUnitBytes || (unit & (unit - 1)) != 0 || unit > kMaxUnitBytes || header_.slot_bytes != sizeof(Slot) ||
      header_.header_bytes < unit || header_.header_bytes % unit != 0)
    throw TraceError(path + ": has units of " + std::to_string(header_.unit_bytes) + " bytes and slots of " +
                     std::to_string(header_.slot_bytes) + " bytes, which this heapprof does not support");
}

/// Continues when the header's checksum is wrong. Extents contain the file id under their own checksums, and only
/// recordings have extents with events. The codec of a frame shows how it is encoded. So both can be recovered.
void TraceFile::recover_header() {
  damage_.damaged(0, offsetof(FileHeader, zero_1), "header checksum");
  if (!recover_file_id()) {
    const std::string& path = input_.path();
    if (header_.version_major > kNewestVersionMajor)
      throw TraceError(path + ": " + version_of(header_) +
                       " with a wrong header checksum: it is damaged, or needs a "
                       "newer heapprof (this one reads versions up to " +
                       std::to_string(kNewestVersionMajor) + ".x)");
    throw TraceError(path + ": the header is damaged and no valid extent follows; 0 events recovered");
  }
  is_version_known_ = false;
  header_.version_major = kVersionMajor;
  header_.version_minor = kVersionMinor;
  // Searching at multiples of the smallest unit finds the extents of larger units too.
  header_.unit_bytes = kUnitBytes;
  header_.slot_bytes = sizeof(Slot);
  header_.header_bytes = kUnitBytes;
  // Without it find_recorder() does not look for the process.
  header_.process_start = 0;
}

/// Takes the file id from the first valid extent with events. False: there is none.
bool TraceFile::recover_file_id() {
  const std::uint64_t size = input_.size();
  for (std::uint64_t at = kUnitBytes; at < size; at += kUnitBytes) {
    ExtentHeader header;
    if (!input_.read_all(at, &header, sizeof header)) break;
    if (header.magic != kExtentMagic || header.offset != at || header.kind == ExtentKind::kSymbols ||
        header.checksum != header_checksum(header))
      continue;
    header_.file_id = header.file_id;
    return true;
  }
  return false;
}

void TraceFile::add_to_fingerprint(const void* bytes, std::size_t size) noexcept {
  const std::uint64_t both[] = {fingerprint_, checksum(bytes, size)};
  fingerprint_ = checksum(both, sizeof both);
}

/// Visits all extents: copies staging blocks (`staging_pass`), or indexes frames and searches the units between
/// extents.
void TraceFile::visit_extents(bool staging_pass) {
  std::uint64_t unclaimed = 0;  // start of the units in no extent that precede `at`; 0: there are none
  const auto close_unclaimed = [&](std::uint64_t end) {
    if (unclaimed != 0 && !staging_pass) search_unclaimed(unclaimed, end);
    unclaimed = 0;
  };
  const std::uint32_t unit = header_.unit_bytes;
  std::uint64_t at = header_.header_bytes;
  while (at < size_) {
    ExtentHeader header;
    if (!input_.read_all(at, &header, sizeof header) || !is_extent(header, header_, at)) {
      if (unclaimed == 0) unclaimed = at;
      at += unit;
      continue;
    }
    close_unclaimed(at);
    const std::uint64_t end = at + header.bytes;
    if (end > size_ && !staging_pass && header.kind == ExtentKind::kSymbols) {
      damage_.note("the file is truncated at byte " + std::to_string(size_) +
                   ", within its embedded symbols, which are not used");
    } else if (end > size_ && !staging_pass && recorder_ != RecorderState::kRecording) {
      damage_.lost_unknown();
      // Otherwise open_recording() has added a note.
      if (size_ >= header_.file_bytes)
        damage_.note("the file is truncated at byte " + std::to_string(size_) +
                     ", within an extent that ends at byte " + std::to_string(end));
    }
    if (header.kind == ExtentKind::kStaging && staging_pass) copy_staging(header);
    if (header.kind == ExtentKind::kFrames && !staging_pass)
      index_frames(at + sizeof header, std::min(end, size_), header.stream);
    at = end;
  }
  close_unclaimed(size_);
}

void TraceFile::copy_staging(const ExtentHeader& extent) {
  StreamIndex& into = stream(extent.stream);
  if (into.has_staging) damage_.note("stream " + std::to_string(raw(extent.stream)) + " has two staging blocks");
  // If the recorder is gone, visit_extents() or open_recording() adds the note about the truncation.
  if (copy_staging_block(input_, extent, into, damage_, recorder_ == RecorderState::kRecording,
                         symbols_ ? size_ : ~std::uint64_t{0}))
    add_to_fingerprint(into.staging.data(), into.staging.size() * sizeof(Slot));
  // A block has its begin at least. Where it is private memory at first, the recorder is moving it here now.
  if ((header_.flags & kHeaderTailNotKillSafe) != 0 && into.staging.empty()) into.has_staging = false;
}

/// Indexes the frames in [begin, end) and returns their number. `of_stream`: the stream of the extent; kNone:
/// unknown.
std::size_t TraceFile::index_frames(std::uint64_t begin, std::uint64_t end, StreamId of_stream) {
  std::size_t found = 0;
  std::uint64_t at = align_up(begin, 8);
  while (at + sizeof(FrameHeader) <= end) {
    FrameHeader header;
    if (!input_.read_all(at, &header, sizeof header)) break;
    if (is_frame(header, header_.file_id, at, end)) {
      if (of_stream != StreamId::kNone && header.stream != of_stream)
        damage_.note(at_byte(at) + ": a frame of stream " + std::to_string(raw(header.stream)) +
                     " in an extent of stream " + std::to_string(raw(of_stream)));
      const std::uint32_t bytes = header.header_bytes + header.payload_bytes;
      add_to_fingerprint(&header.header_checksum, sizeof header.header_checksum);
      stream(header.stream).frames.push_back({at, header.first_time, header.sequence, bytes});
      ++found;
      at = align_up(at + bytes, 8);
      continue;
    }
    const std::uint64_t next = find_frame(input_, header_.file_id, at + 8, end);
    // A running recorder may have completed this frame meanwhile.
    FrameHeader again;
    if (input_.read_all(at, &again, sizeof again) && is_frame(again, header_.file_id, at, end)) continue;
    if (next != end) {
      damage_.damaged(at, next - at, "frames of stream " + std::to_string(raw(of_stream)));
      at = next;
      continue;
    }
    // No frame follows. A magic of zero is where the recorder stopped: bytes after it were never committed.
    if (header.magic != 0) {
      const auto [first, last] = nonzero_range(input_, at, end);
      if (first != last) damage_.damaged(first, last - first, "frames of stream " + std::to_string(raw(of_stream)));
    }
    return found;
  }
  return found;
}

/// Looks for frames in units that belong to no extent.
void TraceFile::search_unclaimed(std::uint64_t begin, std::uint64_t end) {
  end = std::min(end, size_);
  const auto [first, last] = nonzero_range(input_, begin, end);
  if (first == last) return;  // reserved, never used
  // The recorder was killed while it wrote an extent's header: all fields are there except the magic.
  const std::uint64_t unit = first / header_.unit_bytes * header_.unit_bytes;
  ExtentHeader header;
  if (input_.read_all(unit, &header, sizeof header) && header.magic == 0) {
    header.magic = kExtentMagic;
    const bool ours = header.file_id == header_.file_id && header.offset == unit;
    if (ours && (last <= unit + sizeof header || find_frame(input_, header_.file_id, unit + 8, end) == end)) return;
  }
  if (recorder_ == RecorderState::kRecording) return;  // written after the cut
  const std::uint64_t bytes_before = damage_.bytes;
  const std::size_t frames = index_frames(first, last, StreamId::kNone);
  if (frames == 0) {
    if (damage_.bytes == bytes_before) damage_.damaged(first, last - first, "not an extent");
    // The bytes may have been a staging block, or all that is left of a stream.
    damage_.lost_unknown();
  }
}

std::string TraceFile::ended_by() const {
  switch (header_.end_kind) {
    case EndKind::kExit: return recorder_ == RecorderState::kRecording ? "running" : "exit";
    case EndKind::kExec: return "exec";
    case EndKind::kSignal: return "signal";
    case EndKind::kStopped: return "stopped";
    case EndKind::kNone: break;
  }
  if (recorder_ == RecorderState::kRecording) return "running";
  return recorder_ == RecorderState::kExecuted ? "exec" : "unknown";
}

std::vector<std::pair<std::string, std::string>> TraceFile::settings() const {
  std::vector<std::pair<std::string, std::string>> result;
  const std::string text(header_.settings, ::strnlen(header_.settings, sizeof header_.settings));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) result.emplace_back(line.substr(0, equals), line.substr(equals + 1));
    at = end + 1;
  }
  return result;
}

}  // namespace heapprof::trace
