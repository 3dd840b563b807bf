// The trace on disk: its header, and room for streams. There is one per process.
//
// All content is written through shared mappings; the descriptor only extends and maps. It is kept
// above the numbers hosts use, checked to be still our file before and after each use, reopened by
// path when it is not, and given up when that fails. Space is reserved before it is mapped, so that a
// full disk is an error code here and not a SIGBUS in the host.
//
// What has been given out, and where the file ends, is known from private memory alone: the mapping is
// not trusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/trace_format.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

/// Why there is no extent, or why the file could not be opened. Null: no failure.
using Failure = const char*;

class TraceFile {
 public:
  /// Makes the file that `pattern` (HEAPPROF_OUTPUT) names, missing folders included, with `program` for
  /// %e and `start_realtime_ns` for %t, and maps its header page, which it leaves for the caller to fill. After a
  /// failure there is no file; path() still has the name.
  Failure create(const char* pattern, const char* program, std::uint64_t start_realtime_ns,
                 std::uint64_t max_bytes) noexcept;

  /// Publishes the header after the caller filled it: checksum, then magic.
  void publish_header() noexcept;

  /// `bytes` of new room at the end of the file, mapped and zero, its ExtentHeader written.
  /// Null with `failure` set when there is none to be had. Any thread, no lock.
  void* allocate_extent(std::uint32_t bytes, ExtentKind kind, StreamId stream, std::uint32_t ordinal,
                        Failure& failure) noexcept;

  FileHeader* header() const noexcept { return header_; }
  std::uint64_t file_id() const noexcept { return file_id_; }
  const char* path() const noexcept { return path_; }
  /// False where the file system does not promise that rewritten mapped pages can always be stored
  /// (NFS, FUSE, 9p, zfs, bcachefs): staging blocks are then private memory.
  bool rewrites_in_place() const noexcept { return rewrites_in_place_; }

  /// Forgets the file without touching it: in a forked child it is the parent's.
  void abandon() noexcept;

 private:
  /// What create() does once the file exists.
  Failure prepare(std::uint64_t start_realtime_ns) noexcept;
  /// Undoes what create() did.
  void remove() noexcept;
  bool descriptor_is_ours() const noexcept;
  bool recover_descriptor() noexcept;
  Failure reserve(std::uint64_t offset, std::uint64_t bytes) noexcept;

  FileHeader* header_ = nullptr;
  std::uint64_t file_id_ = 0;
  std::uint64_t next_offset_ = 0;
  std::uint64_t max_bytes_ = 0;
  std::uint64_t unit_bytes_ = kUnitBytes;
  sys::FileIdentity identity_{};
  int fd_ = -1;
  bool rewrites_in_place_ = true;
  char path_[4096] = "";
};

/// Expands %e %p %t %h %% of `pattern`; in %e and %h a '/' or a leading '.' becomes '_'. False when the
/// result does not fit.
bool expand_pattern(const char* pattern, const char* program, int pid, std::uint64_t start_realtime_ns,
                    char* result, std::size_t size) noexcept;

}  // namespace heapprof::recorder
