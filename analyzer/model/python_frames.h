// The lines of Python programs that a call tree refers to: equal ones are one address, and each has its name.
//
// A program that defines a function in a loop, or calls exec, has many code objects with equal contents; they are one
// here. So are the instructions of a source line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/symbols/module_symbols.h"
#include "analyzer/symbols/python/code_lines.h"
#include "analyzer/trace/events/python_code.h"

namespace heapprof::model {

class PythonFrames {
 public:
  /// `python` must outlive this.
  explicit PythonFrames(const trace::PythonDefinitions& python) : python_(python) {}

  /// The offset that takes the place of a node's offset (python_offset()): equal lines of equal functions have equal
  /// ones.
  std::uint64_t unified(std::uint64_t offset);

  /// The frame of each unified offset.
  std::shared_ptr<const symbols::ModuleSymbols> symbols() const;
  /// How many unified offsets have a code object that is not in the trace.
  std::uint64_t lost() const noexcept { return lost_; }

 private:
  struct Code {
    const trace::PythonCode* definition;
    symbols::python::CodeLines lines;
    std::map<int, std::uint64_t> offset_of_line;
  };
  std::size_t code_of(std::uint32_t number);
  std::uint64_t unified_lost(std::uint32_t number);

  const trace::PythonDefinitions& python_;
  std::vector<Code> codes_;                                                       // distinct
  std::unordered_map<std::uint32_t, std::size_t, ChosenKeyHash> code_of_;         // by number: in codes_, or kLost
  std::unordered_map<std::string, std::size_t, ChosenTextHash> code_of_content_;  // in codes_
  std::unordered_map<std::uint64_t, std::uint64_t, ChosenKeyHash> known_;         // by offset
  std::map<std::uint64_t, symbols::SourceFrame> frames_;                          // by unified offset
  std::uint64_t lost_ = 0;
};

/// The path that models have for ModuleId::kPython: "Python 3.11", or "Python" if there are several versions.
std::string python_module_path(const trace::PythonDefinitions& python);

}  // namespace heapprof::model
