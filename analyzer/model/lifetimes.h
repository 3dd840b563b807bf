// How long blocks lived, in classes by powers of ten: below 1 us, below 10 us, ... below 1000 s, longer.
//
// The resolution depends on the trace: while only one thread allocates, dozens of consecutive events have the same
// timestamp, and shorter lifetimes count as 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace heapprof::model {

class Lifetimes {
 public:
  struct Class {
    std::uint64_t below_ns = 0;  ///< exclusive; 0: no limit
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
  };
  static constexpr std::size_t kClasses = 11;

  Lifetimes() noexcept {
    std::uint64_t below_ns = 1'000;
    for (std::size_t i = 0; i + 1 < kClasses; ++i, below_ns *= 10) classes_[i].below_ns = below_ns;
  }

  /// Returns the position of the class.
  std::size_t freed(std::uint64_t lifetime_ns, std::uint64_t size) noexcept {
    std::size_t at = 0;
    while (at + 1 < kClasses && lifetime_ns >= classes_[at].below_ns) ++at;
    ++classes_[at].blocks;
    classes_[at].bytes += size;
    return at;
  }
  void left(std::uint64_t size) noexcept {
    ++left_.blocks;
    left_.bytes += size;
  }

  const std::array<Class, kClasses>& classes() const noexcept { return classes_; }
  /// Blocks that were not freed.
  const Class& left() const noexcept { return left_; }

 private:
  std::array<Class, kClasses> classes_{};
  Class left_;
};

}  // namespace heapprof::model
