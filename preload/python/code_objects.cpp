#include "preload/python/code_objects.h"

#include "common/checksum.h"
#include "common/trace_format.h"
#include "preload/python/broken_rule.h"
#include "preload/python/checks.h"
#include "preload/python/interpreter.h"
#include "preload/python/number_table.h"

namespace heapprof::python {

namespace {

constinit NumberTable g_by_address;
constinit NumberTable g_by_content;
constinit std::uint32_t g_last_number = 0;

/// The call tree stores 46 bits of a node's offset.
constexpr std::uint32_t kMaxNumber = (1u << (46 - kPythonInstructionBits)) - 1;
/// A longer line table is not read.
constexpr std::uint64_t kMaxTableBytes = 1u << 20;
/// Longer names are cut.
constexpr std::uint64_t kMaxNameCharacters = 1u << 12;

/// The characters of a str.
struct Characters {
  std::uint64_t at;
  std::uint64_t count;
  unsigned width;  ///< bytes per character: 1 (Latin-1), 2 or 4
  bool ascii;

  std::uint64_t bytes() const noexcept { return count * width; }
  std::uint32_t operator[](std::uint64_t index) const noexcept {
    const std::uint64_t address = at + index * width;
    return width == 1   ? load<std::uint8_t>(address)
           : width == 2 ? load<std::uint16_t>(address)
                        : load<std::uint32_t>(address);
  }
};

constexpr char kUnknown[] = "?";

bool is_object(const CodeReader& reader, std::uint64_t address, const ObjectType& type) noexcept {
  return reader.pages.object(address, kTextState + sizeof(std::uint64_t)) &&
         type.is(load<std::uint64_t>(address + kObjectType));
}

Characters characters_of(const CodeReader& reader, std::uint64_t text) noexcept {
  const Layout& layout = *reader.python.layout;
  const Characters unknown{reinterpret_cast<std::uint64_t>(kUnknown), 1, 1, true};
  if (!is_object(reader, text, reader.python.text_type)) return unknown;
  const std::uint32_t state = load<std::uint32_t>(text + kTextState);
  const unsigned width = state >> 2 & 7;
  const bool compact = (state >> 5 & 1) != 0;
  const bool ascii = (state >> 6 & 1) != 0;
  std::uint64_t count = load<std::uint64_t>(text + kObjectSize);
  if (count > kMaxNameCharacters) count = kMaxNameCharacters;
  const std::uint64_t at = text + (ascii ? layout.ascii_text : layout.other_text);
  if (!compact || (width != 1 && width != 2 && width != 4) || !reader.pages.range(at, count * width + 1))
    return unknown;
  return {at, count, width, ascii};
}

/// What a trace has of a code object.
struct Content {
  std::uint32_t first_line;
  Characters file;
  Characters name;
  std::uint64_t table;
  std::uint64_t table_bytes;
};

/// The contents of a bytes object; {0, 0}: it is none, or it is too long.
struct Bytes {
  std::uint64_t at;
  std::uint64_t count;
};

Bytes bytes_of(const CodeReader& reader, std::uint64_t object) noexcept {
  if (!is_object(reader, object, reader.python.bytes_type)) return {};
  const Bytes bytes{object + kBytesData, load<std::uint64_t>(object + kObjectSize)};
  return bytes.count <= kMaxTableBytes && reader.pages.range(bytes.at, bytes.count + 1) ? bytes : Bytes{};
}

Content content_of(const CodeReader& reader, std::uint64_t code) noexcept {
  const Layout& layout = *reader.python.layout;
  const Bytes table = bytes_of(reader, load<std::uint64_t>(code + layout.table));
  return {load<std::uint32_t>(code + layout.first_line),
          characters_of(reader, load<std::uint64_t>(code + layout.file)),
          characters_of(reader, load<std::uint64_t>(code + layout.name)), table.at, table.count};
}

/// Two hashes of 64 bits that are computed together.
struct Hash {
  std::uint64_t first = 0x9e3779b97f4a7c15;
  std::uint64_t second = 0xd6e8feb86659fd93;

