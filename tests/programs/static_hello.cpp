// A statically linked program, into which no library can be preloaded.
#include <stdlib.h>
int main() { return malloc(10) != nullptr ? 0 : 1; }
