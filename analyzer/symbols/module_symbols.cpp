#include "analyzer/symbols/module_symbols.h"

#include <zstd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <unordered_map>

#include "common/checksum.h"
#include "common/varint.h"

namespace heapprof::symbols {

namespace {

constexpr std::uint64_t kMagic = 0x31454d414e465048;  // "HPFNAME1"
constexpr int kLevel = 9;

struct Header {
  std::uint64_t magic;
  std::uint64_t raw_bytes;
  std::uint64_t packed_bytes;
  std::uint64_t checksum;
};
static_assert(sizeof(Header) == 32);

/// No table of different names is packed better than this.
std::uint64_t max_raw_bytes(std::uint64_t packed_bytes) {
  return std::min<std::uint64_t>(kMaxTableBytes, (std::uint64_t{16} << 20) + 64 * packed_bytes);
}

class Encoder {
 public:
  void number(std::uint64_t value) {
    std::uint8_t bytes[kMaxVarintBytes];
    const std::uint8_t* const end = put_varint(bytes, value);
    body_.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes));
  }
  /// `text` is kept by reference until whole() was called.
  void text(std::string_view text) {
    if (text.empty()) return number(0);
    const auto [known, fresh] = numbers_.try_emplace(text, strings_.size() + 1);
    if (fresh) strings_.push_back(text);
    number(known->second);
  }
  std::string whole() {
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
  std::unordered_map<std::string_view, std::uint64_t> numbers_;
  std::vector<std::string_view> strings_;
};

/// Reads what Encoder wrote; after the first thing that does not fit everything is 0 and ok() false.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes)
      : at_(reinterpret_cast<const std::uint8_t*>(bytes.data())), end_(at_ + bytes.size()) {
    const std::uint64_t strings = count(2);  // none is empty
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
  /// A number of things that take `bytes` each at least.
  std::uint64_t count(std::size_t bytes) {
    const std::uint64_t value = number();
    if (value <= left() / bytes) return value;
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
    return std::string(strings_[value - 1]);
  }
  bool ok() const { return ok_; }
  bool at_end() const { return at_ == end_; }

 private:
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  void fail() { ok_ = false; }

  const std::uint8_t* at_;
  const std::uint8_t* const end_;
  std::vector<std::string_view> strings_;
  bool ok_ = true;
};

/// A short table may stand for long texts repeated without end: the sum is limited, too.
class TextBudget {
 public:
  bool take(std::size_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  std::size_t left_ = 2 * kMaxTableBytes;
};

/// A line would mean nothing: its place holds where the function begins.
bool has_no_source(const SourceFrame& frame) { return frame.function.empty() && frame.file.empty(); }

/// Plus one; 0: unknown, or too far for a line.
std::uint64_t distance_behind_begin(std::uint64_t address, std::uint64_t begin) {
  const std::uint64_t distance = address - begin;
  return begin == 0 || begin > address || distance >= INT_MAX ? 0 : distance + 1;
}

}  // namespace

const std::vector<SourceFrame>* ModuleSymbols::find(std::uint64_t address) const {
  const auto at = std::lower_bound(addresses.begin(), addresses.end(), address);
  if (at == addresses.end() || *at != address) return nullptr;
  return &frames[static_cast<std::size_t>(at - addresses.begin())];
}

std::string encode_symbols(const std::vector<ModuleSymbols>& modules) {
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
        if (has_no_source(frame)) line = distance_behind_begin(module.addresses[i], frame.function_begin);
        encoder.number(line << 1 | (frame.inlined ? 1 : 0));
      }
    }
  }
  const std::string raw = encoder.whole();
  if (raw.size() > kMaxTableBytes) throw std::runtime_error("more names than a table of names holds");

  std::string packed(sizeof(Header) + ZSTD_compressBound(raw.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data() + sizeof(Header), packed.size() - sizeof(Header), raw.data(),
                                         raw.size(), kLevel);
  if (ZSTD_isError(size) != 0) throw std::runtime_error(ZSTD_getErrorName(size));
  packed.resize(sizeof(Header) + size);
  const Header header{kMagic, raw.size(), size, checksum(packed.data() + sizeof(Header), size)};
  std::memcpy(packed.data(), &header, sizeof header);
  return packed;
}

