"""A program whose recording has more than 16 MB, so that the first slice of time, or `serve`, writes an index of it."""

import subprocess

PROGRAM = """
#include <stdlib.h>
int main(void) {
  static void* live[4096];
  unsigned long state = 1;
  for (int i = 0; i < 4200000; ++i) {
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    void** place = &live[state >> 52];
    free(*place);
    *place = malloc(1 + (state >> 33) % 5000);
  }
}
"""


def build(directory):
    """Compiles the program; returns its path."""
    path = directory / "large"
    subprocess.run(["cc", "-O1", "-x", "c", "-", "-o", path], input=PROGRAM, text=True, check=True, timeout=60)
    return path
