// The text of a code object of Python, as the recorder writes it (PythonCodeText), for generated traces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/trace_format.h"

namespace heapprof::test {

inline std::string python_code_text(std::string_view file, std::string_view name, std::uint32_t first_line,
                                    PythonLines lines = PythonLines::kNone, std::string_view table = {}) {
  const PythonCodeText fixed{first_line,
                             lines,
                             static_cast<std::uint32_t>(file.size()),
                             static_cast<std::uint32_t>(name.size()),
                             static_cast<std::uint32_t>(table.size()),
                             0};
  std::string text(reinterpret_cast<const char*>(&fixed), sizeof fixed);
  return text.append(file).append(name).append(table);
}

}  // namespace heapprof::test
