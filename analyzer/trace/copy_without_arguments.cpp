#include "analyzer/trace/copy_without_arguments.h"

#include <algorithm>
#include <cstring>
#include <lz4.h>
#include <lz4hc.h>
#include <span>
#include <string>
#include <vector>

#include "analyzer/trace/events/limits.h"
#include "analyzer/trace/frame_reader.h"
#include "common/checksum.h"
#include "common/event_codec.h"
#include "common/trace_header.h"

namespace heapprof::trace {
namespace {

using Bytes = std::span<std::uint8_t>;
using Write = std::function<void(std::string_view)>;

constexpr std::uint8_t kMasked = 0xff;
constexpr std::size_t kChunk = 1 << 20;

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void mask(Bytes bytes) {
  for (std::uint8_t& byte : bytes) byte = byte == 0 ? 0 : kMasked;
}

/// Replaces all arguments but the first, the program, by zeros. False: there are none.
bool clear_arguments(Bytes command_line) {
  const auto program_end = std::find(command_line.begin(), command_line.end(), 0);
  if (std::all_of(program_end, command_line.end(), [](std::uint8_t byte) { return byte == 0; })) return false;
  std::fill(program_end, command_line.end(), 0);
  return true;
}

bool is_command_line(const Slot& slot) {
  return slot.op() == Op::kText && slot.node == static_cast<std::uint32_t>(TextKind::kCommandLine);
}

/// The same in the columns of a frame. False: nothing was changed.
bool clear_arguments_in_columns(ColumnFormat format, Bytes raw, std::uint64_t first_time,
                                std::uint32_t record_count) {
  FrameColumns columns;
  if (!split_columns(raw.data(), raw.size(), columns)) {
    std::fill(raw.begin(), raw.end(), kMasked);  // the same error
    return true;
  }
  if (columns.begin[kText] == columns.end[kText]) return false;
  bool changed = false;
  const auto writable = [&](const std::uint8_t* at) { return raw.data() + (at - raw.data()); };
  const std::uint8_t* text_end = columns.begin[kText];
  const std::uint8_t* head_at = columns.begin[kHead];
  const std::uint8_t* rare = columns.begin[kRare];
  const auto skip_rare = [&](bool is_used) {
    std::uint64_t unused = 0;
    if (is_used) rare = get_varint(rare, columns.end[kRare], unused);
  };
  const DecodeError error = decode_columns(
      format, raw.data(), raw.size(), first_time, record_count, [&](const Slot& slot, const std::uint8_t* text) {
        std::uint64_t head = 0;
        head_at = get_varint(head_at, columns.end[kHead], head);
        if (format == ColumnFormat::kCurrent && is_node_differences(head)) {
          for (const std::uint64_t flag : {kNodeHasNumber, kNodeHasParent, kNodeHasModule})
            skip_rare((head >> 2 & flag) != 0);
          return skip_rare(true);  // the offset
        }
        const OpFields fields = fields_of(slot.op());
        skip_rare(fields.size);
        const std::uint8_t* const address = rare;
        skip_rare(fields.address);
        skip_rare(fields.node);
        skip_rare(fields.aux);
        if (text == nullptr) return;
        text_end = text + slot.aux;
        if (!is_command_line(slot) || !clear_arguments({writable(text), slot.aux})) return;
        *writable(address) |= kCommandLineOmitted;  // the first byte of a varint has the lowest bits
        changed = true;
      });
  if (error == DecodeError::kNone) return changed;
  mask({writable(text_end), columns.end[kText]});  // no record of these was decoded
  return true;
}

/// The same in the slots of a staging block. Those that readers take for damaged are masked: a text that follows a
/// damaged slot is read as slots.
void clear_arguments_in_slots(std::span<Slot> slots) {
  std::uint64_t last_time = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots[i];
    // As in StreamDecoder::load_staging().
    if (slot.op() == Op::kNone || slot.op() > Op::kLast || slot.time < last_time ||
        (i == 0) != (slot.op() == Op::kBlockStart)) {
      mask({reinterpret_cast<std::uint8_t*>(&slot), sizeof slot});
      continue;
    }
    const Bytes rest(reinterpret_cast<std::uint8_t*>(&slot + 1), (slots.size() - i - 1) * sizeof(Slot));
    if (slot.op() != Op::kText) {
      last_time = slot.time;
    } else if (slot.aux <= kMaxTextBytes && slot.aux <= rest.size()) {
      last_time = slot.time;
      const std::size_t used = text_slots(slot.aux);
      const Bytes unused = rest.subspan(slot.aux, used * sizeof(Slot) - slot.aux);
      std::fill(unused.begin(), unused.end(), 0);  // what an earlier block had there
      if (is_command_line(slot) && clear_arguments(rest.first(slot.aux))) slot.address |= kCommandLineOmitted;
      i += used;
    } else if (is_command_line(slot)) {
      mask(rest);  // truncated
      return;
    }
  }
}

/// Copies a recording in the order of the file.
class RecordingCopy {
 public:
  RecordingCopy(const TraceFile& trace, const Write& write) : trace_(trace), write_(write) {}

