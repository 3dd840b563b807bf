// Names of code that a program made while it ran, from the map that just-in-time compilers write for perf:
// /tmp/perf-PID.map, a line "start size name" for each piece, numbers in hex. Code that was thrown away stays
// in it, so of pieces at one place the last one counts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "analyzer/symbols/symbolizer.h"

namespace heapprof::symbols {

class PerfMap {
 public:
  enum class Result : std::uint8_t {
    kRead,
    kMissing,   ///< it cannot be opened, or is not a regular file
    kOutdated,  ///< it was last written before `written_since_ns`: by an earlier process
    kForeign,   ///< it belongs to neither root nor this process's user: anybody can write into /tmp
  };

  enum class Owner { kRootOrSelf, kAny };

  /// Reads the file at `path`; lines of another form are skipped. At most kMaxBytes are read. `written_since_ns`
  /// counts from 1970. `owner` is set when the result is kForeign, which it never is when `allowed` is kAny.
  Result read(const std::string& path, std::uint64_t written_since_ns, uid_t& owner,
              Owner allowed = Owner::kRootOrSelf);

  /// The code around `address`. V8's names ("JS:*work /srv/app.js:12:3") are taken apart into function, file
  /// and line. No function: there is none.
  SourceFrame find(std::uint64_t address) const;

  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

 private:
  struct Piece {
    std::uint64_t end;
    std::string name;
  };
  void add(std::uint64_t begin, std::uint64_t end, std::string name);

  std::map<std::uint64_t, Piece> pieces_;  ///< by begin, disjoint
};

/// Finds and reads the map of the process that `origin` names: in its own root when it runs, below the sysroot,
/// here. False, with `reason`, when there is none that can be believed.
bool find_perf_map(const Options& options, const Origin& origin, PerfMap& map, std::string& reason);

/// V8's names taken apart; any other is a function's name as it is.
SourceFrame frame_of_jit_name(const std::string& name);

}  // namespace heapprof::symbols