std::optional<std::vector<ModuleSymbols>> decode_symbols(std::string_view packed) {
  Header header;
  if (packed.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, packed.data(), sizeof header);
  const std::string_view body = packed.substr(sizeof header);
  if (header.magic != kMagic || header.packed_bytes != body.size() ||
      header.raw_bytes > max_raw_bytes(header.packed_bytes) ||
      header.checksum != checksum(body.data(), body.size()))
    return std::nullopt;
  // Memory is asked for as bytes come out, not as the header says.
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(), ZSTD_freeDStream);
  if (stream == nullptr) return std::nullopt;
  std::string raw;
  ZSTD_inBuffer in{body.data(), body.size(), 0};
  for (std::size_t more = 1; more != 0;) {
    const std::size_t had = raw.size();
    raw.resize(had + ZSTD_DStreamOutSize());
    ZSTD_outBuffer out{raw.data() + had, raw.size() - had, 0};
    more = ZSTD_decompressStream(stream.get(), &out, &in);
    raw.resize(had + out.pos);
    if (ZSTD_isError(more) != 0 || raw.size() > header.raw_bytes || (out.pos == 0 && more != 0)) return std::nullopt;
  }
  if (raw.size() != header.raw_bytes || in.pos != in.size) return std::nullopt;

  Decoder decoder(raw);
  TextBudget budget;
  std::vector<ModuleSymbols> modules;
  const std::uint64_t module_count = decoder.count(6);
  for (std::uint64_t m = 0; m < module_count && decoder.ok(); ++m) {
    ModuleSymbols& module = modules.emplace_back();
    module.path = decoder.text();
    module.build_id_hex = decoder.text();
    module.map_bytes = decoder.number();
    for (std::uint64_t i = decoder.count(1); i > 0 && decoder.ok(); --i) {
      module.warnings.push_back(decoder.text());
      if (!budget.take(module.warnings.back().size())) return std::nullopt;
    }
    module.why_unnamed = decoder.text();
    std::uint64_t address = 0;
    const std::uint64_t addresses = decoder.count(2);
    for (std::uint64_t i = 0; i < addresses && decoder.ok(); ++i) {
      const std::uint64_t delta = decoder.number();
      if (i != 0 && (delta == 0 || delta > UINT64_MAX - address)) return std::nullopt;
      address += delta;
      module.addresses.push_back(address);
      std::vector<SourceFrame>& frames = module.frames.emplace_back();
      for (std::uint64_t f = decoder.count(3); f > 0 && decoder.ok(); --f) {
        SourceFrame& frame = frames.emplace_back();
        frame.function = decoder.text();
        frame.file = decoder.text();
        const std::uint64_t line = decoder.number();
        if (line >> 1 > INT_MAX) return std::nullopt;
        frame.inlined = (line & 1) != 0;
        if (!has_no_source(frame)) frame.line = static_cast<int>(line >> 1);
        else if (line >> 1 != 0 && (line >> 1) - 1 < address) frame.function_begin = address - ((line >> 1) - 1);
        if (!budget.take(sizeof frame + frame.function.size() + frame.file.size())) return std::nullopt;
      }
      if (frames.empty() || frames.back().inlined) return std::nullopt;
    }
  }
  if (!decoder.ok() || !decoder.at_end()) return std::nullopt;
  return modules;
}

std::shared_ptr<const std::vector<ModuleSymbols>> decode_shared_symbols(std::string_view packed) {
  std::optional<std::vector<ModuleSymbols>> modules = decode_symbols(packed);
  if (!modules) return nullptr;
  return std::make_shared<const std::vector<ModuleSymbols>>(std::move(*modules));
}

}  // namespace heapprof::symbols
