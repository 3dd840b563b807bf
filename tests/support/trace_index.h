// An index beside a trace of a test, with snapshots as close together as the test needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "analyzer/base/atomic_file.h"
#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/index/index.h"

namespace heapprof::test {

inline constexpr replay::IndexUse kNoIndex{.use = false, .keep = false};
inline constexpr replay::IndexUse kIndex{.use = true, .keep = false};

/// Writes the index of `path` beside it, with snapshots `interval` records apart; returns its path.
inline std::string index_trace(const std::string& path, std::uint64_t interval) {
  const trace::TraceFile file(path);
  AtomicFile out(replay::index_beside(file));
  replay::write_index_header(out, file);
  replay::add_index(out, file, interval);
  out.finish();
  return replay::index_beside(file);
}

/// Removes the index at the end of its scope.
struct Removed {
  std::string path;
  ~Removed() { std::filesystem::remove(path); }
};

}  // namespace heapprof::test
