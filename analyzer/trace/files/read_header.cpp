#include "analyzer/trace/files/read_header.h"

#include <algorithm>
#include <chrono>
#include <elf.h>
#include <iterator>
#include <span>
#include <thread>

namespace heapprof::trace {
namespace {

bool are_zero(std::span<const unsigned char> bytes) noexcept {
  return std::ranges::all_of(bytes, [](unsigned char c) { return c == 0; });
}

}  // namespace

std::size_t read_header(const InputFile& input, FileHeader& header) {
  constexpr std::chrono::seconds kLongest{1};
  constexpr std::chrono::milliseconds kStep{5};
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    // Looked at before the header is read: what was completed in time is seen, however late this thread continues.
    const std::chrono::nanoseconds age =
        std::chrono::system_clock::now().time_since_epoch() - std::chrono::nanoseconds(input.modified_ns());
    const bool is_last = age > kLongest || std::chrono::steady_clock::now() - begin > kLongest;
    const std::size_t got = input.read(0, &header, sizeof header);
    if (!are_zero(std::span(header.magic).first(std::min(got, sizeof header.magic))) || is_last) return got;
    std::this_thread::sleep_for(kStep);
  }
}

bool is_unfinished(const FileHeader& header) noexcept {
  return are_zero(header.magic) && are_zero(header.zero_1) &&
         (header.machine == EM_X86_64 || header.machine == EM_AARCH64);
}

}  // namespace heapprof::trace
