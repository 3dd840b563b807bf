// The stacks in exported files, as readers of the formats see them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heapprof::test {

struct ExportedStack {
  /// "FUNCTION (FILE:LINE)" of each frame, innermost first; FILE without its directory. What is unknown is left out.
  std::vector<std::string> frames;
  std::uint64_t bytes = 0;  ///< live at the end
};
using ExportedStacks = std::vector<ExportedStack>;

/// The contents of a file, which may be compressed by gzip.
std::string read_uncompressed(const std::string& path);

/// Of the contents of a file. They throw std::exception if it is not of the format.
ExportedStacks stacks_of_pprof(const std::string& contents);
ExportedStacks stacks_of_heaptrack(const std::string& contents);
/// Of a function that has several lines, the format has none.
ExportedStacks stacks_of_speedscope(const std::string& contents);
ExportedStacks stacks_of_dhat(const std::string& contents);

/// The bytes of the stacks that contain `frame`.
std::uint64_t bytes_with(const ExportedStacks& stacks, const std::string& frame);
/// The bytes of all stacks.
std::uint64_t bytes_of(const ExportedStacks& stacks);

}  // namespace heapprof::test
