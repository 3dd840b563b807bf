// How long blocks lived, in classes of powers of ten: below a microsecond, below ten, ... below 1000 seconds, longer.
//
// How fine a lifetime can be told depends on the trace: while a program has one thread, events carry a time only
// every few dozen, so that what is shorter than those counts as no time at all.
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

  void released(std::uint64_t lifetime_ns, std::uint64_t size) noexcept {
    std::size_t at = 0;
    while (at + 1 < kClasses && lifetime_ns >= classes_[at].below_ns) ++at;
    ++classes_[at].blocks;
    classes_[at].bytes += size;
  }
  void left(std::uint64_t size) noexcept {
    ++left_.blocks;
    left_.bytes += size;
  }

  const std::array<Class, kClasses>& classes() const noexcept { return classes_; }
  /// Blocks that were not released.
  const Class& left() const noexcept { return left_; }

 private:
  std::array<Class, kClasses> classes_{};
  Class left_;
};

}  // namespace heapprof::model
