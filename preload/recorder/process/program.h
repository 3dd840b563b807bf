// Which program this process runs.
#pragma once

namespace heapprof::recorder {

/// The program's absolute path, by the name that it was executed by; "" before find_program(), or when there is none.
const char* program_path() noexcept;

/// Finds the path. While the recorder starts; does nothing when it is known already.
void find_program() noexcept;

}  // namespace heapprof::recorder
