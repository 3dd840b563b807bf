// Allocates and frees one block TIMES times, for counting the system calls of events.
//
// usage: burst TIMES
#include <cstdlib>

int main(int argc, char** argv) {
  const long times = argc > 1 ? std::atol(argv[1]) : 100;
  for (long i = 0; i < times; ++i) {
    void* volatile block = std::malloc(100);
    std::free(block);
  }
}
