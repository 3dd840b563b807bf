// Writes traces like the recorder, for tests of the reader: with several streams, of a process that was killed
// between a frame and its commit word, with a tail in private memory, damaged, or truncated.
//
//   TraceBuilder trace;
//   auto& main = trace.stream();
//   main.thread(100, "main");
//   main.alloc(10, 0x1000, 64);
//   trace.write(path);
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <fstream>
#include <lz4.h>
#include <string>
#include <string_view>
#include <vector>

#include "common/checksum.h"
#include "common/event_codec.h"
#include "common/trace_format.h"
#include "tests/support/old_columns.h"

namespace heapprof::test {

class TraceBuilder {
 public:
  static constexpr std::uint64_t kFileId = 0x1122334455667788;

  class Stream {
   public:
    // Events. A time before that of the previous event is replaced by it, as in the recorder.
    void alloc(std::uint64_t time, std::uint64_t address, std::uint64_t size, std::uint32_t node = 0) {
      add(Op::kAlloc, time, address, size, node);
    }
    void free(std::uint64_t time, std::uint64_t address) { add(Op::kFree, time, address); }
    void realloc_begin(std::uint64_t time, std::uint64_t address) { add(Op::kReallocBegin, time, address); }
    void realloc_end(std::uint64_t time, std::uint64_t address, std::uint64_t size, std::uint32_t node = 0) {
      add(Op::kReallocEnd, time, address, size, node);
    }
    void realloc_failed(std::uint64_t time, std::uint64_t size) { add(Op::kReallocFailed, time, 0, size); }
    void alloc_failed(std::uint64_t time, std::uint64_t size) { add(Op::kAllocFailed, time, 0, size); }
    void sample(std::uint64_t time, std::uint64_t monotonic_ns, std::uint64_t rss) {
      add(Op::kSample, time, monotonic_ns, rss);
    }
    /// A sample as format 1.1 has it.
    void sample(std::uint64_t time, std::uint64_t monotonic_ns, std::uint64_t rss, std::uint64_t shared) {
      last_time_ = time < last_time_ ? last_time_ : time;
      text(TextKind::kSharedMemory, shared, 0, "");
      sample(time, monotonic_ns, rss);
    }
    void node(std::uint32_t id, std::uint32_t parent, std::uint32_t module, std::uint64_t offset,
              std::uint32_t flags = 0) {
      add(Op::kNode, last_time_, offset, parent | std::uint64_t{module} << 32, id, flags);
    }
    void text(TextKind kind, std::uint64_t number, std::uint64_t address, std::string_view text) {
      const auto bytes = static_cast<std::uint32_t>(text.size());
      if (slots_.size() + 1 + text_slots(bytes) > capacity_) flush();
      slots_.push_back({last_time_, address, op_size(Op::kText, number), static_cast<std::uint32_t>(kind), bytes});
      const std::size_t at = slots_.size();
      slots_.resize(at + text_slots(bytes));
      std::memcpy(reinterpret_cast<char*>(slots_.data() + at), text.data(), bytes);
    }
    void thread(std::uint32_t tid, std::string_view name, std::uint64_t how = kThreadNew) {
      text(TextKind::kThread, tid, how, name);
    }
    void module(std::uint32_t id, std::string_view path, std::string_view build_id, std::uint64_t first_address,
                std::uint64_t load_bias, std::uint64_t map_bytes = 0x10000, bool is_main = false) {
      const ModuleText fixed{map_bytes, load_bias, static_cast<std::uint32_t>(build_id.size()),
                             is_main ? kModuleMain : 0};
      std::string bytes(reinterpret_cast<const char*>(&fixed), sizeof fixed);
      text(TextKind::kModule, id, first_address, bytes.append(build_id).append(path));
    }

    void add(Op op, std::uint64_t time, std::uint64_t address = 0, std::uint64_t size = 0, std::uint32_t node = 0,
             std::uint32_t aux = 0) {
      if (slots_.size() == capacity_) flush();
      if (time < last_time_) time = last_time_;
      last_time_ = time;
      slots_.push_back({time, address, op_size(op, size), node, aux});
    }

