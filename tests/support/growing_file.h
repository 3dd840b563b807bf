// A trace file that grows while it is read, as if this process recorded it.
#pragma once

#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/trace_format.h"
#include "tests/support/claim_running.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

namespace heapprof::test {

class GrowingFile {
 public:
  /// Makes this process the one that records `trace`.
  explicit GrowingFile(TraceBuilder& trace) : trace_(trace) {
    claim_to_be_running(trace.header);
    descriptor_ = ::open(file_.path().c_str(), O_RDWR | O_CLOEXEC);
    write();
    page_ = ::mmap(nullptr, sizeof(FileHeader), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (page_ == MAP_FAILED) throw std::runtime_error(file_.path() + ": cannot be mapped");
  }
  ~GrowingFile() {
    end();
    ::close(descriptor_);
  }
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  const std::string& path() const noexcept { return file_.path(); }
  /// The mapped header. Precondition: end() was not called.
  FileHeader& header() noexcept { return *static_cast<FileHeader*>(page_); }

  /// Writes what the trace has now over what it had.
  void write() { write(trace_.bytes()); }
  void write(const std::vector<std::uint8_t>& bytes) { write(0, bytes); }
  void write(std::uint64_t offset, const std::vector<std::uint8_t>& bytes) {
    if (::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset)) !=
        static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error(file_.path() + ": cannot be written");
  }
  void truncate(std::uint64_t bytes) {
    if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0)
      throw std::runtime_error(file_.path() + ": cannot be truncated");
  }
  /// From now on the recorder is gone.
  void end() {
    if (page_ != MAP_FAILED) ::munmap(page_, sizeof(FileHeader));
    page_ = MAP_FAILED;
  }

 private:
  TraceBuilder& trace_;
  TemporaryFile file_;
  int descriptor_ = -1;
  void* page_ = MAP_FAILED;
};

}  // namespace heapprof::test
