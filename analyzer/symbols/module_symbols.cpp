#include "analyzer/symbols/module_symbols.h"

#include <algorithm>
#include <climits>
#include <unordered_map>
#include <utility>

#include "analyzer/base/chosen_key_hash.h"
#include "common/varint.h"

namespace heapprof::symbols {

namespace {

constexpr std::uint64_t kSymbolsMagic = 0x31454d414e465048;                 // "HPFNAME1"
constexpr std::uint64_t kSymbolsWithDefinitionsMagic = 0x32454d414e465048;  // "HPFNAME2"

class Encoder {
 public:
  void number(std::uint64_t value) {
    std::uint8_t bytes[kMaxVarintBytes];
    const std::uint8_t* const end = put_varint(bytes, value);
    body_.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes));
  }
  /// `text` must stay valid until table() is called.
  void text(std::string_view text) {
    if (text.empty()) return number(0);
    const auto [known, is_new] = numbers_.try_emplace(text, strings_.size() + 1);
    if (is_new) strings_.push_back(text);
    number(known->second);
  }
  /// The strings, then everything else. Call once.
  std::string table() {
    std::string body = std::move(body_);
    body_.clear();
    number(strings_.size());
    for (const std::string_view text : strings_) {
      number(text.size());
      body_.append(text);
    }
    return std::move(body_) + body;
  }

 private:
  std::string body_;
  std::unordered_map<std::string_view, std::uint64_t, ChosenTextHash> numbers_;
  std::vector<std::string_view> strings_;
};

/// Reads the format of Encoder. After the first error, ok() is false and all results are 0 or empty.
class Decoder {
 public:
  Decoder(std::string_view bytes, std::size_t max_decoded_bytes)
      : at_(reinterpret_cast<const std::uint8_t*>(bytes.data())), end_(at_ + bytes.size()),
        decoded_left_(max_decoded_bytes) {
    const std::uint64_t strings = count(2);  // a length and at least one byte each
    strings_.reserve(strings);
    for (std::uint64_t i = 0; i < strings && ok_; ++i) {
      const std::uint64_t size = number();
      if (size == 0 || size > left()) {
        fail();
        return;
      }
      strings_.emplace_back(reinterpret_cast<const char*>(at_), size);
      at_ += size;
    }
  }

  std::uint64_t number() {
    std::uint64_t value = 0;
    const std::uint8_t* const next = ok_ ? get_varint(at_, end_, value) : nullptr;
    if (next == nullptr) {
      fail();
      return 0;
    }
    at_ = next;
    return value;
  }
  /// A number of items, each of which has at least `min_bytes`.
  std::uint64_t count(std::size_t min_bytes) {
    const std::uint64_t value = number();
    if (value <= left() / min_bytes) return value;
    fail();
    return 0;
  }
  std::string text() {
    const std::uint64_t value = number();
    if (value == 0) return {};
    if (value > strings_.size()) {
      fail();
      return {};
    }
    const std::string_view text = strings_[value - 1];
    return take(text.size()) ? std::string(text) : std::string();
  }
  /// Counts memory of the result against its limit: a short table can refer to a long string any number of times, and
  /// an item has more bytes in memory than in the table. False: the limit is exceeded.
  bool take(std::size_t bytes) {
    if (bytes > decoded_left_) fail();
    if (!ok_) return false;
    decoded_left_ -= bytes;
    return true;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return at_ == end_; }

 private:
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  void fail() { ok_ = false; }

  const std::uint8_t* at_;
  const std::uint8_t* const end_;
  std::size_t decoded_left_;
  std::vector<std::string_view> strings_;
  bool ok_ = true;
};

/// Whether `line` is encoded as the distance from the start of the function.
bool has_no_source(const SourceFrame& frame) { return frame.function.empty() && frame.file.empty(); }

/// The distance plus one; 0: unknown, or too large for a line number.
std::uint64_t encode_distance(std::uint64_t address, std::uint64_t begin) {
  const std::uint64_t distance = address - begin;
  return begin == 0 || begin > address || distance >= INT_MAX ? 0 : distance + 1;
}

bool has_definition_file(const SourceFrame& frame) { return !frame.definition_file.empty(); }

bool has_definition_files(const std::vector<ModuleSymbols>& modules) {
  return std::ranges::any_of(modules, [](const ModuleSymbols& module) {
    return std::ranges::any_of(module.frames, [](const std::vector<SourceFrame>& frames) {
      return std::ranges::any_of(frames, has_definition_file);
    });
  });
}

