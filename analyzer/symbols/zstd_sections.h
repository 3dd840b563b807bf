// Sections compressed by zstd (SHF_COMPRESSED with ch_type 2, objcopy --compress-debug-sections=zstd), which elfutils
// reads from version 0.189 on and Debian 12 has an older one: such a file is copied to memory with these sections
// unpacked behind its end and their headers pointing there. Other files stay as they are.
#pragma once

#include "analyzer/symbols/file_descriptor.h"

namespace heapprof::symbols {

/// `file` itself, or the copy. What is broken or would take more than 4 GiB stays packed.
FileDescriptor with_decompressed_sections(FileDescriptor file);

}  // namespace heapprof::symbols
