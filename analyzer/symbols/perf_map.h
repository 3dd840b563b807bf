// Function names of code that a just-in-time compiler generated, from the map that it writes for perf:
// /tmp/perf-PID.map, a line "START SIZE NAME" for each piece of code, with hexadecimal numbers. Lines of discarded
// code stay in the file; where pieces overlap, the later line is valid.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "analyzer/symbols/source_frame.h"
#include "analyzer/symbols/symbolizer_input.h"

namespace heapprof::symbols {

class PerfMap {
 public:
  enum class Result : std::uint8_t {
    kRead,
    kMissing,   ///< it cannot be opened, or is not a regular file
    kOutdated,  ///< it was last modified before the period: an earlier process wrote it
    kLater,     ///< it was last modified after the period: a later process with the same pid wrote it
    kForeign,   ///< its owner is neither root nor the current user: anybody can write to /tmp
  };

  enum class Owner { kRootOrSelf, kAny };

  /// When the recorded process can have written the file, in nanoseconds since 1970.
  struct Period {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = ~std::uint64_t{0};
  };

  /// Reads the file at `path`, at most kMaxBytes of it. Ignores lines in another format. Sets `owner` if the result
  /// is kForeign, which it never is if `allowed` is kAny.
  Result read(const std::string& path, Period period, uid_t& owner, Owner allowed = Owner::kRootOrSelf);

  /// The function at `address`; its name is empty if there is none.
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

/// Finds and reads the map of `process`: in the root of the running process, below the sysroot, or here. False, with
/// `reason`: there is none, or it is not trusted.
bool find_perf_map(const Options& options, const RecordedProcess& process, PerfMap& map, std::string& reason);

/// Splits a name in V8's format ("JS:*work /srv/app.js:12:3") into function, file and line. Any other name is the
/// name of the function.
SourceFrame frame_of_jit_name(const std::string& name);

}  // namespace heapprof::symbols
