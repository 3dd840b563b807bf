// A recording of which every figure is known, for tests of the commands.
//
//   at ms  thread  does
//      10  main    allocates A, 1 KiB, in main > load
//      20  main    allocates B, 2 KiB, in main > parse
//      30  worker  allocates C, 4 KiB, in work: A, B and C are the peak
//      40  main    frees B
//      50  worker  frees A
//      60  main    allocates D, 256 bytes, in main > parse, and frees it half a millisecond later
//      70  main    allocates E, 512 bytes, in main > load
//     100  main    samples resident memory; end of the recording, C and E are live
//
// B and D are temporary: their thread allocates nothing between allocation and free. work is in
// /opt/known/libwork.so, the other functions are in /opt/known/demo. Neither file exists, so functions are named by
// module and offset.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/temporary_file.h"

namespace heapprof::test {

inline constexpr std::uint64_t kMs = 1'000'000;  ///< in ns
inline constexpr std::uint32_t kMainTid = 4242, kParentPid = 4241;
inline constexpr std::uint32_t kWorkerTid = 4243;
inline constexpr const char* kMainName = "demo+0x100";
inline constexpr const char* kLoadName = "demo+0x200";
inline constexpr const char* kParseName = "demo+0x300";
inline constexpr const char* kWorkName = "libwork.so+0x400";

inline constexpr std::uint64_t kA = 1024, kB = 2048, kC = 4096, kD = 256, kE = 512;
inline constexpr std::uint64_t kPeakBytes = kA + kB + kC;
inline constexpr std::uint64_t kLeakedBytes = kC + kE;
inline constexpr std::uint64_t kAllocatedBytes = kA + kB + kC + kD + kE;
inline constexpr std::uint64_t kAllocations = 5, kFrees = 3, kPeakBlocks = 3, kLeakedBlocks = 2, kTemporary = 2;
inline constexpr std::uint64_t kPeakNs = 30 * kMs, kDurationNs = 100 * kMs;
inline constexpr std::uint64_t kResidentBytes = 9 << 20;

enum class Variant {
  kUndamaged,
  kTwice,    ///< the blocks have twice the size
  kDamaged,  ///< one byte of the main thread's events is changed; the worker's events are undamaged
  kEmpty,    ///< nothing was allocated
};

/// The recording in a temporary file.
class KnownTrace {
 public:
  explicit KnownTrace(Variant variant = Variant::kUndamaged);
  const std::string& path() const noexcept { return file_.path(); }

 private:
  TemporaryFile file_;
};

/// A path at which there is no file.
inline constexpr const char* kNoFile = "/dev/null/no-such-file";

}  // namespace heapprof::test
