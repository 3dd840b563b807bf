// A statically linked program: nothing can be preloaded into it.
#include <stdlib.h>
int main() { return malloc(10) != nullptr ? 0 : 1; }
