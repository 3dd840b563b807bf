// Reads single frames of a recording: checks and decompresses them.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/trace/files/input_file.h"
#include "analyzer/trace/trace_file.h"
#include "common/trace_format.h"

namespace heapprof::trace {

/// For one frame after another, in one thread.
class FrameReader {
 public:
  enum class Result : std::uint8_t {
    kRead,
    kChanged,  ///< its header is no longer the one that was indexed
    kWrongChecksum,
    kWrongCompression,
    kUnknownCodec,
  };

  /// `file_id`: of the trace in `input`.
  Result read(const InputFile& input, std::uint64_t file_id, StreamId stream, const FrameRef& ref);

  /// Of the last read(), unless it returned kChanged.
  const FrameHeader& header() const noexcept { return header_; }
  /// Header and payload as in the file; of the last read(), unless it returned kChanged.
  const std::vector<std::uint8_t>& bytes() const noexcept { return bytes_; }
  /// Of the last read(), if it returned kRead: FrameHeader::raw_bytes bytes, in the format of FrameHeader::codec.
  const std::uint8_t* columns() const noexcept { return columns_; }

 private:
  FrameHeader header_{};
  const std::uint8_t* columns_ = nullptr;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint8_t> raw_bytes_;
};

}  // namespace heapprof::trace
