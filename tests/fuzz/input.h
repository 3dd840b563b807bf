// What fuzz targets share: taking an input apart, and a file that exists in memory only.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

/// The fuzzer calls it with each input; replay.cpp with each file of the corpus.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace heapprof::fuzz {

/// Reads values off the front; zeros when there is nothing left.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : at_(data), left_(size) {}

  template <typename T>
  T take() {
    T value{};
    const std::size_t bytes = std::min(left_, sizeof value);
    if (bytes != 0) std::memcpy(&value, at_, bytes);
    at_ += bytes;
    left_ -= bytes;
    return value;
  }
  std::string text(std::size_t bytes) {
    bytes = std::min(bytes, left_);
    std::string result(reinterpret_cast<const char*>(at_), bytes);
    at_ += bytes;
    left_ -= bytes;
    return result;
  }
  const std::uint8_t* data() const { return at_; }
  std::size_t left() const { return left_; }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
};

/// One file in memory, reused for every input.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {}
  /// False: the system gave no memory.
  bool fill(const void* bytes, std::size_t size) {
    return ::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, bytes, size, 0) == static_cast<ssize_t>(size);
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace heapprof::fuzz
