// The text of source files: packed into a bundled trace (`heapprof bundle --sources`), or found on this machine.
//
// The paths come from debug information that anybody may have written. So only regular files of text are read, of at
// most kMaxSourceBytes.
//
//   packed = the packed table (packed_table.h), with the magic "HPFSRCE1"
//   table  = count (path_bytes path text_bytes text)*    numbers are varints (common/varint.h)
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heapprof::symbols {

inline constexpr std::size_t kMaxSourceBytes = std::size_t{16} << 20;

/// Texts by path as in the debug information.
using PackedSources = std::map<std::string, std::string>;

/// Throws std::runtime_error if the texts exceed kMaxTableBytes.
std::string encode_sources(const PackedSources& sources);
/// Decodes untrusted bytes; nullopt: they are damaged, truncated, or in another format.
std::optional<PackedSources> decode_sources(std::string_view encoded);

/// Where files are searched: below `directories` by the ends of their paths, the longest first; in `packed`; at their
/// path, below `sysroot`; and a relative path in the current directory.
struct SourcePlaces {
  std::vector<std::string> directories;
  std::string sysroot;
  PackedSources packed{};
};

struct SourceText {
  std::string text;
  std::string found_at;                     ///< a path on this machine; empty: in the bundle
  std::optional<std::uint64_t> changed_ns;  ///< when the file was last changed, since 1970; nullopt: in the bundle
};

/// Finds the file that the debug information calls `path`. If there is none, `why_not` gets the reason, as the end of
/// a sentence ("was not found", "is not text").
std::optional<SourceText> find_source(const SourcePlaces& places, const std::string& path, std::string& why_not);

/// The lines of `text`, without their line feeds, or carriage returns before these.
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace heapprof::symbols
