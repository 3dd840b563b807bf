// The trace file on disk: its header, and space (extents) for streams. One per process.
//
// All content is written through shared mappings; the file descriptor is needed only to extend the file and to map
// it. The descriptor has a high number, which programs rarely use. Before each use the recorder checks that it still
// refers to the trace; if not, the file is opened again by its path. If that fails, or the descriptor changes during
// the use, the recording stops. Space is reserved before it is mapped, so that a full disk is an error code here and
// not a SIGBUS in the host.
//
// The recorder keeps in private memory which space is in use and where the file ends: other processes can change the
// contents of the mapping.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/trace_format.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

/// Why an operation failed, as a clause for messages ("no space left ..."); null if it succeeded.
using Failure = const char*;

class TraceStorage {
 public:
  /// Creates the file that `pattern` (HEAPPROF_OUTPUT) names, with missing directories, and maps its header page,
  /// which the caller fills. `program` replaces %e, `start_realtime_ns` %t. `max_bytes`: the file's size limit, 0 for
  /// none. After a failure there is no file, but path() returns its name. One thread at a time may call it.
  Failure create(const char* pattern, const char* program, std::uint64_t start_realtime_ns,
                 std::uint64_t max_bytes) noexcept;

  /// Publishes the header that the caller has filled: first the checksum, then the magic.
  void publish_header() noexcept;

  /// Appends an extent of `bytes` bytes to the file and maps it: zeroes after its ExtentHeader. Returns null and sets
  /// `failure` if that fails. May be called from any thread and from signal handlers; takes no lock.
  void* allocate_extent(std::uint32_t bytes, ExtentKind kind, StreamId stream, std::uint32_t ordinal,
                        Failure& failure) noexcept;

  FileHeader* header() const noexcept { return header_; }
  std::uint64_t file_id() const noexcept { return file_id_; }
  const char* path() const noexcept { return path_; }
  /// False where the file system does not promise that mapped pages can be rewritten at any time (NFS, SMB, Ceph,
  /// FUSE, 9p, zfs, bcachefs): staging blocks are then private memory until the process is about to end.
  bool rewrites_in_place() const noexcept { return rewrites_in_place_; }

  /// In a forked child: closes the child's descriptor of the parent's file. The object then has no header and no
  /// file.
  void forget() noexcept;

 private:
  /// The part of create() that follows the creation of the file.
  Failure prepare(std::uint64_t start_realtime_ns) noexcept;
  /// Undoes create().
  void remove() noexcept;
  bool descriptor_is_ours() const noexcept;
  bool reopen_descriptor() noexcept;
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

/// Expands %e %p %t %h %% of `pattern`. In %e and %h, '/' and a leading '.' become '_'. Returns false if the result
/// exceeds `size`.
bool expand_pattern(const char* pattern, const char* program, int pid, std::uint64_t start_realtime_ns, char* result,
                    std::size_t size) noexcept;

}  // namespace heapprof::recorder
