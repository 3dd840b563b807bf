// Numbers and texts as a sequence of bytes: the encoding of the analyzer's own files (indexes, compacted traces).
// Numbers are varints (common/varint.h). A text is its length in bytes, then the bytes. Readers check every length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/varint.h"

namespace heapprof::trace {

/// Bytes that do not have the expected format. what() is a clause for people, without the file's name.
class FormatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ByteWriter {
 public:
  void number(std::uint64_t value) {
    const std::size_t size = bytes_.size();
    bytes_.resize(size + kMaxVarintBytes);
    std::uint8_t* const begin = bytes_.data() + size;
    bytes_.resize(size + static_cast<std::size_t>(put_varint(begin, value) - begin));
  }
  void signed_number(std::int64_t value) { number(zigzag(value)); }
  void text(std::string_view value) {
    number(value.size());
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }
  void raw(std::span<const std::uint8_t> value) { bytes_.insert(bytes_.end(), value.begin(), value.end()); }

  std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  void clear() noexcept { bytes_.clear(); }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// Every read throws FormatError when the bytes end too early. The bytes must outlive the reader.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::uint8_t> bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    const std::uint8_t* const after = get_varint(at_, end_, value);
    if (after == nullptr) fail();
    at_ = after;
    return value;
  }
  /// number() for columns of small numbers, where it is faster.
  std::uint64_t small_number() {
    std::uint64_t value = 0;
    const std::uint8_t* const after = get_small_varint(at_, end_, value);
    if (after == nullptr) fail();
    at_ = after;
    return value;
  }
  std::int64_t signed_number() { return unzigzag(number()); }
  /// A number; throws FormatError when it is greater than `max`.
  std::uint64_t number_up_to(std::uint64_t max) {
    const std::uint64_t value = number();
    if (value > max) fail();
    return value;
  }
  std::uint32_t small_number32() {
    const std::uint64_t value = small_number();
    if (value > 0xffffffff) fail();
    return static_cast<std::uint32_t>(value);
  }
  std::uint32_t number32() { return static_cast<std::uint32_t>(number_up_to(0xffffffff)); }
  /// The number of items that follow, of at least `min_item_bytes` each. A count of more than fit into the bytes left
  /// is refused, so that no count can make the caller allocate memory out of proportion to them.
  std::size_t count(std::size_t min_item_bytes = 1) {
    const std::uint64_t value = number();
    if (value > left() / min_item_bytes) fail();  // left() now excludes the number itself
    return static_cast<std::size_t>(value);
  }
  std::string text() {
    const std::size_t size = count();
    std::string value(reinterpret_cast<const char*>(at_), size);
    at_ += size;
    return value;
  }
  std::span<const std::uint8_t> raw(std::size_t size) {
    if (size > left()) fail();
    const std::uint8_t* const begin = at_;
    at_ += size;
    return {begin, size};
  }
  /// A reader of the next `count` numbers, which this one skips.
  ByteReader numbers(std::size_t count) {
    const std::uint8_t* const begin = at_;
    std::uint64_t word;
    for (; count >= sizeof word && left() >= sizeof word; at_ += sizeof word) {  // a number ends at a byte below 0x80
      std::memcpy(&word, at_, sizeof word);
      // The sum of the bytes, each 0 or 1: without an instruction for it, std::popcount is a call.
      count -= ((~word >> 7 & 0x0101010101010101) * 0x0101010101010101) >> 56;
    }
    while (count != 0) {
      if (at_ == end_) fail();
      count -= *at_++ < 0x80;
    }
    return ByteReader({begin, at_});
  }
  std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }
  void expect_end() const {
    if (at_ != end_) fail();
  }

 private:
  [[noreturn, gnu::noinline]] static void fail() { throw FormatError("its contents are malformed"); }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

}  // namespace heapprof::trace
