#include "analyzer/rss/resident_lines.h"

#include <algorithm>

namespace heapprof::rss {

const char* name_of(Line line) noexcept {
  switch (line) {
    case Line::kRequested: return "requested";
    case Line::kRounding: return "rounding";
    case Line::kHoles: return "holes";
    case Line::kHeldBack: return "held_back";
    case Line::kReturnable: return "returnable";
    case Line::kMetadata: return "metadata";
    case Line::kMmap: return "mmap";
    case Line::kFiles: return "files";
    case Line::kStacks: return "stacks";
    case Line::kShared: return "shared";
    case Line::kRecorder: return "recorder";
    case Line::kUnknown: break;
  }
  return "unknown";
}

void PartAdder::add(Line line, const Part& part) {
  LineFigures& figures = memory_[line];
  figures.bytes += part.bytes;
  const auto [at, fresh] = positions_.try_emplace({line, part.node, part.name, part.writable}, figures.parts.size());
  if (fresh) figures.parts.push_back(part);
  else figures.parts[at->second].bytes += part.bytes;
}

void sort_parts(ResidentMemory& memory) {
  for (LineFigures& line : memory.lines)
    std::stable_sort(line.parts.begin(), line.parts.end(),
                     [](const Part& a, const Part& b) { return a.bytes > b.bytes; });
}

}  // namespace heapprof::rss
