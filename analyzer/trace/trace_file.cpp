#include "analyzer/trace/trace_file.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "analyzer/trace/events/limits.h"
#include "common/checksum.h"
#include "common/event_codec.h"

namespace heapprof::trace {
namespace {

constexpr std::uint32_t kMaxUnitBytes = 1 << 20;
constexpr std::uint64_t kMinStreamLimit = 4096;

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t to) noexcept {
  return (value + to - 1) / to * to;
}

std::string at_byte(std::uint64_t at) { return "byte " + std::to_string(at); }

/// Why a file that does not begin like a trace is none, as the rest of a sentence.
std::string what_instead(const unsigned char* bytes, std::size_t size) {
  const auto begins = [&](std::string_view with) {
    return size >= with.size() && std::memcmp(bytes, with.data(), with.size()) == 0;
  };
  if (begins("\x89HPRF") || begins(std::string_view("\x09HPRF", 5)))
    return "was a heapprof trace, but a transfer as text has damaged it; copy it again in binary mode";
  if (begins("\x1f\x8b") || begins("\x28\xb5\x2f\xfd") || begins("\xfd" "7zXZ") || begins("BZh"))
    return "is compressed; uncompress it first";
  if (std::all_of(bytes, bytes + size, [](unsigned char c) { return c == 0; }))
    return "holds nothing: its program ended before recording had begun";
  if (begins("\x7f" "ELF")) return "is a program or library, not a trace; 'heapprof record' makes a trace of it";
  const bool text = std::all_of(bytes, bytes + size, [](unsigned char c) {
    return (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\r' || c == '\t';
  });
  return text ? "is a text file, not a heapprof trace" : "is not a heapprof trace";
}

/// "trace version 3.0".
std::string version_of(const FileHeader& header) {
  return "trace version " + std::to_string(header.version_major) + "." + std::to_string(header.version_minor);
}

/// What of [begin, end) is not zero: the first such byte, and the one after the last; {end, end}: nothing.
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

/// The first sound frame at a multiple of 8 in [begin, end), or `end`.
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

}  // namespace

bool is_frame(const FrameHeader& header, std::uint64_t file_id, std::uint64_t offset, std::uint64_t end) noexcept {
  return header.magic == kFrameMagic && header.file_id == file_id &&
         header.header_checksum == checksum(&header, offsetof(FrameHeader, header_checksum)) &&
         header.header_bytes >= sizeof(FrameHeader) && header.stream != StreamId::kNone &&
         header.raw_bytes <= column_bytes_bound(kMaxBlockSlots) && header.payload_bytes <= kMaxExtentBytes &&
         header.record_count <= kMaxBlockSlots && header.event_count <= header.record_count &&
         offset + header.header_bytes + header.payload_bytes <= end;
}

TraceFile::TraceFile(const std::string& path) : input_(path) {
  read_header();
  symbols_ = find_symbols(input_, header_.file_id);
  if (header_.version_major == kCompactedVersionMajor) {
    open_compacted();
    return;
  }
  writer_ = find_writer(header_, input_);
  if (writer_ == Writer::kRecording && header_.end_kind != EndKind::kStopped)
    cut_ticks_ = ticks_now(header_).value_or(kNoCut);

  size_ = size_now();
  if (size_ < header_.file_bytes && writer_ != Writer::kRecording) {
    damage_.lost_unknown();
    damage_.note("the file ends at byte " + std::to_string(size_) + " and had " + std::to_string(header_.file_bytes) +
                 ": it was cut");
  }
  add_to_fingerprint(&header_, offsetof(FileHeader, mailbox));
  walk(true);
  size_ = size_now();
  walk(false);

  const bool tail_in_staging = (header_.flags & kHeaderTailNotKillSafe) == 0;
  for (auto& [id, one] : by_id_) {
    one.id = static_cast<StreamId>(id);
    if (writer_ == Writer::kRecording && tail_in_staging) {
      // Frames written after the block was copied; a stream that began after the copies is left out whole.
      std::erase_if(one.frames, [&](const FrameRef& frame) {
        return !one.has_staging || frame.sequence > one.staging_sequence;
      });
    }
    std::stable_sort(one.frames.begin(), one.frames.end(), [](const FrameRef& a, const FrameRef& b) {
      return a.sequence < b.sequence;
    });
    for (const FrameRef& frame : one.frames) frame_bytes_ += frame.bytes;
    if (!one.frames.empty() || one.has_staging) streams_.push_back(std::move(one));
  }
  by_id_.clear();
  if (streams_.empty() && writer_ != Writer::kRecording) {
    damage_.lost_unknown();
    damage_.note("holds no events at all: it was cut, or its program ended as recording began");
  }
}

void save(const Origin& origin, ByteWriter& out) {
  save(origin.damage, out);
  out.number(origin.writer == Writer::kExecuted ? 1 : origin.writer == Writer::kRecording ? 2 : 0);
  out.number(origin.streams);
  out.number(origin.bytes);
  out.number(origin.quantum);
  if (origin.writer == Writer::kRecording) out.number(origin.cut_ticks);
}

Origin load_origin(ByteReader& in) {
  constexpr std::uint64_t kMaxStreams = 1 << 20;
  Origin origin;
  origin.damage = load_damage(in);
  constexpr Writer kWriters[] = {Writer::kGone, Writer::kExecuted, Writer::kRecording};
  origin.writer = kWriters[in.number_up_to(std::size(kWriters) - 1)];
  origin.streams = static_cast<std::uint32_t>(in.number_up_to(kMaxStreams));
  origin.bytes = in.number();
  origin.quantum = in.number();
  if (origin.quantum == 0) throw FormatError("its unit of time is nothing");
  if (origin.writer == Writer::kRecording) origin.cut_ticks = in.number();
  in.expect_end();
  return origin;
}

void TraceFile::open_compacted() {
  size_ = size_now();
  auto compacted = std::make_shared<Compacted>();
  compacted->sections = walk_sections(input_, header_.file_id, header_.header_bytes, size_);
  const SectionTable& sections = compacted->sections;
  try {
    if (sections.wholes.empty() || sections.origins.empty())
      throw FormatError("the section that tells what it holds is damaged");
    const std::vector<std::uint8_t> whole = read_contents(input_, sections.wholes.front());
    ByteReader whole_in(whole);
    compacted->whole = std::make_shared<const Whole>(load_whole(whole_in, header_));
    const std::vector<std::uint8_t> contents = read_contents(input_, sections.origins.front());
    ByteReader in(contents);
    const Origin origin = load_origin(in);
    damage_ = origin.damage;
    writer_ = origin.writer;
    cut_ticks_ = origin.cut_ticks;
    // Every stream has its thread's text in a chunk.
    if (origin.streams > kMinStreamLimit + size_)
      throw FormatError("it claims more streams than a file of its size can hold");
    streams_.resize(origin.streams);
    compacted->original_bytes = origin.bytes;
    compacted->quantum = origin.quantum;
    compacted->exact = (header_.flags & kHeaderRounded) == 0;
  } catch (const FormatError& error) {
    throw TraceError(input_.path() + ": a compacted trace that cannot be read: " + error.what());
  }
  std::uint64_t records = 0;
  std::uint64_t events = 0;
  for (const Section& chunk : sections.chunks) {
    frame_bytes_ += chunk.header.payload_bytes;
    records += chunk.header.number;
    events += chunk.header.events;
  }
  if (records < compacted->whole->records) {
    if (sections.end < size_) damage_.damaged(sections.end, size_ - sections.end, "no section begins here");
    damage_.lost_events(compacted->whole->events > events ? compacted->whole->events - events : 0);
    damage_.note("the compacted file ends at byte " + std::to_string(sections.end) + ", before its last events");
  }
  compacted_ = std::move(compacted);
}

void TraceFile::read_header() {
  const std::size_t got = input_.read(0, &header_, sizeof header_);
  const std::string& path = input_.path();
  if (got == 0)
    throw TraceError(path + ": is empty; nothing was recorded into it (is the disk full?)");
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header_);
  if (std::memcmp(bytes, kFileMagic, std::min(got, sizeof kFileMagic)) != 0)
    throw TraceError(path + ": " + what_instead(bytes, std::min<std::size_t>(got, 512)));
  if (got < offsetof(FileHeader, zero_1))
    throw TraceError(path + ": ends after " + std::to_string(got) + " bytes, within its header");
  if (got < sizeof header_) {
    damage_.lost_unknown();
    damage_.note("the file ends after " + std::to_string(got) + " bytes, within its header");
  }
  // Nothing in a header is believed before its checksum is known to be right, the version included.
  const bool sound = header_.checksum == checksum(&header_, offsetof(FileHeader, checksum));
  if (!sound) return recover_header();
  if (header_.version_major > kCompactedVersionMajor)
    throw TraceError(path + ": " + version_of(header_) + ", but this heapprof reads versions up to " +
                     std::to_string(kCompactedVersionMajor) + ".x; use a newer heapprof");
  // The unit is the larger of 4096 bytes and the page of the machine that recorded.
  const std::uint32_t unit = header_.unit_bytes;
  if (unit < kUnitBytes || (unit & (unit - 1)) != 0 || unit > kMaxUnitBytes || header_.slot_bytes != sizeof(Slot) ||
      header_.header_bytes < unit || header_.header_bytes % unit != 0)
    throw TraceError(path + ": has units of " + std::to_string(header_.unit_bytes) + " and slots of " +
                     std::to_string(header_.slot_bytes) + " bytes, which this heapprof cannot read");
}

