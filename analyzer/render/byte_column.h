// Sizes in one unit and with equal decimal places, so that the rows of a column can be compared at a glance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace heapprof::render {

/// "12.3 MiB", "0.4 MiB": the unit is that of the largest size of the column.
class ByteColumn {
 public:
  explicit ByteColumn(std::uint64_t largest) noexcept;
  /// A size that would be rounded to 0 has a smaller unit: "30.1 KiB".
  std::string text(std::uint64_t bytes) const;

 private:
  std::size_t unit_ = 0;
  double bytes_per_unit_ = 1;
  int decimals_ = 0;
};

}  // namespace heapprof::render
