// A file of /proc/self that stays open while the process is recorded, because later it may be forbidden to open it
// (another root directory, another user, a process that is not dumpable).
//
// The descriptor has a high number, which programs rarely use, and is closed on exec. The host may close it and reuse
// the number, so its file is identified before each use.
//
// One thread at a time opens or closes the file. Other threads may read the descriptor meanwhile: it is that of the
// file, or -1.
#pragma once

#include "preload/sys/kernel.h"

namespace heapprof::sys {

class ProcFile {
 public:
  /// Opens `path` for reading; closes what was open. Returns 0 or a negated errno.
  int open(const char* path) noexcept;
  /// Closes the descriptor if it still is that of the file. In a forked child: the file describes the parent.
  void close() noexcept;

  /// The descriptor, or -1: the file was never opened, or the host has closed or replaced the descriptor.
  int descriptor() const noexcept;

 private:
  int fd_ = -1;
  FileIdentity identity_{};
};

}  // namespace heapprof::sys