  std::uint64_t run() {
    find_pieces();
    for (const Piece& piece : pieces_) {
      if (piece.offset < done_ || piece.offset >= trace_.bytes()) continue;
      copy_masked(piece.offset);
      const std::uint64_t bytes = std::min(piece.bytes, trace_.bytes() - piece.offset);
      switch (piece.kind) {
        case Kind::kPlain: emit(read(bytes)); break;
        case Kind::kUnknown: emit(std::vector<std::uint8_t>(bytes, 0)); break;
        case Kind::kSlots: copy_slots(bytes, piece.bytes); break;
        case Kind::kFrame: copy_frame(piece); break;
      }
    }
    copy_masked(trace_.bytes());
    return done_;
  }

 private:
  enum class Kind : std::uint8_t { kPlain, kUnknown, kSlots, kFrame };
  /// What readers decode; everything between pieces is masked.
  struct Piece {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    Kind kind = Kind::kPlain;
    std::uint32_t stream = 0;  ///< of a frame: index in TraceFile::streams()
    std::uint32_t frame = 0;
  };

  void find_pieces() {
    const FileHeader& header = trace_.header();
    pieces_.push_back({.bytes = sizeof header});
    for (std::uint64_t at = header.header_bytes; at < trace_.bytes();) {
      ExtentHeader extent;
      if (!trace_.input().read_all(at, &extent, sizeof extent)) break;
      const bool is_valid = is_extent(extent, header, at);
      // If the recorder was killed while it wrote the header, readers recognize it by these fields.
      const bool is_unfinished = extent.magic == 0 && extent.file_id == header.file_id && extent.offset == at;
      if (is_valid || is_unfinished) pieces_.push_back({.offset = at, .bytes = sizeof extent});
      if (!is_valid) {
        at += header.unit_bytes;
        continue;
      }
      const Kind kind = extent.kind == ExtentKind::kStaging ? Kind::kSlots : Kind::kUnknown;
      if (extent.kind != ExtentKind::kFrames)
        pieces_.push_back({.offset = at + sizeof extent, .bytes = extent.bytes - sizeof extent, .kind = kind});
      at += extent.bytes;
    }
    for (std::uint32_t stream = 0; stream < trace_.streams().size(); ++stream) {
      const std::vector<FrameRef>& frames = trace_.streams()[stream].frames;
      for (std::uint32_t i = 0; i < frames.size(); ++i)
        pieces_.push_back({frames[i].offset, frames[i].bytes, Kind::kFrame, stream, i});
    }
    std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  }

  void emit(std::span<const std::uint8_t> bytes) {
    write_(text_of(bytes));
    done_ += bytes.size();
  }

