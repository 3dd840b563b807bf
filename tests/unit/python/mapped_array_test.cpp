// The array of a thread's tables: it keeps its elements when it grows, also after a growth that was abandoned.
#include "preload/python/mapped_array.h"

#include <catch2/catch.hpp>
#include <cstdint>

#include "preload/sys/kernel.h"

using namespace heapprof;
using Numbers = python::MappedArray<std::uint64_t>;

namespace {

/// Fills the array with 1, 2, 3, ...
void fill(Numbers& numbers) {
  for (std::uint32_t i = 0; i != numbers.capacity; ++i) numbers.elements[i] = i + 1;
}

/// How many of the first elements are 1, 2, 3, ...
std::uint32_t count_kept(const Numbers& numbers) {
  std::uint32_t count = 0;
  while (count != numbers.capacity && numbers.elements[count] == count + 1) ++count;
  return count;
}

void unmap(Numbers& numbers) {
  sys::unmap_private(numbers.elements, numbers.capacity * sizeof(std::uint64_t));
  numbers = {};
}

}  // namespace

TEST_CASE("An array keeps its used elements when it grows") {
  Numbers numbers{};
  REQUIRE(numbers.reserve(1, 0));
  const std::uint32_t first_capacity = numbers.capacity;
  fill(numbers);
  // There is room: nothing changes.
  const std::uint64_t* const elements = numbers.elements;
  REQUIRE(numbers.reserve(first_capacity, 0));
  CHECK(numbers.elements == elements);
  CHECK(count_kept(numbers) == first_capacity);

  REQUIRE(numbers.reserve(5 * first_capacity, first_capacity - 1));
  CHECK(numbers.capacity >= 5 * first_capacity);
  CHECK(count_kept(numbers) == first_capacity - 1);
  for (std::uint32_t i = first_capacity - 1; i != numbers.capacity; ++i)
    if (numbers.elements[i] != 0) FAIL("element " << i << " is not zero");
  unmap(numbers);
}

TEST_CASE("An array whose growth was abandoned keeps more elements than its capacity") {
  Numbers numbers{};
  REQUIRE(numbers.reserve(1000, 0));
  fill(numbers);
  Numbers abandoned{numbers.elements, 0};  // as a longjmp leaves it
  REQUIRE(abandoned.reserve(1, 1000));
  CHECK(abandoned.capacity >= 1000);
  CHECK(count_kept(abandoned) == 1000);
  unmap(abandoned);
  unmap(numbers);
}