/// The header's checksum is wrong. Extents hold the file's id under checksums of their own; only traces of version 1
/// have extents of events, so the version is known, too.
void TraceFile::recover_header() {
  damage_.damaged(0, offsetof(FileHeader, zero_1), "header checksum");
  if (!recover_file_id()) {
    const std::string& path = input_.path();
    if (header_.version_major > kCompactedVersionMajor)
      throw TraceError(path + ": " + version_of(header_) + " and a wrong header checksum: it is damaged, or needs a "
                       "newer heapprof (this one reads versions up to " + std::to_string(kCompactedVersionMajor) +
                       ".x)");
    throw TraceError(path + ": its header is damaged, and no intact part follows it; nothing was recovered");
  }
  header_.version_major = kVersionMajor;
  header_.version_minor = kVersionMinor;
  // The smallest unit finds the extents of larger ones as well.
  header_.unit_bytes = kUnitBytes;
  header_.slot_bytes = sizeof(Slot);
  header_.header_bytes = kUnitBytes;
  // Whatever a damaged header says of the process is not believed.
  header_.process_start = 0;
}

/// Takes the file's id from the first sound extent of events. False: there is none.
bool TraceFile::recover_file_id() {
  const std::uint64_t size = input_.size();
  for (std::uint64_t at = kUnitBytes; at < size; at += kUnitBytes) {
    ExtentHeader header;
    if (!input_.read_all(at, &header, sizeof header)) break;
    if (header.magic != kExtentMagic || header.offset != at || header.kind == ExtentKind::kSymbols ||
        header.checksum != checksum(&header, offsetof(ExtentHeader, checksum)))
      continue;
    header_.file_id = header.file_id;
    return true;
  }
  return false;
}

