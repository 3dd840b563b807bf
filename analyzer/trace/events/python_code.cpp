#include "analyzer/trace/events/python_code.h"

#include <cstring>
#include <optional>
#include <utility>

namespace heapprof::trace {
namespace {

/// Bytes of a code object's whole text, by its beginning; nullopt: that is too short.
std::optional<std::uint64_t> whole_bytes(std::string_view text, PythonCodeText& fixed) {
  if (text.size() < sizeof fixed) return std::nullopt;
  std::memcpy(&fixed, text.data(), sizeof fixed);
  return sizeof fixed + std::uint64_t{fixed.file_bytes} + fixed.name_bytes + fixed.table_bytes;
}

}  // namespace

void PythonDefinitions::add_interpreter(PythonInterpreter interpreter) {
  for (const PythonInterpreter& known : interpreters_)
    if (known == interpreter) return;
  if (interpreters_.size() < kMaxInterpreters) interpreters_.push_back(std::move(interpreter));
}

void PythonDefinitions::add_piece(std::uint64_t number, std::uint64_t piece, std::string_view text) {
  if (number == 0 || number > 0xffffffff) {
    ++malformed_;
    return;
  }
  const auto id = static_cast<std::uint32_t>(number);
  PythonCodeText fixed;
  if (piece == 0) {
    begun_.erase(id);
    const std::optional<std::uint64_t> bytes = whole_bytes(text, fixed);
    if (!bytes || text.size() > *bytes) {
      ++malformed_;
    } else if (text.size() == *bytes) {
      complete(id, text);
    } else {
      begun_[id] = {1, std::string(text)};
    }
    return;
  }
  const auto at = begun_.find(id);
  if (at == begun_.end()) return;  // its first piece is missing, or malformed
  Begun& begun = at->second;
  if (piece < begun.pieces) return;  // a piece twice
  if (piece == begun.pieces) {
    ++begun.pieces;
    begun.text += text;
    const std::uint64_t bytes = *whole_bytes(begun.text, fixed);
    if (begun.text.size() < bytes) return;
    if (begun.text.size() == bytes) {
      complete(id, begun.text);
      begun_.erase(at);
      return;
    }
  }
  ++malformed_;
  begun_.erase(at);
}

void PythonDefinitions::complete(std::uint32_t number, std::string_view text) {
  PythonCodeText fixed;
  whole_bytes(text, fixed);
  text.remove_prefix(sizeof fixed);
  PythonCode code;
  code.number = number;
  code.first_line = fixed.first_line;
  if (fixed.lines <= PythonLines::kLocations) code.lines = fixed.lines;
  code.file = text.substr(0, fixed.file_bytes);
  code.name = text.substr(fixed.file_bytes, fixed.name_bytes);
  code.table = text.substr(std::size_t{fixed.file_bytes} + fixed.name_bytes);
  const auto [at, fresh] = position_.try_emplace(number, codes_.size());
  if (fresh) codes_.push_back(std::move(code));
  else if (codes_[at->second] != code) ++contradictory_;
}

const PythonCode* PythonDefinitions::find(std::uint32_t number) const noexcept {
  const auto at = position_.find(number);
  return at == position_.end() ? nullptr : &codes_[at->second];
}

std::string version_text(std::uint32_t version) {
  if (version == 0) return {};
  const auto part = [version](unsigned shift, unsigned mask) { return std::to_string(version >> shift & mask); };
  std::string text = part(24, 0xff) + "." + part(16, 0xff) + "." + part(8, 0xff);
  switch (version >> 4 & 0xf) {
    case 0: return part(24, 0xff) + "." + part(16, 0xff);  // the recorder found no more
    case 0xa: return text + "a" + part(0, 0xf);
    case 0xb: return text + "b" + part(0, 0xf);
    case 0xc: return text + "rc" + part(0, 0xf);
    default: return text;
  }
}

void save(const PythonDefinitions& python, ByteWriter& out) {
  out.number(python.interpreters_.size());
  for (const PythonInterpreter& interpreter : python.interpreters_) {
    out.number(interpreter.version);
    out.text(interpreter.why_off);
  }
  out.number(python.malformed_);
  out.number(python.contradictory_);
  out.number(python.codes_.size());
  for (const PythonCode& code : python.codes_) {
    out.number(code.number);
    out.number(code.first_line);
    out.number(static_cast<std::uint64_t>(code.lines));
    out.text(code.file);
    out.text(code.name);
    out.text(code.table);
  }
}

PythonDefinitions load_python(ByteReader& in) {
  PythonDefinitions python;
  python.interpreters_.resize(in.number_up_to(PythonDefinitions::kMaxInterpreters));
  for (PythonInterpreter& interpreter : python.interpreters_) {
    interpreter.version = in.number32();
    interpreter.why_off = in.text();
  }
  python.malformed_ = in.number();
  python.contradictory_ = in.number();
  const std::size_t codes = in.count();
  for (std::size_t i = 0; i < codes; ++i) {
    PythonCode code;
    code.number = in.number32();
    code.first_line = in.number32();
    code.lines = static_cast<PythonLines>(in.number_up_to(static_cast<std::uint64_t>(PythonLines::kLocations)));
    code.file = in.text();
    code.name = in.text();
    code.table = in.text();
    if (!python.position_.try_emplace(code.number, python.codes_.size()).second)
      throw FormatError("it has a code object of Python twice");
    python.codes_.push_back(std::move(code));
  }
  in.expect_end();
  return python;
}

}  // namespace heapprof::trace
