#include "analyzer/trace/embedded_symbols.h"

#include <algorithm>
#include <cstring>

#include "common/checksum.h"
#include "common/trace_format.h"
#include "common/trace_header.h"

namespace heapprof::trace {

namespace {

// Extents of at most 1 MB, because readers that find a damaged header search for the next extent unit by unit.
constexpr std::uint32_t kExtentPayload = (1u << 20) - sizeof(ExtentHeader);
// No compressed table of names is as large.
constexpr std::uint64_t kMaxSymbolBytes = std::uint64_t{1} << 30;

/// Before the packed source files, which follow the table of names. Other bytes there are padding.
struct SourcesHeader {
  std::uint64_t magic;
  std::uint64_t bytes;
};
static_assert(sizeof(SourcesHeader) == 16);
constexpr std::uint64_t kSourcesMagic = 0x3153435253465048;  // "HPFSRCS1"

bool is_symbol_extent(const ExtentHeader& header, std::uint64_t file_id, std::uint64_t offset) {
  return header.magic == kExtentMagic && header.kind == ExtentKind::kSymbols && header.file_id == file_id &&
         header.offset == offset && header.bytes >= sizeof(ExtentHeader) && header.bytes <= kMaxExtentBytes &&
         header.checksum == header_checksum(header);
}

bool read_end(const InputFile& file, std::uint64_t file_id, SymbolsEnd& end) {
  const std::uint64_t size = file.size();
  return size >= sizeof end && file.read_all(size - sizeof end, &end, sizeof end) && end.magic == kSymbolsEndMagic &&
         end.file_id == file_id && end.checksum == checksum(&end, offsetof(SymbolsEnd, checksum)) &&
         end.offset <= size - sizeof end && end.symbol_bytes <= kMaxSymbolBytes &&
         end.symbol_bytes <= size - end.offset;
}

}  // namespace

std::optional<EmbeddedSymbols> find_symbols(const InputFile& file, std::uint64_t file_id) {
  SymbolsEnd end;
  ExtentHeader header;
  if (!read_end(file, file_id, end)) return std::nullopt;
  if (!file.read_all(end.offset, &header, sizeof header) || !is_symbol_extent(header, file_id, end.offset))
    return std::nullopt;
  return EmbeddedSymbols{end.offset, file.size() - end.offset};
}

namespace {

/// The payload of the extents from byte `from` on, at most `size` bytes of it. nullopt: an extent is damaged, or the
/// payload has fewer than `least` bytes from there on.
std::optional<std::string> read_payload(const InputFile& file, std::uint64_t file_id, std::uint64_t first_extent,
                                        std::uint64_t from, std::uint64_t size, std::uint64_t least) {
  std::string payload;
  std::uint64_t position = 0;  // in the payload of all extents
  std::uint64_t at = first_extent;
  for (std::uint32_t ordinal = 0; payload.size() < size && at < file.size(); ++ordinal) {
    ExtentHeader header;
    if (!file.read_all(at, &header, sizeof header) || !is_symbol_extent(header, file_id, at) ||
        header.ordinal != ordinal)
      return std::nullopt;
    const std::uint64_t bytes = header.bytes - sizeof header;
    const std::uint64_t skipped = std::min(bytes, from - std::min(from, position));
    const std::size_t taken = std::min<std::uint64_t>(bytes - skipped, size - payload.size());
    const std::size_t had = payload.size();
    payload.resize(had + taken);
    if (bytes == 0 || (taken != 0 && !file.read_all(at + sizeof header + skipped, payload.data() + had, taken)))
      return std::nullopt;
    position += bytes;
    at += header.bytes;
  }
  if (payload.size() < least) return std::nullopt;
  return payload;
}

}  // namespace

std::optional<std::string> read_symbols(const InputFile& file, std::uint64_t file_id, const EmbeddedSymbols& where) {
  SymbolsEnd end;
  if (!read_end(file, file_id, end) || end.offset != where.offset) return std::nullopt;
  return read_payload(file, file_id, end.offset, 0, end.symbol_bytes, end.symbol_bytes);
}

std::optional<std::string> read_sources(const InputFile& file, std::uint64_t file_id, const EmbeddedSymbols& where) {
  SymbolsEnd end;
  if (!read_end(file, file_id, end) || end.offset != where.offset) return std::nullopt;
  const std::optional<std::string> begin =
      read_payload(file, file_id, end.offset, end.symbol_bytes, sizeof(SourcesHeader), 0);
  if (!begin) return std::nullopt;
  SourcesHeader header;
  if (begin->size() < sizeof header) return std::string();
  std::memcpy(&header, begin->data(), sizeof header);
  if (header.magic != kSourcesMagic) return std::string();
  if (header.bytes > kMaxSymbolBytes) return std::nullopt;
  return read_payload(file, file_id, end.offset, end.symbol_bytes + sizeof header, header.bytes, header.bytes);
}

std::string symbol_extents(std::string_view symbols, std::string_view sources, std::uint64_t file_id,
                           std::uint64_t offset, std::uint32_t unit_bytes) {
  std::string payload(symbols);
  if (!sources.empty()) {
    const SourcesHeader header{kSourcesMagic, sources.size()};
    payload.append(reinterpret_cast<const char*>(&header), sizeof header);
    payload += sources;
  }
  std::string extents;
  std::size_t done = 0;
  bool ended = false;
  for (std::uint32_t ordinal = 0; !ended; ++ordinal) {
    const std::size_t size = std::min<std::size_t>(kExtentPayload, payload.size() - done);
    // SymbolsEnd must be in the last extent.
    ended = done + size == payload.size() && size + sizeof(SymbolsEnd) <= kExtentPayload;
    const std::size_t used = sizeof(ExtentHeader) + size + (ended ? sizeof(SymbolsEnd) : 0);
    const std::size_t bytes = (used + unit_bytes - 1) / unit_bytes * unit_bytes;
    ExtentHeader header{};
    header.magic = kExtentMagic;
    header.file_id = file_id;
    header.offset = offset + extents.size();
    header.bytes = static_cast<std::uint32_t>(bytes);
    header.kind = ExtentKind::kSymbols;
    header.stream = static_cast<StreamId>(1);  // unused, but readers of version 1.0 ignore extents without a stream
    header.ordinal = ordinal;
    header.checksum = header_checksum(header);
    const std::size_t begin = extents.size();
    extents.resize(begin + bytes);
    std::memcpy(extents.data() + begin, &header, sizeof header);
    payload.copy(extents.data() + begin + sizeof header, size, done);
    done += size;
  }
  SymbolsEnd end{};
  end.magic = kSymbolsEndMagic;
  end.file_id = file_id;
  end.offset = offset;
  end.symbol_bytes = symbols.size();
  end.checksum = checksum(&end, offsetof(SymbolsEnd, checksum));
  std::memcpy(extents.data() + extents.size() - sizeof end, &end, sizeof end);
  return extents;
}

}  // namespace heapprof::trace
