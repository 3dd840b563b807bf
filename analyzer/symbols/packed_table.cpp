#include "analyzer/symbols/packed_table.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "common/checksum.h"

namespace heapprof::symbols {

namespace {

constexpr int kZstdLevel = 9;

struct Header {
  std::uint64_t magic;
  std::uint64_t table_bytes;
  std::uint64_t compressed_bytes;
  std::uint64_t checksum;
};
static_assert(sizeof(Header) == 32);

/// The greatest table_bytes that are accepted: a table of distinct strings does not compress better.
std::uint64_t max_table_bytes(std::uint64_t compressed_bytes) {
  return std::min<std::uint64_t>(kMaxTableBytes, (std::uint64_t{16} << 20) + 64 * compressed_bytes);
}

/// Appends decompressed bytes to `out` as they come, so that a false `expected_bytes` allocates nothing. False: the
/// frame is damaged, or its content is not of `expected_bytes`.
bool decompress(std::string_view frame, std::uint64_t expected_bytes, std::string& out) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(), ZSTD_freeDStream);
  if (stream == nullptr) return false;
  ZSTD_inBuffer in{frame.data(), frame.size(), 0};
  for (std::size_t more = 1; more != 0;) {
    const std::size_t done = out.size();
    out.resize(done + ZSTD_DStreamOutSize());
    ZSTD_outBuffer part{out.data() + done, out.size() - done, 0};
    more = ZSTD_decompressStream(stream.get(), &part, &in);
    out.resize(done + part.pos);
    if (ZSTD_isError(more) != 0 || out.size() > expected_bytes || (part.pos == 0 && more != 0)) return false;
  }
  return out.size() == expected_bytes && in.pos == in.size;
}

}  // namespace

std::string pack_table(std::uint64_t magic, std::string_view table, const char* what) {
  if (table.size() > kMaxTableBytes) throw std::runtime_error(std::string(what) + " exceed 1 GiB");
  std::string packed(sizeof(Header) + ZSTD_compressBound(table.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data() + sizeof(Header), packed.size() - sizeof(Header), table.data(),
                                         table.size(), kZstdLevel);
  if (ZSTD_isError(size) != 0) throw std::runtime_error(ZSTD_getErrorName(size));
  packed.resize(sizeof(Header) + size);
  const Header header{magic, table.size(), size, checksum(packed.data() + sizeof(Header), size)};
  std::memcpy(packed.data(), &header, sizeof header);
  return packed;
}

std::optional<std::string> unpack_table(std::uint64_t magic, std::string_view packed) {
  Header header;
  if (packed.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, packed.data(), sizeof header);
  const std::string_view compressed = packed.substr(sizeof header);
  if (header.magic != magic || header.compressed_bytes != compressed.size() ||
      header.table_bytes > max_table_bytes(header.compressed_bytes) ||
      header.checksum != checksum(compressed.data(), compressed.size()))
    return std::nullopt;
  std::string table;
  if (!decompress(compressed, header.table_bytes, table)) return std::nullopt;
  return table;
}

}  // namespace heapprof::symbols