  /// The next bytes of the trace.
  std::vector<std::uint8_t> read(std::size_t bytes) const {
    std::vector<std::uint8_t> result(bytes);
    if (!trace_.input().read_all(done_, result.data(), bytes)) fail("cannot be read");
    return result;
  }
  [[noreturn]] void fail(const char* what) const {
    throw TraceError(trace_.input().path() + ": " + what + " at byte " + std::to_string(done_));
  }

  void copy_masked(std::uint64_t end) {
    while (done_ < end) {
      std::vector<std::uint8_t> bytes = read(std::min<std::uint64_t>(kChunk, end - done_));
      mask(bytes);
      emit(bytes);
    }
  }

  /// Commit word and slots of a staging block, which has `extent_bytes` there if the file is not truncated.
  void copy_slots(std::size_t size, std::uint64_t extent_bytes) {
    constexpr std::size_t kBefore = sizeof(StagingHeader) - sizeof(ExtentHeader);
    std::vector<std::uint8_t> bytes = read(size);
    std::uint64_t commit = 0;
    std::vector<Slot> slots;
    if (size > kBefore) {
      std::memcpy(&commit, bytes.data(), sizeof commit);
      const std::uint64_t room = std::min<std::uint64_t>((extent_bytes - kBefore) / sizeof(Slot), kMaxBlockSlots);
      const std::size_t there = (size - kBefore) / sizeof(Slot);
      if (commit_slots(commit) <= room) slots.resize(std::min<std::size_t>(there, commit_slots(commit)));
      std::memcpy(slots.data(), bytes.data() + kBefore, slots.size() * sizeof(Slot));
      clear_arguments_in_slots(slots);
      std::fill(bytes.begin() + kBefore, bytes.end(), 0);
      std::memcpy(bytes.data() + kBefore, slots.data(), slots.size() * sizeof(Slot));
    }
    emit(bytes);
  }

  void copy_frame(const Piece& piece) {
    const StreamIndex& stream = trace_.streams()[piece.stream];
    const FrameReader::Result result =
        reader_.read(trace_.input(), trace_.file_id(), stream.id, stream.frames[piece.frame]);
    if (result == FrameReader::Result::kChanged) fail("changed while it was read,");
    FrameHeader header = reader_.header();
    if (result == FrameReader::Result::kRead) {
      raw_.assign(reader_.columns(), reader_.columns() + header.raw_bytes);
      if (!clear_arguments_in_columns(column_format(header.codec), raw_, header.first_time, header.record_count))
        return emit(reader_.bytes());
      compress(header);
    } else {
      payload_.assign(header.payload_bytes, kMasked);
    }
    // A payload that readers refuse for its codec or compression must be refused for the same reason.
    if (result != FrameReader::Result::kWrongChecksum)
      header.payload_checksum = checksum(payload_.data(), payload_.size());
    header.header_checksum = header_checksum(header);
    std::vector<std::uint8_t> bytes(header.header_bytes, 0);
    std::memcpy(bytes.data(), &header, sizeof header);
    bytes.insert(bytes.end(), payload_.begin(), payload_.end());
    emit(bytes);
  }

  /// Sets the payload and its size in the header, so that the length of the frame is what it was.
  void compress(FrameHeader& header) {
    const std::size_t old_bytes = header.payload_bytes;
    if (header.codec == FrameCodec::kOldColumnsStored) {
      payload_ = raw_;
      return;
    }
    const auto raw_bytes = static_cast<int>(raw_.size());
    payload_.resize(static_cast<std::size_t>(LZ4_compressBound(raw_bytes)));
    // The recorder compresses fast. This level always needs less, unless another writer did as much.
    const int got =
        LZ4_compress_HC(reinterpret_cast<const char*>(raw_.data()), reinterpret_cast<char*>(payload_.data()),
                        raw_bytes, static_cast<int>(payload_.size()), LZ4HC_CLEVEL_MAX);
    payload_.resize(static_cast<std::size_t>(std::max(got, 0)));
    const std::size_t header_bytes = header.header_bytes + old_bytes - payload_.size();
    if (payload_.empty() || payload_.size() > old_bytes || header_bytes > UINT16_MAX)
      fail("the arguments of the program cannot be left out of the frame (--command-line copies them)");
    header.header_bytes = static_cast<std::uint16_t>(header_bytes);
    header.payload_bytes = static_cast<std::uint32_t>(payload_.size());
  }

