#include "analyzer/render/byte_column.h"

#include <cstdio>
#include <iterator>

#include "analyzer/render/unit_text.h"
#include "analyzer/render/units.h"

namespace heapprof::render {

ByteColumn::ByteColumn(std::uint64_t largest) noexcept {
  const auto value = static_cast<double>(largest);
  while (value / bytes_per_unit_ >= 1023.5 && unit_ + 1 < std::size(kByteUnits)) {
    bytes_per_unit_ *= 1024;
    ++unit_;
  }
  decimals_ = unit_ == 0 ? 0 : value / bytes_per_unit_ < 9.995 ? 2 : 1;
}

std::string ByteColumn::text(std::uint64_t bytes) const {
  constexpr double kSmallest[] = {1, 0.1, 0.01};
  const double value = static_cast<double>(bytes) / bytes_per_unit_;
  if (bytes != 0 && value < kSmallest[decimals_] / 2) return human_bytes(bytes);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f %s", decimals_, value, kByteUnits[unit_]);
  return text;
}

}  // namespace heapprof::render
