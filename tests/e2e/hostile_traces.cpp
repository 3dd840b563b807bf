// Writes small traces that would need much memory. Each also contains the same valid stream.
//
// usage: hostile_traces FOLDER    prints the number of allocations in the valid stream
#include <lz4.h>
#include <zstd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/trace/compact/section.h"
#include "common/checksum.h"
#include "common/event_codec.h"
#include "tests/support/python_text.h"
#include "tests/support/trace_builder.h"

namespace {

using namespace heapprof;
using test::TraceBuilder;

constexpr unsigned kValidAllocations = 1'000;
constexpr std::uint32_t kBlockRecords = 2'046;  // of a block of 64 KB
constexpr std::uint32_t kFirstHostileStream = 100;

void add_valid_stream(TraceBuilder& trace) {
  auto& stream = trace.stream();
  stream.thread(100, "sound");
  for (std::uint64_t i = 1; i <= kValidAllocations; ++i) stream.alloc(i * 10, 0x10000 + 16 * i, 8);
}

template <typename T>
void put(std::vector<std::uint8_t>& bytes, const T& value) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

/// Frames after the extents of a valid trace.
class Frames {
 public:
  /// Adds a frame of `records` records with these columns.
  void add(std::uint32_t stream, std::uint32_t sequence, const std::vector<std::uint8_t>& columns,
           std::uint32_t records, std::uint32_t events, FrameCodec codec = FrameCodec::kColumnsLz4) {
    std::vector<char> payload(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(columns.size()))));
    const int size = LZ4_compress_default(reinterpret_cast<const char*>(columns.data()), payload.data(),
                                          static_cast<int>(columns.size()), static_cast<int>(payload.size()));
    FrameHeader header{};
    header.magic = kFrameMagic;
    header.header_bytes = sizeof header;
    header.codec = codec;
    header.file_id = TraceBuilder::kFileId;
    header.stream = static_cast<StreamId>(stream);
    header.sequence = sequence;
    header.record_count = records;
    header.event_count = events;
    header.events_before = std::uint64_t{sequence} * events;
    header.last_time = 1'000'000;
    header.raw_bytes = static_cast<std::uint32_t>(columns.size());
    header.payload_bytes = static_cast<std::uint32_t>(size);
    header.payload_checksum = checksum(payload.data(), static_cast<std::size_t>(size));
    header.header_checksum = checksum(&header, offsetof(FrameHeader, header_checksum));
    put(bytes_, header);
    bytes_.insert(bytes_.end(), payload.begin(), payload.begin() + size);
    bytes_.resize((bytes_.size() + 7) / 8 * 8, 0);
  }
  std::size_t size() const { return bytes_.size(); }

  void write(const std::string& path) const {
    TraceBuilder trace;
    add_valid_stream(trace);
    std::vector<std::uint8_t> file = trace.bytes();
    // Extents of 1 MB would split frames, so all are outside extents, where a reader searches for frames too.
    file.insert(file.end(), bytes_.begin(), bytes_.end());
    file.resize((file.size() + kUnitBytes - 1) / kUnitBytes * kUnitBytes, 0);
    TraceBuilder::write_bytes(path, file);
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

std::vector<std::uint8_t> columns_of(const std::vector<Slot>& slots) {
  std::vector<std::uint8_t> columns(column_bytes_bound(slots.size()));
  columns.resize(encode_columns(slots.data(), static_cast<std::uint32_t>(slots.size()), columns.data()).raw_bytes);
  return columns;
}

/// Records of three bytes each, as in version 1: frees, the first at time 0, the others later.
std::vector<std::uint8_t> frees(std::uint32_t records) {
  std::uint8_t later[kMaxVarintBytes];
  const auto more = static_cast<std::uint32_t>(put_varint(later, 1'000'000) - later);
  std::vector<std::uint8_t> columns;
  for (const std::uint32_t size : {records, records - 1 + more, records, 0u, 0u, 0u}) put(columns, size);
  columns.resize(columns.size() + records + 1, 0);
  columns.insert(columns.end(), later, later + more);
  columns.resize(columns.size() + records - 2 + records, 0);
  return columns;
}

void write_large_frames(const std::string& path) {
  constexpr std::uint32_t kRecords = 5'000'000;
  Frames frames;
  const std::vector<std::uint8_t> columns = frees(kRecords);
  for (std::uint32_t i = 0; i < 40; ++i)
    frames.add(kFirstHostileStream + i, 0, columns, kRecords, kRecords, FrameCodec::kOldColumnsLz4);
  frames.write(path);
}

/// All streams are in the middle of a block at the same time.
void write_many_streams(const std::string& path) {
  std::vector<Slot> slots;
  for (std::uint64_t i = 0; i < kBlockRecords; ++i)
    slots.push_back({i == 0 ? 0u : 1'000'000u, 16 * (i + 1), op_size(Op::kFree, 0), 0, 0});
  Frames frames;
  const std::vector<std::uint8_t> columns = columns_of(slots);
  for (std::uint32_t i = 0; frames.size() < 4 << 20; ++i)
    frames.add(kFirstHostileStream + i, 0, columns, kBlockRecords, kBlockRecords);
  frames.write(path);
}

/// Repeats `text` until a block is full.
void write_texts(const std::string& path, TextKind kind, const std::string& text) {
  std::vector<Slot> slots;
  std::uint32_t records = 0;
  const std::uint32_t more = text_slots(static_cast<std::uint32_t>(text.size()));
  for (; slots.size() + 1 + more <= kBlockRecords; ++records) {
    slots.push_back(
        {0, 0, op_size(Op::kText, 7), static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(text.size())});
    slots.resize(slots.size() + more);
    std::memcpy(reinterpret_cast<char*>(&slots[slots.size() - more]), text.data(), text.size());
  }
  Frames frames;
  const std::vector<std::uint8_t> columns = columns_of(slots);
  for (std::uint32_t i = 0; frames.size() < 4 << 20; ++i) frames.add(kFirstHostileStream, i, columns, records, 0);
  frames.write(path);
}

/// Code objects of Python that differ in their first lines only, each with a table that begins a line at every second
/// byte, and a node for each, so that the tables are decoded.
void write_python(const std::string& path) {
  std::string table;
  while (table.size() + 128 < kMaxTextBytes) table.append("\x02\x01\x02\x7f");
  Frames frames;
  for (std::uint32_t i = 0; frames.size() < 4 << 20; ++i) {
    const std::string text = test::python_code_text("f", "n", i + 1, PythonLines::kLnotab, table);
    std::vector<Slot> slots{{0, 0, op_size(Op::kText, i + 1), static_cast<std::uint32_t>(TextKind::kPythonCode),
                             static_cast<std::uint32_t>(text.size())}};
    const std::uint32_t more = text_slots(static_cast<std::uint32_t>(text.size()));
    slots.resize(1 + more);
    std::memcpy(reinterpret_cast<char*>(&slots[1]), text.data(), text.size());
    slots.push_back(
        {0, python_offset(i + 1, 5), op_size(Op::kNode, std::uint64_t{raw(ModuleId::kPython)} << 32), i + 1, 0});
    frames.add(kFirstHostileStream, i, columns_of(slots), 2, 0);
  }
  frames.write(path);
}

/// Nodes that differ only in their numbers, as those of a recursion: a frame of 2046 of them takes some 130 bytes.
void write_nodes(const std::string& path) {
  Frames frames;
  std::uint32_t node = 0;
  for (std::uint32_t i = 0; frames.size() < 1 << 20; ++i) {
    std::vector<Slot> slots;
    for (; slots.size() < kBlockRecords; ++node)
      slots.push_back(
          {0, 0x1234, op_size(Op::kNode, (node % 1000 == 0 ? 0u : node) | std::uint64_t{2} << 32), node + 1, 0});
    frames.add(kFirstHostileStream, i, columns_of(slots), kBlockRecords, 0);
  }
  frames.write(path);
}

/// Calls that fail, each with another stack, which is not defined. As differences their stacks are equal.
void write_stacks(const std::string& path) {
  Frames frames;
  std::uint32_t node = 0;
  for (std::uint32_t i = 0; frames.size() < 1 << 20; ++i) {
    std::vector<Slot> slots;
    while (slots.size() < kBlockRecords) slots.push_back({0, 0, op_size(Op::kAllocFailed, 24), ++node, 0});
    frames.add(kFirstHostileStream, i, columns_of(slots), kBlockRecords, kBlockRecords);
  }
  frames.write(path);
}

std::string module_text() {
  const ModuleText fixed{0x1000, 0, 0, 0};
  return std::string(reinterpret_cast<const char*>(&fixed), sizeof fixed) + "/lib";
}

/// Adds a section of `bytes` bytes: `contents`, then zeros.
void add_section(std::vector<std::uint8_t>& file, trace::SectionKind kind, std::vector<std::uint8_t> contents,
                 std::size_t bytes, std::uint64_t events = kValidAllocations) {
  contents.resize(bytes, 0);
  std::vector<std::uint8_t> payload(ZSTD_compressBound(bytes));
  payload.resize(ZSTD_compress(payload.data(), payload.size(), contents.data(), bytes, 1));
  trace::SectionHeader header{};
  header.magic = trace::kSectionMagic;
  header.kind = kind;
  header.file_id = TraceBuilder::kFileId;
  header.number = kValidAllocations;
  header.events = events;
  header.last_time = 1'000'000;
  header.raw_bytes = bytes;
  header.payload_bytes = payload.size();
  header.payload_checksum = checksum(payload.data(), payload.size());
  header.header_checksum = checksum(&header, offsetof(trace::SectionHeader, header_checksum));
  put(file, header);
  file.insert(file.end(), payload.begin(), payload.end());
  file.resize((file.size() + 7) / 8 * 8, 0);
}

std::vector<std::uint8_t> compacted_header(std::uint32_t flags = 0) {
  TraceBuilder empty;
  empty.header.version_major = kCompactedVersionMajor;
  empty.header.flags = flags;
  return empty.bytes();
}

/// Adds a valid section of kind kSummary with `nodes` nodes, of two bytes each.
void add_summary(std::vector<std::uint8_t>& file, std::uint64_t nodes) {
  std::vector<std::uint8_t> contents(6 + 5, 0);            // times, counts, damage
  contents.insert(contents.end(), {1, 0, 0});              // the clock's first point
  contents.insert(contents.end(), {0, 0, 0, 0, 0, 0, 0});  // modules, texts, notes
  std::uint8_t count[kMaxVarintBytes];
  contents.insert(contents.end(), count, put_varint(count, nodes));
  const std::size_t bytes = contents.size() + 2 * nodes + 1;
  add_section(file, trace::SectionKind::kSummary, std::move(contents), bytes);
}

void write_compacted_nodes(const std::string& path) {
  std::vector<std::uint8_t> file = compacted_header();
  add_summary(file, 128 << 20);
  add_section(file, trace::SectionKind::kOrigin, {0, 1, 0, 0, 0, 0, 1, 100, 1}, 9);
  TraceBuilder::write_bytes(path, file);
}

/// Nodes that are not defined: two bytes of zeros each, as many as a small section can have.
void write_compacted_undefined(const std::string& path) {
  std::vector<std::uint8_t> file = compacted_header();
  add_summary(file, 8'000'000);
  add_section(file, trace::SectionKind::kOrigin, {0, 1, 0, 0, 0, 0, 1, 100, 1}, 9);
  TraceBuilder::write_bytes(path, file);
}

/// Writes a chunk that contains one stream two million times.
void write_compacted_streams(const std::string& path) {
  std::vector<std::uint8_t> file = compacted_header();
  add_summary(file, 1);
  add_section(file, trace::SectionKind::kOrigin, {0, 1, 0, 0, 0, 0, 1, 100, 1}, 9);
  std::uint8_t count[kMaxVarintBytes];
  constexpr std::uint64_t kTimes = 2'000'000;
  std::vector<std::uint8_t> contents{0, 0};
  contents.insert(contents.end(), count, put_varint(count, kTimes));
  const std::size_t streams_end = contents.size() + 7 * kTimes;
  contents.resize(streams_end, 0);
  contents.insert(contents.end(), {1, 0, 0, 0, 0});
  add_section(file, trace::SectionKind::kChunk, std::move(contents), streams_end + 5);
  TraceBuilder::write_bytes(path, file);
}

/// Writes a table of pinned memory with five million sets of one stack, of three bytes each.
void write_compacted_pinned(const std::string& path) {
  std::vector<std::uint8_t> file = compacted_header(kHeaderRounded);
  add_summary(file, 1);
  add_section(file, trace::SectionKind::kOrigin, {0, 1, 0, 0, 0, 0, 1, 100, 1}, 9);
  constexpr std::size_t kSets = 5'000'000;
  std::vector<std::uint8_t> contents{0, 0, 0, 1, 1, 0, 0, 1};  // no texts; one stack with one block
  std::uint8_t count[kMaxVarintBytes];
  contents.insert(contents.end(), count, put_varint(count, kSets));
  for (std::size_t i = 0; i < kSets; ++i) contents.insert(contents.end(), {1, 0, 1});
  const std::size_t bytes = contents.size();
  add_section(file, trace::SectionKind::kPinned, std::move(contents), bytes, 0);
  TraceBuilder::write_bytes(path, file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = std::string(argv[1]) + "/";
  write_large_frames(folder + "large_frames.heapprof");
  write_many_streams(folder + "many_streams.heapprof");
  write_texts(folder + "threads.heapprof", TextKind::kThread, "t");
  write_texts(folder + "long_names.heapprof", TextKind::kThread, std::string(kMaxTextBytes, 'n'));
  write_texts(folder + "marks.heapprof", TextKind::kMark, std::string(kMaxTextBytes, 'm'));
  write_texts(folder + "modules.heapprof", TextKind::kModule, module_text());
  write_python(folder + "python.heapprof");
  write_nodes(folder + "nodes.heapprof");
  write_stacks(folder + "stacks.heapprof");
  write_compacted_nodes(folder + "compacted_nodes.heapprof");
  write_compacted_undefined(folder + "compacted_undefined.heapprof");
  write_compacted_streams(folder + "compacted_streams.heapprof");
  write_compacted_pinned(folder + "compacted_pinned.heapprof");
  std::printf("%u\n", kValidAllocations);
  return 0;
}
