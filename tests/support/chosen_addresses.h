// Numbers as a hostile recording has them: chosen so that their hashes have equal bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heapprof::test {

/// The number of which mix_bits() makes `mixed`.
inline std::uint64_t undo_mix_bits(std::uint64_t mixed) {
  const auto divided_by = [](std::uint64_t number, std::uint64_t factor) {
    std::uint64_t inverse = factor;  // modulo 8; each step doubles the number of right bits
    for (int step = 0; step < 5; ++step) inverse *= 2 - factor * inverse;
    return number * inverse;
  };
  std::uint64_t number = divided_by(mixed ^ mixed >> 31 ^ mixed >> 62, 0x94d049bb133111eb);
  number = divided_by(number ^ number >> 27 ^ number >> 54, 0xbf58476d1ce4e5b9);
  return number ^ number >> 30 ^ number >> 60;
}

/// The first address of the cluster whose BlockTable::hash_of() is `hash`; 0: there is none.
inline std::uint64_t address_with_hash(std::uint64_t hash) {
  const std::uint64_t number = undo_mix_bits(hash);
  return number >> 58 != 0 ? 0 : number >> 4 << 10 | (number & 15);
}

/// Addresses in different clusters whose hashes have these upper 24 bits.
inline std::vector<std::uint64_t> addresses_with_upper_bits(std::uint64_t upper, std::size_t count) {
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t lower = 0; addresses.size() < count; ++lower)
    if (const std::uint64_t address = address_with_hash(upper << 40 | lower); address != 0)
      addresses.push_back(address);
  return addresses;
}

}  // namespace heapprof::test
