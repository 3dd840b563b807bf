#include "analyzer/model/python_frames.h"

#include "common/trace_format.h"

namespace heapprof::model {
namespace {

constexpr std::size_t kLost = static_cast<std::size_t>(-1);

std::string content_of(const trace::PythonCode& code) {
  std::string content = std::to_string(code.first_line) + ' ' + std::to_string(static_cast<unsigned>(code.lines)) +
                        ' ' + std::to_string(code.file.size()) + ' ' + std::to_string(code.name.size()) + ' ';
  return content.append(code.file).append(code.name).append(code.table);
}

}  // namespace

std::size_t PythonFrames::code_of(std::uint32_t number) {
  const auto [at, fresh] = code_of_.try_emplace(number, kLost);
  if (!fresh) return at->second;
  const trace::PythonCode* const code = python_.find(number);
  if (code == nullptr) return kLost;
  const auto [same, is_new] = code_of_content_.try_emplace(content_of(*code), codes_.size());
  if (is_new) codes_.push_back({code, symbols::python::CodeLines(code->lines, code->table, code->first_line), {}});
  return at->second = same->second;
}

std::uint64_t PythonFrames::unified_lost(std::uint32_t number) {
  const std::uint64_t offset = python_offset(number, 0);
  symbols::SourceFrame frame;
  frame.function = "(unknown Python code) +" + std::to_string(number);
  lost_ += frames_.try_emplace(offset, std::move(frame)).second;
  return offset;
}

std::uint64_t PythonFrames::unified(std::uint64_t offset) {
  const auto [known, fresh] = known_.try_emplace(offset, 0);
  if (!fresh) return known->second;
  const std::uint32_t number = python_code(offset);
  const std::size_t position = code_of(number);
  if (position == kLost) return known->second = unified_lost(number);
  Code& code = codes_[position];
  const int line = code.lines.line_of(python_instruction(offset));
  const auto [at, is_new] = code.offset_of_line.try_emplace(line, offset);
  if (is_new) {
    symbols::SourceFrame frame;
    frame.function = code.definition->name.empty() ? "(unnamed)" : code.definition->name;
    frame.file = code.definition->file;
    frame.line = line;
    frame.definition_line = code.lines.line_of(kPythonNoInstruction);
    frames_.try_emplace(offset, std::move(frame));
  }
  return known->second = at->second;
}

std::shared_ptr<const symbols::ModuleSymbols> PythonFrames::symbols() const {
  auto symbols = std::make_shared<symbols::ModuleSymbols>();
  symbols->path = python_module_path(python_);
  for (const auto& [offset, frame] : frames_) {
    symbols->addresses.push_back(offset);
    symbols->frames.push_back({frame});
  }
  return symbols;
}

std::string python_module_path(const trace::PythonDefinitions& python) {
  std::string path;
  for (const trace::PythonInterpreter& interpreter : python.interpreters()) {
    if (!interpreter.why_off.empty() || interpreter.version == 0) continue;
    const std::string one = "Python " + trace::version_text(interpreter.version & 0xffff0000);
    if (!path.empty() && path != one) return "Python";
    path = one;
  }
  return path.empty() ? "Python" : path;
}

}  // namespace heapprof::model
