// Micro benchmark: malloc/free pairs of one function, for one caller that has eight contexts, in an order without a
// pattern. The stacks of consecutive pairs have the same program counter, stack pointer and first return address, and
// differ in one return address behind it. So most of them are not at the first place of their cached path, as in
// cfrac.
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
[[gnu::noipa]] void context() {
  caller(24 + kNumber * 16);
  asm volatile("" ::: "memory");
}

constexpr void (*kContexts[8])() = {context<0>, context<1>, context<2>, context<3>,
                                    context<4>, context<5>, context<6>, context<7>};

}  // namespace

int main(int argc, char** argv) {
  const long pairs = argc > 1 ? std::atol(argv[1]) : 1'000'000;
  std::uint32_t random = 1;
  for (long i = 0; i < pairs; ++i) {
    random = random * 1664525 + 1013904223;
    kContexts[random >> 29]();
  }
}