std::optional<std::vector<ModuleSymbols>> decode_table(std::string_view table, bool with_definitions,
                                                       std::size_t max_decoded_bytes) {
  Decoder decoder(table, max_decoded_bytes);
  std::vector<ModuleSymbols> modules;
  const std::uint64_t module_count = decoder.count(6);
  for (std::uint64_t m = 0; m < module_count && decoder.take(sizeof(ModuleSymbols)); ++m) {
    ModuleSymbols& module = modules.emplace_back();
    module.path = decoder.text();
    module.build_id_hex = decoder.text();
    module.map_bytes = decoder.number();
    for (std::uint64_t i = decoder.count(1); i > 0 && decoder.take(sizeof(std::string)); --i)
      module.warnings.push_back(decoder.text());
    module.why_unnamed = decoder.text();
    std::uint64_t address = 0;
    const std::uint64_t addresses = decoder.count(2);
    for (std::uint64_t i = 0; i < addresses && decoder.ok(); ++i) {  // each has a frame
      const std::uint64_t delta = decoder.number();
      if (i != 0 && (delta == 0 || delta > UINT64_MAX - address)) return std::nullopt;
      address += delta;
      module.addresses.push_back(address);
      std::vector<SourceFrame>& frames = module.frames.emplace_back();
      for (std::uint64_t f = decoder.count(with_definitions ? 4 : 3); f > 0 && decoder.take(sizeof(SourceFrame));
           --f) {
        SourceFrame& frame = frames.emplace_back();
        frame.function = decoder.text();
        frame.file = decoder.text();
        const std::uint64_t line = decoder.number();
        if (line >> 1 > INT_MAX) return std::nullopt;
        frame.inlined = (line & 1) != 0;
        if (!has_no_source(frame)) frame.line = static_cast<int>(line >> 1);
        else if (line >> 1 != 0 && (line >> 1) - 1 < address) frame.function_begin = address - ((line >> 1) - 1);
        if (with_definitions) frame.definition_file = decoder.text();
      }
      if (frames.empty() || frames.back().inlined) return std::nullopt;
    }
  }
  if (!decoder.ok() || !decoder.at_end()) return std::nullopt;
  return modules;
}

}  // namespace

const std::vector<SourceFrame>* ModuleSymbols::find(std::uint64_t address) const {
  const auto at = std::lower_bound(addresses.begin(), addresses.end(), address);
  if (at == addresses.end() || *at != address) return nullptr;
  return &frames[static_cast<std::size_t>(at - addresses.begin())];
}

std::string encode_symbols(const std::vector<ModuleSymbols>& modules) {
  const bool with_definitions = has_definition_files(modules);
  Encoder encoder;
  encoder.number(modules.size());
  for (const ModuleSymbols& module : modules) {
    encoder.text(module.path);
    encoder.text(module.build_id_hex);
    encoder.number(module.map_bytes);
    encoder.number(module.warnings.size());
    for (const std::string& warning : module.warnings) encoder.text(warning);
    encoder.text(module.why_unnamed);
    encoder.number(module.addresses.size());
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < module.addresses.size(); ++i) {
      encoder.number(module.addresses[i] - before);
      before = module.addresses[i];
      encoder.number(module.frames[i].size());
      for (const SourceFrame& frame : module.frames[i]) {
        encoder.text(frame.function);
        encoder.text(frame.file);
        std::uint64_t line = static_cast<std::uint64_t>(std::max(frame.line, 0));
        if (has_no_source(frame)) line = encode_distance(module.addresses[i], frame.function_begin);
        encoder.number(line << 1 | (frame.inlined ? 1 : 0));
        if (with_definitions) encoder.text(frame.definition_file);
      }
    }
  }
  return pack_table(with_definitions ? kSymbolsWithDefinitionsMagic : kSymbolsMagic, encoder.table(), "the symbols");
}

std::optional<std::vector<ModuleSymbols>> decode_symbols(std::string_view encoded, std::size_t max_decoded_bytes) {
  if (const std::optional<std::string> table = unpack_table(kSymbolsMagic, encoded))
    return decode_table(*table, false, max_decoded_bytes);
  if (const std::optional<std::string> table = unpack_table(kSymbolsWithDefinitionsMagic, encoded))
    return decode_table(*table, true, max_decoded_bytes);
  return std::nullopt;
}

std::shared_ptr<const std::vector<ModuleSymbols>> decode_shared_symbols(std::string_view encoded) {
  std::optional<std::vector<ModuleSymbols>> modules = decode_symbols(encoded);
  return modules ? std::make_shared<const std::vector<ModuleSymbols>>(std::move(*modules)) : nullptr;
}

}  // namespace heapprof::symbols
