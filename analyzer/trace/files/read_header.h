// Reads the header of a trace that may just be being created.
//
// The recorder creates the file, fills the header and stores the magic number last (common/trace_format.h). A machine
// under load may let it wait in between, so whoever reads at this moment waits, too.
#pragma once

#include <cstddef>

#include "analyzer/trace/files/input_file.h"
#include "common/trace_format.h"

namespace heapprof::trace {

/// Reads the beginning of the file into `header` and returns the number of bytes read; fewer than sizeof header: the
/// file ends there. Waits for at most a second while the file is empty or begins with zeros, if it was changed within
/// the last second.
std::size_t read_header(const InputFile& input, FileHeader& header);

/// Whether the header of a trace was filled, but its magic number never stored: the program ended before.
bool is_unfinished(const FileHeader& header) noexcept;

}  // namespace heapprof::trace
