// The code of _PyEval_EvalFrameDefault, by which evaluations are recognized in 3.8 and 3.9, where nothing on their C
// stack is linked. Compilers split the function, and its symbol may cover only a small part.
#pragma once

#include <cstdint>

#include "preload/unwind/elf_object.h"

namespace heapprof::python {

/// As addresses in the ELF file. Zeroed memory is valid: there is none.
struct EvaluationCode {
  unwind::Span main;
  unwind::Span cold;  ///< the part that is seldom executed; empty: the function was not split

  bool exists() const noexcept { return main.end != 0; }
  /// Whether a frame that returns to `offset` is an evaluation.
  bool contains(std::uint64_t offset) const noexcept {
    return (offset > main.begin && offset <= main.end) || (offset > cold.begin && offset <= cold.end);
  }
};

/// Finds the code of the function that begins at `function`, by unwind information. The split-off part is that into
/// whose middle the function jumps. Precondition: the module is loaded during the call.
EvaluationCode find_evaluation_code(const unwind::Span& module, std::uint64_t load_bias,
                                    std::uint64_t function) noexcept;

}  // namespace heapprof::python
