// Sections as section.h describes them, with contents of the fuzzer. They are stored uncompressed, because
// compression would take most of the time of an execution and test nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "analyzer/trace/compact/section.h"
#include "common/checksum.h"

namespace heapprof::fuzz {

/// A zstd frame of one uncompressed block (RFC 8878, 3.1.1).
inline std::vector<std::uint8_t> stored(std::string_view contents) {
  std::vector<std::uint8_t> bytes = {0x28, 0xb5, 0x2f, 0xfd, 0xe0};
  const auto number = [&](std::uint64_t value, unsigned count) {
    for (; count != 0; --count, value >>= 8) bytes.push_back(static_cast<std::uint8_t>(value));
  };
  contents = contents.substr(0, 128 << 10);
  number(contents.size(), 8);
  number(contents.size() << 3 | 1, 3);
  bytes.insert(bytes.end(), contents.begin(), contents.end());
  return bytes;
}

/// `header` has the kind, file id and numbers; the rest is computed.
inline void add_section(std::vector<std::uint8_t>& file, trace::SectionHeader header, std::string_view contents) {
  const std::vector<std::uint8_t> payload = stored(contents);
  header.magic = trace::kSectionMagic;
  header.raw_bytes = contents.size();
  header.payload_bytes = payload.size();
  header.payload_checksum = checksum(payload.data(), payload.size());
  header.header_checksum = checksum(&header, offsetof(trace::SectionHeader, header_checksum));
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&header);
  file.insert(file.end(), bytes, bytes + sizeof header);
  file.insert(file.end(), payload.begin(), payload.end());
  file.resize((file.size() + 7) / 8 * 8, 0);
}

}  // namespace heapprof::fuzz