    /// Writes the block as a frame and starts the next block.
    void flush() {
      write_frame();
      for (const Slot& slot : blocks_of(slots_)) events_before_ += is_event(slot);
      ++sequence_;
      begin_block();
    }
    /// Writes the block as a frame, as if the process was killed before it updated the commit word. Must be the last
    /// call.
    void flush_and_die() { write_frame(); }

    /// False: the stream has no staging extent (it was private memory).
    bool has_staging = true;
    std::uint64_t last_time() const { return last_time_; }

   private:
    friend class TraceBuilder;
    Stream(TraceBuilder& trace, std::uint32_t id, std::uint32_t capacity)
        : trace_(trace), id_(id), capacity_(capacity) {
      begin_block();
    }
    void begin_block() { slots_.assign(1, {last_time_, events_before_, op_size(Op::kBlockStart, 0), 0, 0}); }
    /// Slots without the continuation slots of texts.
    static std::vector<Slot> blocks_of(const std::vector<Slot>& slots) {
      std::vector<Slot> records;
      for (std::size_t i = 0; i < slots.size(); ++i) {
        records.push_back(slots[i]);
        if (slots[i].op() == Op::kText) i += text_slots(slots[i].aux);
      }
      return records;
    }
    void write_frame() {
      std::vector<std::uint8_t> columns(column_bytes_bound(slots_.size()) + slots_.size() * sizeof(Slot));
      const EncodedBlock block =
          encode_columns(slots_.data(), static_cast<std::uint32_t>(slots_.size()), columns.data());
      columns.resize(block.raw_bytes);
      const bool is_old = trace_.header.version_major == kOldVersionMajor;
      if (is_old) columns = OldColumns(slots_).bytes();
      std::vector<char> payload(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(columns.size()))));
      const int bytes = LZ4_compress_default(reinterpret_cast<const char*>(columns.data()), payload.data(),
                                             static_cast<int>(columns.size()), static_cast<int>(payload.size()));
      FrameHeader header{};
      header.magic = kFrameMagic;
      header.header_bytes = sizeof header;
      header.codec = is_old ? FrameCodec::kOldColumnsLz4 : FrameCodec::kColumnsLz4;
      header.file_id = kFileId;
      header.stream = static_cast<StreamId>(id_);
      header.sequence = sequence_;
      header.record_count = block.record_count;
      header.event_count = block.event_count;
      header.events_before = events_before_;
      header.first_time = block.first_time;
      header.last_time = block.last_time;
      header.raw_bytes = static_cast<std::uint32_t>(columns.size());
      header.payload_bytes = static_cast<std::uint32_t>(bytes);
      header.payload_checksum = checksum(payload.data(), static_cast<std::size_t>(bytes));
      header.header_checksum = checksum(&header, offsetof(FrameHeader, header_checksum));
      const std::size_t total = (sizeof header + static_cast<std::size_t>(bytes) + 7) / 8 * 8;
      if (extent_at_ == 0 || extent_used_ + total > trace_.frame_extent_bytes) {
        extent_at_ = trace_.add_extent(trace_.frame_extent_bytes, ExtentKind::kFrames, id_, ordinal_++);
        extent_used_ = sizeof(ExtentHeader);
      }
      frames_.push_back(extent_at_ + extent_used_);
      std::memcpy(&trace_.image_[extent_at_ + extent_used_], &header, sizeof header);
      std::memcpy(&trace_.image_[extent_at_ + extent_used_ + sizeof header], payload.data(),
                  static_cast<std::size_t>(bytes));
      extent_used_ += total;
    }