  const TraceFile& trace_;
  const Write& write_;
  std::vector<Piece> pieces_;
  std::uint64_t done_ = 0;
  FrameReader reader_;
  std::vector<std::uint8_t> raw_;
  std::vector<std::uint8_t> payload_;
};

/// The summary without arguments; empty: it has none.
std::vector<std::uint8_t> summary_without_arguments(const TraceFile& trace, const Section& section) {
  const std::vector<std::uint8_t> contents = read_contents(trace.input(), section);
  ByteReader in(contents);
  TraceSummary summary = load_summary(in, trace.header(), trace.bytes());
  std::string& line = summary.definitions.command_line;
  if (!clear_arguments({reinterpret_cast<std::uint8_t*>(line.data()), line.size()})) return {};
  if (summary.nodes_left_out != 0)
    throw FormatError(
        "its stacks exceed what a file of this size can hold; bundle the original recording, or give --command-line");
  line.erase(line.find('\0'));
  summary.definitions.command_line_omitted = true;
  ByteWriter out;
  save(summary, out);
  SectionHeader header = section.header;
  constexpr int kLevel = 12;
  return make_section(header, out.bytes(), kLevel, section.header.payload_bytes);
}

std::uint64_t copy_compacted(const TraceFile& trace, const Write& write) {
  std::uint64_t done = 0;
  const auto emit = [&](std::span<const std::uint8_t> bytes) {
    write(text_of(bytes));
    done += bytes.size();
  };
  const auto copy = [&](std::uint64_t from, std::uint64_t end) {
    while (from < end) {
      std::vector<std::uint8_t> bytes(std::min<std::uint64_t>(kChunk, end - from));
      const std::size_t got = trace.input().read(from, bytes.data(), bytes.size());
      if (got == 0) throw TraceError(trace.input().path() + ": cannot be read at byte " + std::to_string(from));
      from += got;
      emit(std::span(bytes).first(got));
    }
  };
  const auto add_zeros = [&](std::uint64_t count) {
    for (std::uint64_t left = count; left != 0; left -= std::min<std::uint64_t>(left, kChunk))
      emit(std::vector<std::uint8_t>(std::min<std::uint64_t>(left, kChunk), 0));
  };
  const FileHeader& header = trace.header();
  copy(0, sizeof header);
  add_zeros(header.header_bytes - sizeof header);
  const std::uint64_t used_summary = trace.compacted()->sections.summaries.back().offset;
  std::uint64_t at = header.header_bytes;
  Section section;
  for (; read_section(trace.input(), trace.file_id(), at, trace.bytes(), section); at = next_section(section)) {
    if (!is_known(section.header.kind)) continue;
    if (section.header.kind == SectionKind::kSummary) {
      if (at != used_summary) continue;
      if (const std::vector<std::uint8_t> cleared = summary_without_arguments(trace, section); !cleared.empty()) {
        emit(cleared);
        continue;
      }
    }
    copy(at, std::min(next_section(section), trace.bytes()));
  }
  // Damaged: readers use only its length.
  if (at < trace.bytes()) add_zeros(trace.bytes() - at);
  return done;
}

}  // namespace

std::uint64_t copy_without_arguments(const TraceFile& trace, const Write& write) {
  if (trace.compacted() == nullptr) return RecordingCopy(trace, write).run();
  try {
    return copy_compacted(trace, write);
  } catch (const FormatError& error) {
    throw TraceError(trace.input().path() + ": " + error.what());
  }
}

}  // namespace heapprof::trace
