// Resolved addresses of modules, and their encoding in bundled traces (`heapprof bundle`) and in the symbol cache:
//
//   encoded   = the packed table (packed_table.h), with the magic "HPFNAME1" or "HPFNAME2"
//   table     = strings, module count, module*       all numbers are varints (common/varint.h)
//   strings   = count (length bytes)*                string 0 is the empty one, which is not in the list
//   module    = path build_id map_bytes warnings why_unnamed addresses    texts are string numbers
//   warnings  = count string*
//   addresses = count (delta frames)*                ascending
//   frames    = count (function file line<<1|inlined)*                    of HPFNAME1
//             = count (function file line<<1|inlined definition_file)*    of HPFNAME2
//
// Without function and file, `line` is the distance from the start of the function, plus one; 0: unknown. HPFNAME2 is
// written only if a frame has a definition_file: older versions of heapprof read HPFNAME1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/symbols/packed_table.h"
#include "analyzer/symbols/source_frame.h"

namespace heapprof::symbols {

/// The resolved addresses of one module.
struct ModuleSymbols {
  std::string path;  ///< of the Module; "[generated]" if Module::generated is set
  std::string build_id_hex;
  std::uint64_t map_bytes = 0;
  std::vector<std::string> warnings;
  std::string why_unnamed;                       ///< warning for addresses without a function name; or empty
  std::vector<std::uint64_t> addresses;          ///< sorted, distinct
  std::vector<std::vector<SourceFrame>> frames;  ///< of each address, as from Symbolizer::resolve

  /// The frames of `address`; null: it is not one of `addresses`.
  const std::vector<SourceFrame>* find(std::uint64_t address) const;
};

/// Throws std::runtime_error if the table exceeds kMaxTableBytes.
std::string encode_symbols(const std::vector<ModuleSymbols>& modules);

inline constexpr std::size_t kMaxDecodedBytes = 2 * kMaxTableBytes;

/// Decodes untrusted bytes: a count is accepted only if enough bytes follow, at most kMaxTableBytes are decompressed,
/// and the texts and items of the result have at most `max_decoded_bytes`. nullopt: the bytes are damaged, truncated,
/// too many, or in another format.
std::optional<std::vector<ModuleSymbols>> decode_symbols(std::string_view encoded,
                                                         std::size_t max_decoded_bytes = kMaxDecodedBytes);

/// The same with shared ownership; null instead of nullopt.
std::shared_ptr<const std::vector<ModuleSymbols>> decode_shared_symbols(std::string_view encoded);

}  // namespace heapprof::symbols
