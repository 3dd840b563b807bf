// Micro benchmark: malloc/free pairs of one function, for one caller that has 32 contexts, in an order without a
// pattern. The stacks of consecutive pairs have the same program counter, stack pointer and first return address, and
// differ in the next two return addresses. Only one of these two words can be the context word, so many cached paths
// are not at their first place.
//
//   contexts PAIRS
#include <cstdint>
#include <cstdlib>

namespace {

volatile void* g_sink;

// noipa: the functions are neither inlined, nor copied for a constant argument, nor merged. The statements without
// effect keep the compiler from making a jump of the last call.
[[gnu::noipa]] void allocate(std::size_t size) {
  void* p = std::malloc(size);
  g_sink = p;
  std::free(p);
  asm volatile("" ::: "memory");
}

[[gnu::noipa]] void caller(std::size_t size) {
  allocate(size);
  asm volatile("" ::: "memory");
}

template <int kNumber>
[[gnu::noipa]] void inner() {
  caller(24 + kNumber * 16);
  asm volatile("" ::: "memory");
}

constexpr void (*kInner[8])() = {inner<0>, inner<1>, inner<2>, inner<3>, inner<4>, inner<5>, inner<6>, inner<7>};

template <int kNumber>
[[gnu::noipa]] void outer(std::uint32_t index) {
  kInner[index]();
  asm volatile("" ::"i"(kNumber) : "memory");
}

constexpr void (*kOuter[4])(std::uint32_t) = {outer<0>, outer<1>, outer<2>, outer<3>};

}  // namespace

int main(int argc, char** argv) {
  const long pairs = argc > 1 ? std::atol(argv[1]) : 1'000'000;
  std::uint32_t random = 1;
  for (long i = 0; i < pairs; ++i) {
    random = random * 1664525 + 1013904223;
    kOuter[random >> 30](random >> 27 & 7);
  }
}
