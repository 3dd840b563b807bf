// Checksums of a trace's headers, and the checks that recognize a trace. One definition for the recorder, which
// writes the headers, and the analyzer, which checks them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/checksum.h"
#include "common/trace_format.h"

namespace heapprof {

/// Whether `bytes` begin with the magic number of a trace. At least sizeof kFileMagic bytes must be readable.
inline bool has_file_magic(const void* bytes) noexcept {
  return __builtin_memcmp(bytes, kFileMagic, sizeof kFileMagic) == 0;
}

inline std::uint64_t header_checksum(const FileHeader& header) noexcept {
  return checksum(&header, offsetof(FileHeader, checksum));
}

/// `header` must already contain the magic, although the magic is stored last in the file.
inline std::uint64_t header_checksum(const ExtentHeader& header) noexcept {
  return checksum(&header, offsetof(ExtentHeader, checksum));
}
inline std::uint64_t header_checksum(const FrameHeader& header) noexcept {
  return checksum(&header, offsetof(FrameHeader, header_checksum));
}

/// Whether `header` is an undamaged header that the recorder wrote. False for a compacted trace and for a newer major
/// version.
inline bool is_recorder_header(const FileHeader& header) noexcept {
  return has_file_magic(header.magic) && is_recording_version(header.version_major) &&
         header.checksum == header_checksum(header);
}

}  // namespace heapprof
