#include "analyzer/trace/frame_reader.h"

#include <cstring>
#include <lz4.h>

#include "common/checksum.h"

namespace heapprof::trace {

FrameReader::Result FrameReader::read(const InputFile& input, std::uint64_t file_id, StreamId stream,
                                      const FrameRef& ref) {
  bytes_.resize(ref.bytes);
  header_ = {};
  const bool complete = input.read_all(ref.offset, bytes_.data(), ref.bytes);
  if (complete) std::memcpy(&header_, bytes_.data(), sizeof header_);
  if (!complete || !is_frame(header_, file_id, ref.offset, ref.offset + ref.bytes) || header_.stream != stream ||
      header_.sequence != ref.sequence)
    return Result::kChanged;
  const std::uint8_t* const payload = bytes_.data() + header_.header_bytes;
  if (checksum(payload, header_.payload_bytes) != header_.payload_checksum) return Result::kWrongChecksum;

  columns_ = payload;
  if (header_.codec == FrameCodec::kColumnsLz4 || header_.codec == FrameCodec::kOldColumnsLz4) {
    if (raw_bytes_.size() < header_.raw_bytes) raw_bytes_.resize(header_.raw_bytes);
    const int got =
        LZ4_decompress_safe(reinterpret_cast<const char*>(payload), reinterpret_cast<char*>(raw_bytes_.data()),
                            static_cast<int>(header_.payload_bytes), static_cast<int>(header_.raw_bytes));
    if (got < 0 || static_cast<std::uint32_t>(got) != header_.raw_bytes) return Result::kWrongCompression;
    columns_ = raw_bytes_.data();
  } else if (header_.codec != FrameCodec::kOldColumnsStored || header_.raw_bytes != header_.payload_bytes) {
    return Result::kUnknownCodec;
  }
  return Result::kRead;
}

}  // namespace heapprof::trace
