// A trace that a reader considers as being written by this process, which has the file mapped.
#pragma once

#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/claim_running.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

namespace heapprof::test {

class RunningTrace {
 public:
  RunningTrace() {
    TraceBuilder trace;
    claim_to_be_running(trace.header);
    trace.stream().thread(1, "main");
    trace.write(file_.path());
    const int descriptor = ::open(file_.path().c_str(), O_RDWR | O_CLOEXEC);
    void* const page = ::mmap(nullptr, sizeof(FileHeader), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    if (page == MAP_FAILED) throw std::runtime_error(file_.path() + ": cannot be mapped");
    header_ = static_cast<FileHeader*>(page);
  }
  ~RunningTrace() { ::munmap(header_, sizeof(FileHeader)); }
  RunningTrace(const RunningTrace&) = delete;
  RunningTrace& operator=(const RunningTrace&) = delete;

  const std::string& path() const noexcept { return file_.path(); }
  FileHeader& header() noexcept { return *header_; }

 private:
  TemporaryFile file_;
  FileHeader* header_ = nullptr;
};

}  // namespace heapprof::test