    TraceBuilder& trace_;
    std::uint32_t id_;
    std::size_t capacity_;
    std::vector<Slot> slots_;
    std::vector<std::size_t> frames_;
    std::uint64_t last_time_ = 0;
    std::uint64_t events_before_ = 0;
    std::uint32_t sequence_ = 0;
    std::uint32_t ordinal_ = 0;
    std::size_t extent_at_ = 0;
    std::size_t extent_used_ = 0;
    std::size_t staging_at_ = 0;
  };

  TraceBuilder() : image_(kUnitBytes, 0) {
    std::memcpy(header.magic, kFileMagic, sizeof kFileMagic);
    header.version_major = kVersionMajor;
    header.version_minor = kVersionMinor;
    header.header_bytes = kUnitBytes;
    header.file_id = kFileId;
    header.unit_bytes = kUnitBytes;
    header.slot_bytes = sizeof(Slot);
    header.machine = 62;
    header.clock = Clock::kMonotonic;
    header.ticks_per_second = 1'000'000'000;
    header.start_ticks = 5'000'000'000;
    header.start_monotonic_ns = 5'000'000'000;
    header.pid = 4242;
  }

  /// A new stream. Its staging block holds `slots` records, a full block is flushed automatically.
  Stream& stream(std::uint32_t slots = 126) {
    const auto id = static_cast<std::uint32_t>(streams_.size() + 1);
    streams_.push_back(Stream(*this, id, slots));
    Stream& made = streams_.back();
    made.staging_at_ =
        add_extent(static_cast<std::uint32_t>((sizeof(StagingHeader) + slots * sizeof(Slot) + kUnitBytes - 1) /
                                              kUnitBytes * kUnitBytes),
                   ExtentKind::kStaging, id, made.ordinal_++);
    return made;
  }

  /// Change it before bytes(), which computes the checksum, and the version before the first frame, which has the
  /// columns of that version.
  FileHeader header{};
  std::uint32_t frame_extent_bytes = 64 << 10;  ///< of later extents; a multiple of kUnitBytes with space for a frame

  /// The contents of the file.
  std::vector<std::uint8_t> bytes() {
    header.checksum = checksum(&header, offsetof(FileHeader, checksum));
    std::memcpy(image_.data(), &header, sizeof header);
    for (Stream& stream : streams_) {
      if (!stream.has_staging) {
        std::memset(&image_[stream.staging_at_], 0, sizeof(ExtentHeader));
        continue;
      }
      const std::uint64_t commit = commit_word(stream.sequence_, static_cast<std::uint32_t>(stream.slots_.size()));
      std::memcpy(&image_[stream.staging_at_ + offsetof(StagingHeader, commit)], &commit, sizeof commit);
      std::memcpy(&image_[stream.staging_at_ + sizeof(StagingHeader)], stream.slots_.data(),
                  stream.slots_.size() * sizeof(Slot));
    }
    return image_;
  }
  void write(const std::string& path) { write_bytes(path, bytes()); }

  /// Offsets in the file, for tests that damage it.
  std::size_t staging_offset(std::size_t stream) const { return streams_[stream].staging_at_; }
  const std::vector<std::size_t>& frame_offsets(std::size_t stream) const { return streams_[stream].frames_; }
  std::uint64_t events() const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) {
      sum += stream.events_before_;
      for (const Slot& slot : Stream::blocks_of(stream.slots_)) sum += is_event(slot);
    }
    return sum;
  }

  static void write_bytes(const std::string& path, const std::vector<std::uint8_t>& bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::size_t add_extent(std::uint32_t bytes, ExtentKind kind, std::uint32_t stream, std::uint32_t ordinal) {
    const std::size_t at = image_.size();
    image_.resize(at + bytes, 0);
    ExtentHeader extent{kExtentMagic, kFileId, at, bytes, kind, static_cast<StreamId>(stream), ordinal, 0};
    extent.checksum = checksum(&extent, offsetof(ExtentHeader, checksum));
    std::memcpy(&image_[at], &extent, sizeof extent);
    return at;
  }

  std::vector<std::uint8_t> image_;
  std::deque<Stream> streams_;
};

}  // namespace heapprof::test