bool TraceFile::is_extent(const ExtentHeader& header, std::uint64_t offset) const noexcept {
  return header.magic == kExtentMagic && header.file_id == header_.file_id && header.offset == offset &&
         header.checksum == checksum(&header, offsetof(ExtentHeader, checksum)) && header.bytes != 0 &&
         header.bytes % header_.unit_bytes == 0 && header.bytes <= kMaxExtentBytes &&
         header.stream != StreamId::kNone;
}

void TraceFile::add_to_fingerprint(const void* bytes, std::size_t size) noexcept {
  const std::uint64_t both[] = {fingerprint_, checksum(bytes, size)};
  fingerprint_ = checksum(both, sizeof both);
}

void TraceFile::walk(bool staging_pass) {
  std::uint64_t unclaimed = 0;  // where the units that no extent claims begin; 0: none are open
  const auto close_unclaimed = [&](std::uint64_t end) {
    if (unclaimed != 0 && !staging_pass) search_unclaimed(unclaimed, end);
    unclaimed = 0;
  };
  const std::uint32_t unit = header_.unit_bytes;
  std::uint64_t at = header_.header_bytes;
  while (at < size_) {
    ExtentHeader header;
    if (!input_.read_all(at, &header, sizeof header) || !is_extent(header, at)) {
      if (unclaimed == 0) unclaimed = at;
      at += unit;
      continue;
    }
    close_unclaimed(at);
    const std::uint64_t end = at + header.bytes;
    if (end > size_ && !staging_pass && header.kind == ExtentKind::kSymbols) {
      damage_.note("the file ends within the names that it carried: it was cut, and they are not used");
    } else if (end > size_ && !staging_pass && writer_ != Writer::kRecording) {
      damage_.lost_unknown();
      damage_.note("the file ends at byte " + std::to_string(size_) + ", within an extent that reaches to byte " +
                   std::to_string(end) + ": it was cut");
    }
    if (header.kind == ExtentKind::kStaging && staging_pass) copy_staging(header);
    if (header.kind == ExtentKind::kFrames && !staging_pass)
      index_frames(at + sizeof header, std::min(end, size_), header.stream);
    at = end;
  }
  close_unclaimed(size_);
}

