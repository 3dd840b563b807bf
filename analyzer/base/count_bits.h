// How many bits of a number are set. Without an instruction for it, std::popcount is a call.
#pragma once

#include <cstdint>

namespace heapprof {

constexpr std::uint32_t count_bits(std::uint64_t number) noexcept {
  number -= number >> 1 & 0x5555555555555555u;
  number = (number & 0x3333333333333333u) + (number >> 2 & 0x3333333333333333u);
  number = (number + (number >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<std::uint32_t>(number * 0x0101010101010101u >> 56);
}

}  // namespace heapprof
