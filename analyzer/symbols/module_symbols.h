// Names that were looked up once, as bytes: what `heapprof bundle` puts into a trace and what the cache keeps.
//
//   packed  = header (32 bytes), zstd frame of `table`
//   header  = magic "HPFNAME1", 8 raw bytes, 8 packed bytes, 8 checksum of the packed bytes, all 64-bit numbers
//   table   = strings modules                      numbers are varints (common/varint.h)
//   strings = count (length bytes)*                number 0 is the empty text, which is not among them
//   modules = count module*
//   module  = path build_id map_bytes warnings why_unnamed addresses    path and build id: numbers of strings
//   warnings  = count string*
//   addresses = count (delta frames)*              ascending
//   frames  = count (function file line<<1|inlined)*    where function and file are empty, the line is how far
//             behind the function's begin the address lies, plus one; 0: unknown
//
// Such bytes come from anybody: reading believes no count before the bytes behind it were seen, and no more
// than kMaxTableBytes are ever unpacked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/symbols/symbolizer.h"

namespace heapprof::symbols {

inline constexpr std::size_t kMaxTableBytes = std::size_t{1} << 30;

/// What is known of one module's addresses.
struct ModuleSymbols {
  std::string path;                                ///< this and the next two are those of Module; or "[generated]"
  std::string build_id_hex;
  std::uint64_t map_bytes = 0;
  std::vector<std::string> warnings;
  std::string why_unnamed;                         ///< a sentence for who meets an address without a name; or empty
  std::vector<std::uint64_t> addresses;            ///< sorted, distinct
  std::vector<std::vector<SourceFrame>> frames;    ///< of each address, as Symbolizer::resolve gives them

  /// The frames of `address`, or null when it is not among them.
  const std::vector<SourceFrame>* find(std::uint64_t address) const;
};

/// As bytes to be stored; throws std::runtime_error when there is more than kMaxTableBytes of it.
std::string encode_symbols(const std::vector<ModuleSymbols>& modules);

/// The opposite. None: the bytes are damaged, cut or not of this kind.
std::optional<std::vector<ModuleSymbols>> decode_symbols(std::string_view packed);
/// The same for a table that several owners share; null instead of nullopt.
std::shared_ptr<const std::vector<ModuleSymbols>> decode_shared_symbols(std::string_view packed);

}  // namespace heapprof::symbols