void TraceFile::copy_staging(const ExtentHeader& extent) {
  const std::uint64_t commit_at = extent.offset + offsetof(StagingHeader, commit);
  const std::uint64_t slots_at = extent.offset + sizeof(StagingHeader);
  const std::uint32_t room =
      std::min<std::uint32_t>((extent.bytes - sizeof(StagingHeader)) / sizeof(Slot), kMaxBlockSlots);
  StreamIndex& into = stream(extent.stream);
  if (into.has_staging) damage_.note("stream " + std::to_string(raw(extent.stream)) + " has two staging blocks");

  // Slots under one sequence are written once, so a copy is good when the sequence is still the same after it.
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::uint64_t before = 0;
    if (!input_.read_all(commit_at, &before, sizeof before)) {
      damage_.lost_unknown();
      damage_.note(at_byte(extent.offset) + ": the file ends within a staging block");
      return;
    }
    std::uint32_t count = commit_slots(before);
    if (count > room) {
      damage_.damaged(commit_at, sizeof before, "commit word of a staging block");
      damage_.lost_unknown();
      return;
    }
    std::vector<Slot> slots(count);
    const std::size_t got = input_.read(slots_at, slots.data(), count * sizeof(Slot));
    if (got != count * sizeof(Slot)) {
      damage_.lost_events(count - got / sizeof(Slot));
      damage_.lost_unknown();
      damage_.note(at_byte(slots_at + got) + ": the file ends within a staging block");
      slots.resize(got / sizeof(Slot));
    }
    std::uint64_t after = 0;
    if (!input_.read_all(commit_at, &after, sizeof after)) after = before;
    if (commit_sequence(after) != commit_sequence(before)) continue;
    into.has_staging = true;
    into.staging_sequence = commit_sequence(before);
    into.staging = std::move(slots);
    into.staging_offset = slots_at;
    add_to_fingerprint(into.staging.data(), into.staging.size() * sizeof(Slot));
    return;
  }
  // The writer is faster than we are: the frames before its present block are a consistent state, too.
  std::uint64_t word = 0;
  into.has_staging = input_.read_all(commit_at, &word, sizeof word);
  into.staging_sequence = commit_sequence(word);
  into.staging.clear();
  into.staging_offset = slots_at;
}

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
    // A writer at work may have finished this one meanwhile.
    FrameHeader again;
    if (input_.read_all(at, &again, sizeof again) && is_frame(again, header_.file_id, at, end)) continue;
    if (next != end) {
      damage_.damaged(at, next - at, "frames of stream " + std::to_string(raw(of_stream)));
      at = next;
      continue;
    }
    // No frame follows. A magic of zero is where the writer stopped: what may lie behind was never committed.
    if (header.magic != 0) {
      const auto [first, last] = nonzero_range(input_, at, end);
      if (first != last) damage_.damaged(first, last - first, "frames of stream " + std::to_string(raw(of_stream)));
    }
    return found;
  }
  return found;
}

void TraceFile::search_unclaimed(std::uint64_t begin, std::uint64_t end) {
  end = std::min(end, size_);
  const auto [first, last] = nonzero_range(input_, begin, end);
  if (first == last) return;  // reserved, never used
  // An extent in the making: all there but its magic.
  const std::uint64_t unit = first / header_.unit_bytes * header_.unit_bytes;
  ExtentHeader header;
  if (input_.read_all(unit, &header, sizeof header) && header.magic == 0) {
    header.magic = kExtentMagic;
    const bool fits = header.file_id == header_.file_id && header.offset == unit;
    if (fits && (last <= unit + sizeof header || find_frame(input_, header_.file_id, unit + 8, end) == end)) return;
  }
  if (writer_ == Writer::kRecording) return;  // being written; newer than the cut
  const std::uint64_t bytes_before = damage_.bytes;
  const std::size_t frames = index_frames(first, last, StreamId::kNone);
  if (frames == 0) {
    if (damage_.bytes == bytes_before) damage_.damaged(first, last - first, "no extent begins here");
    // It may have held a staging block, or a stream of which nothing else is left.
    damage_.lost_unknown();
  }
}

std::string TraceFile::ended_by() const {
  switch (header_.end_kind) {
    case EndKind::kExit: return writer_ == Writer::kRecording ? "running" : "exit";
    case EndKind::kExec: return "exec";
    case EndKind::kSignal: return "signal";
    case EndKind::kStopped: return "stopped";
    case EndKind::kNone: break;
  }
  if (writer_ == Writer::kRecording) return "running";
  return writer_ == Writer::kExecuted ? "exec" : "unknown";
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
