// Decompresses ELF sections that are compressed with zstd (SHF_COMPRESSED with ELFCOMPRESS_ZSTD, as by
// objcopy --compress-debug-sections=zstd). elfutils supports them from 0.189 on, and Debian 12 has 0.188.
#pragma once

#include "analyzer/symbols/file_descriptor.h"

namespace heapprof::symbols {

/// A copy of `file` in memory (memfd) with the decompressed sections at its end and section headers that point to
/// them. `file` itself if it has no such section. Sections that are damaged, or would exceed 4 GiB, stay compressed.
FileDescriptor with_decompressed_sections(FileDescriptor file);

}  // namespace heapprof::symbols
