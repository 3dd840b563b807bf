#include "preload/python/code_objects.h"

#include "common/trace_format.h"
#include "preload/python/interpreter.h"
#include "preload/python/number_table.h"

namespace heapprof::python {

namespace {

constinit NumberTable g_by_address;
constinit NumberTable g_by_content;
constinit std::uint32_t g_last_number = 0;

/// The call tree stores 46 bits of a node's offset.
constexpr std::uint32_t kMaxNumber = (1u << (46 - kPythonInstructionBits)) - 1;
/// A longer line table is not copied.
constexpr std::uint64_t kMaxTableBytes = 1u << 20;
constexpr std::uint64_t kMaxNameBytes = 1u << 16;

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

Characters characters_of(std::uint64_t text) noexcept {
  const Layout& layout = *interpreter().layout;
  const Characters unknown{reinterpret_cast<std::uint64_t>(kUnknown), 1, 1, true};
  if (text == 0 || load<std::uint64_t>(text + kObjectType) != interpreter().text_type) return unknown;
  const std::uint32_t state = load<std::uint32_t>(text + kTextState);
  const unsigned width = state >> 2 & 7;
  const bool compact = (state >> 5 & 1) != 0;
  const bool ascii = (state >> 6 & 1) != 0;
  const std::uint64_t count = load<std::uint64_t>(text + kObjectSize);
  if (!compact || (width != 1 && width != 2 && width != 4) || count > kMaxNameBytes) return unknown;
  return {text + (ascii ? layout.ascii_text : layout.other_text), count, width, ascii};
}

/// What a trace has of a code object.
struct Content {
  std::uint32_t first_line;
  Characters file;
  Characters name;
  std::uint64_t table;
  std::uint64_t table_bytes;
};

Content content_of(std::uint64_t code) noexcept {
  const Layout& layout = *interpreter().layout;
  Content content{};
  content.first_line = load<std::uint32_t>(code + layout.first_line);
  content.file = characters_of(load<std::uint64_t>(code + layout.file));
  content.name = characters_of(load<std::uint64_t>(code + layout.name));
  const std::uint64_t table = load<std::uint64_t>(code + layout.table);
  if (table != 0 && load<std::uint64_t>(table + kObjectType) == interpreter().bytes_type) {
    content.table = table + kBytesData;
    content.table_bytes = load<std::uint64_t>(table + kObjectSize);
  }
  return content;
}

/// Two hashes of 64 bits that are computed together.
struct Hash {
  std::uint64_t first = 0x9e3779b97f4a7c15;
  std::uint64_t second = 0xd6e8feb86659fd93;

  void add(std::uint64_t word) noexcept {
    first = (first ^ word) * 0x9fb21c651e98df25;
    first ^= first >> 32;
    second = (second + word) * 0xc2b2ae3d27d4eb4f;
    second ^= second >> 29;
  }
  void add(std::uint64_t at, std::uint64_t bytes) noexcept {
    add(bytes);
    for (; bytes >= 8; bytes -= 8, at += 8) {
      std::uint64_t word;
      __builtin_memcpy(&word, reinterpret_cast<const void*>(at), sizeof word);
      add(word);
    }
    std::uint64_t rest = 0;
    for (unsigned shift = 0; bytes != 0; --bytes, shift += 8)
      rest |= std::uint64_t{load<std::uint8_t>(at++)} << shift;
    add(rest);
  }
  void add(const Characters& text) noexcept {
    add(text.width);
    add(text.at, text.bytes());
  }
};

Hash hash_of(const Content& content) noexcept {
  Hash hash;
  hash.add(content.first_line);
  hash.add(content.file);
  hash.add(content.name);
  hash.add(content.table, content.table_bytes);
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

bool define(std::uint32_t number, const Content& content, recorder::Stream& stream) noexcept {
  const bool has_table = content.table_bytes != 0 && content.table_bytes <= kMaxTableBytes;
  const PythonCodeText text{content.first_line,
                            has_table ? interpreter().layout->lines : PythonLines::kNone,
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

/// Finds the number by the content, and defines the code object if it has none.
[[gnu::noinline]] std::uint32_t number_by_content(std::uint64_t code, recorder::Stream& stream) noexcept {
  const Content content = content_of(code);
  const Hash hash = hash_of(content);
  const std::uint64_t key = hash.first | 1;  // not 0
  const auto check = static_cast<std::uint32_t>(hash.second >> 32);
  if (const std::uint32_t known = g_by_content.find(key, check)) return known;
  if (__atomic_load_n(&g_last_number, __ATOMIC_RELAXED) >= kMaxNumber) return 0;
  const std::uint32_t number = __atomic_add_fetch(&g_last_number, 1, __ATOMIC_RELAXED);
  if (!define(number, content, stream)) return 0;
  g_by_content.store(key, check, number);
  return number;
}

}  // namespace

std::uint32_t code_version(std::uint64_t code) noexcept {
  const std::uint16_t offset = interpreter().layout->code_version;
  return offset == 0 ? 0 : load<std::uint32_t>(code + offset);
}

std::uint32_t code_number(std::uint64_t code, std::uint64_t interpreter_state, recorder::Stream& stream) noexcept {
  // Addresses have 47 bits; the upper ones distinguish interpreters.
  const std::uint64_t key = code | (interpreter_state * 0x9e3779b97f4a7c15) >> 48 << 48;
  const std::uint32_t version = code_version(code);
  if (version != 0) {
    if (const std::uint32_t known = g_by_address.find(key, version)) return known;
  }
  if (load<std::uint64_t>(code + kObjectType) != interpreter().code_type) return 0;
  // The object is being freed, and may have lost its names already.
  if (load<std::uint64_t>(code) == 0) return g_by_address.find(key, version);
  const std::uint32_t number = number_by_content(code, stream);
  if (number != 0 && (version != 0 || g_by_address.find(key, version) != number))
    g_by_address.store(key, version, number);
  return number;
}

void forget_code_objects() noexcept {
  g_by_address.reset();
  g_by_content.reset();
  g_last_number = 0;
}

}  // namespace heapprof::python