  void add(std::uint64_t a, std::uint64_t b) noexcept {
    first = (first ^ a) * 0x9fb21c651e98df25;
    first ^= first >> 32;
    second = (second + b) * 0xc2b2ae3d27d4eb4f;
    second ^= second >> 29;
  }
  void add(std::uint64_t word) noexcept { add(word, word); }
  void add_bytes(std::uint64_t at, std::uint64_t bytes) noexcept {
    add(bytes);
    const XXH128_hash_t hash = XXH3_128bits(reinterpret_cast<const void*>(at), bytes);
    add(hash.low64, hash.high64);
  }
  void add(const Characters& text) noexcept {
    add(text.width);
    add_bytes(text.at, text.bytes());
  }
};

Hash hash_of(const Content& content) noexcept {
  Hash hash;
  hash.add(content.first_line);
  hash.add(content.file);
  hash.add(content.name);
  hash.add_bytes(content.table, content.table_bytes);
  return hash;
}

unsigned utf8_bytes(std::uint32_t character) noexcept {
  return character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
}

/// A lone surrogate has no UTF-8.
std::uint32_t valid(std::uint32_t character) noexcept {
  return (character >= 0xd800 && character < 0xe000) || character > 0x10ffff ? 0xfffd : character;
}

std::uint32_t utf8_bytes(const Characters& text) noexcept {
  if (text.ascii) return static_cast<std::uint32_t>(text.count);
  std::uint32_t bytes = 0;
  for (std::uint64_t i = 0; i < text.count; ++i) bytes += utf8_bytes(valid(text[i]));
  return bytes;
}

/// Writes the text of a code object in pieces.
class PieceWriter {
 public:
  PieceWriter(std::uint32_t number, recorder::Stream& stream) noexcept : number_(number), stream_(stream) {}

  void add(char byte) noexcept {
    if (used_ == sizeof piece_) flush();
    piece_[used_++] = byte;
  }
  void add(std::uint64_t at, std::uint64_t bytes) noexcept {
    for (; bytes != 0; --bytes) add(load<char>(at++));
  }
  void add(const Characters& text) noexcept {
    if (text.ascii) return add(text.at, text.count);
    for (std::uint64_t i = 0; i < text.count; ++i) {
      const std::uint32_t character = valid(text[i]);
      const unsigned bytes = utf8_bytes(character);
      if (bytes == 1) {
        add(static_cast<char>(character));
        continue;
      }
      constexpr unsigned kFirst[] = {0, 0, 0xc0, 0xe0, 0xf0};
      add(static_cast<char>(kFirst[bytes] | character >> 6 * (bytes - 1)));
      for (unsigned left = bytes - 1; left-- != 0;) add(static_cast<char>(0x80 | (character >> 6 * left & 0x3f)));
    }
  }
  /// Writes what is left. Returns false if the recording has to stop.
  bool finish() noexcept {
    if (used_ != 0) flush();
    return ok_;
  }

 private:
  void flush() noexcept {
    ok_ = ok_ && stream_.append_text(TextKind::kPythonCode, number_, piece_number_++, piece_, used_);
    used_ = 0;
  }

