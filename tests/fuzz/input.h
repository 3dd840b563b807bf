// Shared by fuzz targets: reads values from an input, and a file in memory.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

/// The fuzzer calls it with each input, replay.cpp with each file of the corpus.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace heapprof::fuzz {

/// Set by replay.cpp.
inline bool g_test_all_completely = false;

/// Whether an input is tested completely: one in eight, selected by a hash of its bytes so that the same input gives
/// the same execution. The others are only read, or replayed once, which takes a fraction of the time.
inline bool is_tested_completely(const std::uint8_t* data, std::size_t size) {
  std::uint32_t hash = 0x811c9dc5;
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ data[i]) * 0x01000193;
  return g_test_all_completely || hash >> 29 == 0;
}

/// Reads values from the start of the input; zeros after its end.
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
  /// False if the system has no memory.
  bool fill(const void* bytes, std::size_t size) {
    // Write before truncating: remaining pages need not be allocated again.
    return ::pwrite(descriptor_, bytes, size, 0) == static_cast<ssize_t>(size) &&
           ::ftruncate(descriptor_, static_cast<off_t>(size)) == 0;
  }
  std::string path() const { return name_.empty() ? "/proc/self/fd/" + std::to_string(descriptor_) : name_; }
  /// Replaces it by a file on disk, for readers that follow no links.
  void give_name(const std::string& name) {
    ::close(descriptor_);
    descriptor_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    name_ = name;
  }

 private:
  std::string name_;
  int descriptor_;
};

}  // namespace heapprof::fuzz
