// A directory for a test's trace, and a minimal reader of its streams.
#pragma once

#include <lz4.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/checksum.h"
#include "common/event_codec.h"
#include "common/trace_format.h"

namespace heapprof::test {

struct Folder {
  Folder() {
    char name[] = "/tmp/heapprof-test-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

/// Empty: there is no such file.
inline std::vector<char> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  std::vector<char> bytes(static_cast<std::size_t>(file.tellg()));
  file.seekg(0);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

struct Text {
  Slot record;
  std::string text;
};

struct Read {
  std::vector<Slot> records;  ///< in the staging block with the slots of texts
  std::vector<Text> texts;
  unsigned frames = 0;
  unsigned staged = 0;
};

/// All records of a stream in order: frames, then the staging block.
inline Read read_stream(const std::string& path, StreamId stream) {
  Read result;
  const std::vector<char> bytes = bytes_of(path);
  REQUIRE(bytes.size() % kUnitBytes == 0);
  std::uint32_t next_sequence = 0;
  std::vector<Slot> staged;
  for (std::size_t at = kUnitBytes; at < bytes.size();) {
    ExtentHeader extent;
    std::memcpy(&extent, bytes.data() + at, sizeof extent);
    REQUIRE(extent.magic == kExtentMagic);
    REQUIRE(extent.offset == at);
    REQUIRE(extent.checksum == checksum(&extent, offsetof(ExtentHeader, checksum)));
    if (extent.stream == stream && extent.kind == ExtentKind::kStaging) {
      StagingHeader header;
      std::memcpy(&header, bytes.data() + at, sizeof header);
      staged.resize(commit_slots(header.commit));
      std::memcpy(static_cast<void*>(staged.data()), bytes.data() + at + sizeof header, staged.size() * sizeof(Slot));
      result.staged = commit_sequence(header.commit);
    }
    for (std::size_t frame = at + sizeof extent; extent.stream == stream && extent.kind == ExtentKind::kFrames;) {
      FrameHeader header;
      if (frame + sizeof header > at + extent.bytes) break;
      std::memcpy(&header, bytes.data() + frame, sizeof header);
      if (header.magic != kFrameMagic) break;
      REQUIRE(header.header_checksum == checksum(&header, offsetof(FrameHeader, header_checksum)));
      REQUIRE(header.codec == FrameCodec::kColumnsLz4);
      const char* payload = bytes.data() + frame + header.header_bytes;
      REQUIRE(header.payload_checksum == checksum(payload, header.payload_bytes));
      REQUIRE(header.sequence == next_sequence++);
      std::vector<char> raw(header.raw_bytes);
      REQUIRE(LZ4_decompress_safe(payload, raw.data(), static_cast<int>(header.payload_bytes),
                                  static_cast<int>(raw.size())) == static_cast<int>(raw.size()));
      REQUIRE(decode_columns(ColumnFormat::kCurrent, reinterpret_cast<const std::uint8_t*>(raw.data()), raw.size(),
                             header.first_time, header.record_count, [&](const Slot& slot, const std::uint8_t* text) {
                               result.records.push_back(slot);
                               if (slot.op() == Op::kText) result.texts.push_back({slot, {text, text + slot.aux}});
                             }) == DecodeError::kNone);
      ++result.frames;
      frame += (std::size_t{header.header_bytes} + header.payload_bytes + 7) & ~std::size_t{7};
    }
    at += extent.bytes;
  }
  if (!staged.empty()) REQUIRE(result.staged == next_sequence);  // else the block is private memory
  for (std::size_t i = 0; i < staged.size(); ++i) {
    if (staged[i].op() != Op::kText) continue;
    const char* const text = reinterpret_cast<const char*>(staged.data() + i + 1);
    result.texts.push_back({staged[i], {text, text + staged[i].aux}});
    i += text_slots(staged[i].aux);
  }
  result.records.insert(result.records.end(), staged.begin(), staged.end());
  return result;
}

}  // namespace heapprof::test
