// A compressed table with a checksum, as bundled traces and the symbol cache contain them:
//
//   packed = header (32 bytes), zstd frame of the table
//   header = magic, table bytes, zstd frame bytes, checksum of the zstd frame: 64-bit numbers
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heapprof::symbols {

inline constexpr std::size_t kMaxTableBytes = std::size_t{1} << 30;

/// Throws std::runtime_error if the table exceeds kMaxTableBytes; `what` ("the symbols") is the subject of the
/// message.
std::string pack_table(std::uint64_t magic, std::string_view table, const char* what);

/// Unpacks untrusted bytes: at most kMaxTableBytes are decompressed, and as many as `packed` can contain. nullopt:
/// the bytes are damaged, truncated, or begin with another magic.
std::optional<std::string> unpack_table(std::uint64_t magic, std::string_view packed);

}  // namespace heapprof::symbols
