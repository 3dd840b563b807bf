// Allocates and frees one block, so many times: for counting what an event costs besides.
//   burst TIMES
#include <cstdlib>

int main(int argc, char** argv) {
  const long times = argc > 1 ? std::atol(argv[1]) : 100;
  for (long i = 0; i < times; ++i) {
    void* volatile block = std::malloc(100);
    std::free(block);
  }
}
