// A hash of a 64-bit number in which every bit depends on every bit of the number (the finalizer of SplitMix64, by
// Sebastiano Vigna, without the addition; https://prng.di.unimi.it/splitmix64.c).
//
// A single multiplication is not enough for a hash table: its low bits do not depend on the high bits of the number,
// and its high bits put numbers at some distances from each other, as addresses of equal blocks are, side by side.
#pragma once

#include <cstdint>

namespace heapprof {

constexpr std::uint64_t mix_bits(std::uint64_t number) noexcept {
  number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9u;
  number = (number ^ number >> 27) * 0x94d049bb133111ebu;
  return number ^ number >> 31;
}

}  // namespace heapprof
