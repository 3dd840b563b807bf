// Characters of identifiers in demangled names.
#pragma once

namespace heapprof::symbols {

/// Whether `c` may be part of an identifier. Bytes of multi-byte UTF-8 characters may.
constexpr bool is_identifier(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace heapprof::symbols
