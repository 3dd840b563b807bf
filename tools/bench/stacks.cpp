// A merge sort that allocates in each of its calls: a program with as many different call stacks as wanted.
//
//   stacks COUNT
//
// A sort of n numbers has 2n - 1 calls. Each is reached by its own path, left or right in each of its callers, and
// allocates one block, so there are as many stacks as calls. Every 16th block is not freed. Prints the number of
// stacks.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

std::uint64_t g_calls = 0;

// Without these attributes the compiler copies the function into itself, or makes a loop of a call.
[[gnu::noinline, gnu::noclone, gnu::optimize("no-optimize-sibling-calls", "no-partial-inlining")]] void merge_sort(
    std::uint32_t* numbers, std::size_t count) {
  auto* const copy = static_cast<std::uint32_t*>(std::malloc(count * sizeof(std::uint32_t)));
  if (copy == nullptr) std::abort();
  const bool kept = ++g_calls % 16 == 0;
  if (count > 1) {
    const std::size_t half = count / 2;
    merge_sort(numbers, half);
    merge_sort(numbers + half, count - half);
    std::merge(numbers, numbers + half, numbers + half, numbers + count, copy);
    std::copy(copy, copy + count, numbers);
  }
  if (!kept) std::free(copy);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::vector<std::uint32_t> numbers(std::strtoull(argv[1], nullptr, 10) / 2 + 1);
  std::uint32_t state = 1;
  for (std::uint32_t& number : numbers) number = state = state * 1664525 + 1013904223;
  merge_sort(numbers.data(), numbers.size());
  std::printf("%llu\n", static_cast<unsigned long long>(g_calls));
  return std::is_sorted(numbers.begin(), numbers.end()) ? 0 : 1;
}
