// The path of the program that this process runs.
#pragma once

namespace heapprof::recorder {

/// The absolute path under which the program was executed; "" before find_program(), or if the path is unknown.
const char* program_path() noexcept;

/// Finds the path. Called while the recorder starts; does nothing if the path is already known.
void find_program() noexcept;

}  // namespace heapprof::recorder
