// Protocol buffers: protobuf.dev/programming-guides/encoding.
//
// A message is a sequence of fields: a key (number << 3 | wire type), then a varint (type 0), eight bytes (type 1),
// or a length and bytes (type 2). Fields may be in any order. What has its default value is omitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"

namespace heapprof::exporter::protobuf {

class Message {
 public:
  void number(unsigned field, std::uint64_t value) {
    if (value != 0) present_number(field, value);
  }
  /// Writes a 0, too, for fields whose presence matters.
  void present_number(unsigned field, std::uint64_t value) {
    varint(field << 3);
    varint(value);
  }
  void fixed64(unsigned field, std::uint64_t value) {
    varint(field << 3 | 1);
    for (unsigned shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(value >> shift);
  }
  void bytes(unsigned field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(unsigned field, const Message& value) { bytes(field, value.view()); }
  /// One element of a packed array, whose message contains nothing else.
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  /// The fields of another message of this type.
  void append(const Message& fields) { bytes_ += fields.bytes_; }
  std::string_view view() const noexcept { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  std::string bytes_;
};

/// The texts of a message that has each one once and refers to it by number. Number 0 is the empty text.
class StringTable {
 public:
  StringTable() { number(""); }
  std::uint64_t number(const std::string& text) {
    const auto [at, fresh] = index_.try_emplace(text, all_.size());
    if (fresh) all_.push_back(&at->first);
    return at->second;
  }
  const std::vector<const std::string*>& all() const noexcept { return all_; }

 private:
  std::unordered_map<std::string, std::size_t, ChosenTextHash> index_;  // the keys have stable addresses
  std::vector<const std::string*> all_;
};

}  // namespace heapprof::exporter::protobuf
