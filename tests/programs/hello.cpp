// Prints "Hello" and frees all blocks that it allocates. With BYTES, it leaks one block of that size.
//
// usage: hello [BYTES]
#include <cstdlib>
#include <iostream>
#include <string>

namespace {
void* volatile kept;
[[gnu::noinline]] void leak_one_block(std::size_t bytes) { kept = std::malloc(bytes); }
}  // namespace

int main(int argc, char** argv) {
  std::cout << std::string(100, '=') << "\nHello\n";
  if (argc > 1) leak_one_block(std::strtoul(argv[1], nullptr, 10));
  return 0;
}
