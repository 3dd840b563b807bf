// Messages about exceptions name no types or functions of the standard library.
#include "analyzer/base/reason_of.h"

#include <catch2/catch.hpp>

#include <limits>
#include <vector>

using heapprof::kNotEnoughMemory;
using heapprof::reason_of;

namespace {

template <typename Work>
std::string reason_why_not(Work&& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return reason_of(error);
  }
  return {};
}

}  // namespace

TEST_CASE("Of exceptions because of memory, the reason is in plain words") {
  CHECK(reason_why_not([] { throw std::bad_alloc(); }) == kNotEnoughMemory);
  CHECK(reason_why_not([] { throw std::bad_array_new_length(); }) == kNotEnoughMemory);
  volatile std::size_t too_many = std::numeric_limits<std::size_t>::max();
  CHECK(reason_why_not([&] { std::vector<int>().reserve(too_many); }) == kNotEnoughMemory);
  const std::string own = "t.heapprof: cannot be read";
  CHECK(reason_why_not([&] { throw std::runtime_error(own); }) == own);
}
