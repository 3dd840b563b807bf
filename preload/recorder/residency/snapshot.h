// One snapshot of the resident pages of the process: reads the mappings and their pages, and writes them to streams
// as text records (common/residency_codec.h).
//
// A snapshot may be taken in several parts, by different threads, one at a time: each part continues where the last
// one ended, and what it has read is committed when it ends. /proc/self/maps stays open in between; the kernel
// continues there at the address that follows, as long as each read begins where the last one has ended.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/residency_codec.h"
#include "preload/recorder/clock/time_types.h"
#include "preload/recorder/residency/page_scan.h"
#include "preload/recorder/residency/resident_memory.h"
#include "preload/recorder/thread/thread_state.h"
#include "preload/sys/proc_file.h"
#include "preload/sys/proc_maps.h"

namespace heapprof::recorder {

class Snapshot {
 public:
  enum class Progress {
    kIdle,      ///< there is no snapshot
    kRunning,   ///< there is more to read
    kFinished,  ///< complete
    kFailed,    ///< ended incomplete: see error()
  };

  /// What a snapshot is read from. It is incomplete if the host closes or replaces a descriptor of these files before
  /// it ends. Nobody else opens or closes them meanwhile.
  struct Source {
    const sys::ProcFile* maps;
    const sys::ProcFile* pagemap;
    ResidentMemory memory;
    bool is_open() const noexcept { return maps->descriptor() >= 0 && pagemap->descriptor() >= 0; }
  };

  /// Begins a snapshot. An unfinished one is ended first, as incomplete. Returns false when there is no memory.
  bool begin(Stream& stream, SnapshotReason reason, const Source& source) noexcept;

  /// Continues the snapshot until it is finished or has failed, or until the time `until`, after at least one step.
  Progress run(Stream& stream, Ticks until) noexcept;

  /// Ends an unfinished snapshot as incomplete.
  void end_incomplete(Stream& stream) noexcept {
    if (unfinished()) write_end(stream, false);
  }

  /// Forgets the snapshot without writing anything.
  void drop() noexcept { __atomic_store_n(&active_, false, __ATOMIC_RELAXED); }

  /// May be called by any thread.
  bool unfinished() const noexcept { return __atomic_load_n(&active_, __ATOMIC_RELAXED); }
  /// Why the snapshot failed: a negated errno; -EBADF if the host has closed or replaced a descriptor.
  int error() const noexcept { return error_; }
  /// Of the latest snapshot.
  std::uint64_t resident_bytes() const noexcept { return source_.memory.resident_bytes; }
  std::uint64_t spent_ns() const noexcept { return spent_ns_; }

  /// In a forked child: the next snapshot is the first one of another trace.
  void restart() noexcept {
    drop();
    number_ = 0;
  }

 private:
  enum class Stage { kPages, kRecorder, kStacks, kEnd };
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool anonymous = false;  ///< one mapping of private anonymous memory
    bool is_large_and_anonymous() const noexcept { return anonymous && end - begin >= PageScan::kMinAnonymousBytes; }
  };
  struct Work {
    PageScan::Work scan;
    char maps[4096];
    char name[kMaxMappingNameBytes + 1];
    std::uint8_t piece[kMaxTextBytes];
  };

  bool step(Stream& stream) noexcept;
  bool read_mapping(Stream& stream) noexcept;
  bool scan_pages(Stream& stream) noexcept;
  bool can_join(const Range& range, const Range& next) const noexcept;
  bool add_region(Stream& stream, const PageRegion& region) noexcept;
  bool add_resident(Stream& stream, std::uint64_t begin, std::uint64_t end, const PageRegion* region,
                    const PageRegion* regions_end) noexcept;
  void set_categories(std::uint64_t first, std::uint64_t last, std::uint64_t categories) noexcept;
  bool begin_group(Stream& stream, std::uint64_t number) noexcept;
  bool end_group(Stream& stream) noexcept;
  bool write_recorder(Stream& stream) noexcept;
  bool write_stacks(Stream& stream) noexcept;
  void write_end(Stream& stream, bool complete) noexcept;
  bool make_room(Stream& stream) noexcept;
  bool commit_piece(Stream& stream) noexcept;
  bool fail(int error) noexcept {
    error_ = error;
    return false;
  }

  Work* work_ = nullptr;
  bool active_ = false;  ///< a snapshot is unfinished; read by all threads
  Stage stage_ = Stage::kPages;
  std::uint64_t number_ = 0;  ///< of the snapshot in the trace, from 1
  std::uint64_t pieces_ = 0;
  ResidencyEncoder piece_{nullptr};
  Source source_{};
  std::uint64_t spent_ns_ = 0;
  int error_ = 0;
  std::uint64_t page_bytes_ = 4096;

  sys::MapsReader maps_{nullptr, 0, -1};
  bool maps_read_ = false;        ///< all lines
  std::uint64_t read_up_to_ = 0;  ///< end of the last mapping
  PageScan scan_{-1, SnapshotMethod::kPagemapScan, 4096};
  Range scanned_{};       ///< what is left of the range that is scanned; it may consist of several mappings
  Range next_{};          ///< the mapping that is scanned next
  bool gathered_ = true;  ///< no further mapping can be added to scanned_
  PageGroup group_{};
  bool group_used_ = false;
  std::size_t own_slot_ = 0;
  const ThreadState* thread_ = nullptr;
};

}  // namespace heapprof::recorder
