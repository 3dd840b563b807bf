// The state of a recording, for commands that answer many questions about it: whether it changes, and whether it
// needs an index.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/replay/index/index_cache.h"

namespace heapprof::cli {

/// Whether its program is recorded now. False also of a file that cannot be read.
bool is_running(const std::string& path);

/// Which file it is, how long, and when it was last written to. Empty: it is being written.
std::string state_of(const std::string& path);

/// The command line that writes an index of a recording with at least `min_bytes` of frames to the cache, without the
/// program. What it prints does not matter. Empty: the recording needs no index, or has one.
std::vector<std::string> index_words(const std::string& path, std::uint64_t min_bytes = replay::kMinBytesForIndex);

}  // namespace heapprof::cli