  std::uint32_t number_;
  std::uint32_t piece_number_ = 0;
  std::uint32_t used_ = 0;
  bool ok_ = true;
  recorder::Stream& stream_;
  char piece_[512];
};

bool define(const CodeReader& reader, std::uint32_t number, const Content& content,
            recorder::Stream& stream) noexcept {
  const bool has_table = content.table_bytes != 0;
  const PythonCodeText text{content.first_line,
                            has_table ? reader.python.layout->lines : PythonLines::kNone,
                            utf8_bytes(content.file),
                            utf8_bytes(content.name),
                            has_table ? static_cast<std::uint32_t>(content.table_bytes) : 0,
                            0};
  PieceWriter writer(number, stream);
  writer.add(reinterpret_cast<std::uint64_t>(&text), sizeof text);
  writer.add(content.file);
  writer.add(content.name);
  if (has_table) writer.add(content.table, content.table_bytes);
  return writer.finish();
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * 0x9fb21c651e98df25;
  return hash ^ hash >> 32;
}

std::uint64_t hash_bytes(std::uint64_t at, std::uint64_t bytes, std::uint64_t hash) noexcept {
  return mix(mix(hash, bytes), checksum(reinterpret_cast<const void*>(at), bytes));
}

/// A hash of a str: that which the interpreter has stored in it, or else one of the characters.
std::uint64_t text_signature(const CodeReader& reader, std::uint64_t text) noexcept {
  constexpr std::uint64_t kNotComputed = ~std::uint64_t{0};
  if (!is_object(reader, text, reader.python.text_type)) return 0;
  const auto hash = load<std::uint64_t>(text + kTextHash);
  if (hash != kNotComputed) return hash;
  const Characters characters = characters_of(reader, text);
  return hash_bytes(characters.at, characters.bytes(), characters.width);
}

/// Finds the number by the content, and defines the code object if it has none.
[[gnu::noinline]] std::uint32_t number_by_content(const CodeReader& reader, std::uint64_t code,
                                                  recorder::Stream& stream) noexcept {
  const Content content = content_of(reader, code);
  const Hash hash = hash_of(content);
  const std::uint64_t key = hash.first | 1;  // not 0
  const auto check = static_cast<std::uint32_t>(hash.second >> 32);
  if (const std::uint32_t known = g_by_content.find(key, check)) return known;
  if (__atomic_load_n(&g_last_number, __ATOMIC_RELAXED) >= kMaxNumber) return 0;
  const std::uint32_t number = __atomic_add_fetch(&g_last_number, 1, __ATOMIC_RELAXED);
  if (!define(reader, number, content, stream)) return 0;
  g_by_content.store(key, check, number);
  return number;
}

}  // namespace

std::uint64_t code_signature(const CodeReader& reader, std::uint64_t code) noexcept {
  const Layout& layout = *reader.python.layout;
  if (!reader.python.code_type.is(load<std::uint64_t>(code + kObjectType)) || load<std::uint64_t>(code) == 0)
    return 0;
  std::uint64_t hash = load<std::uint32_t>(code + layout.first_line);
  hash = mix(hash, text_signature(reader, load<std::uint64_t>(code + layout.file)));
  hash = mix(hash, text_signature(reader, load<std::uint64_t>(code + layout.name)));
  const Bytes table = bytes_of(reader, load<std::uint64_t>(code + layout.table));
  return hash_bytes(table.at, table.count, hash) | 1;
}

std::uint32_t code_number(const CodeReader& reader, std::uint64_t code, std::uint32_t version,
                          std::uint64_t interpreter_state, recorder::Stream& stream) noexcept {
  // Addresses have 47 bits; the upper ones distinguish interpreters, and so does the check: 16 bits are too few for a
  // program that begins and ends many interpreters, whose code objects have equal versions at equal addresses.
  const std::uint64_t interpreter_bits = interpreter_state * 0x9e3779b97f4a7c15;
  const std::uint64_t key = code | interpreter_bits >> 48 << 48;
  const std::uint32_t check = version ^ static_cast<std::uint32_t>(interpreter_bits >> 16);
  if (version != 0) {
    if (const std::uint32_t known = g_by_address.find(key, check)) return known;
  }
  if (!reader.python.code_type.is(load<std::uint64_t>(code + kObjectType))) return 0;
  // The object is being freed, and may have lost its names already. Without a version it cannot be identified.
  // The reference count has 64 bits, of which 3.14 uses the upper ones otherwise.
  if (load<std::uint32_t>(code) == 0) return 0;
  const std::uint32_t number = number_by_content(reader, code, stream);
  if (number != 0 && version != 0) g_by_address.store(key, check, number);
  return number;
}

#ifdef HEAPPROF_CHECK_STACKS
std::uint32_t code_content_hash(const CodeReader& reader, std::uint64_t code) noexcept {
  if (!reader.python.code_type.is(load<std::uint64_t>(code + kObjectType)) || load<std::uint32_t>(code) == 0)
    return 0;
  return static_cast<std::uint32_t>(hash_of(content_of(reader, code)).first) | 1;
}
#endif

void forget_code_objects() noexcept {
  if constexpr (is_broken(Rule::kForkedChild)) return;
  if constexpr (kCheckFrames) forget_checked_contents();
  g_by_address.reset();
  g_by_content.reset();
  g_last_number = 0;
}

}  // namespace heapprof::python
