"""A recording of more than 16 MB, so that the first slice of time, or `serve`, writes an index of it. Tests that need
it without an index use a cache of their own."""

import re
import subprocess

import harness

# Reading them takes some tenths of a second. A block that is freed and one that is allocated take some 9 bytes of the
# file: three for each address, which are far apart, and three for op and size.
PAIRS = 2_400_000
PROGRAM = f"""
#include <stdlib.h>
int main(void) {{
  static void* live[4096];
  unsigned long state = 1;
  for (int i = 0; i < {PAIRS}; ++i) {{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    void** place = &live[state >> 52];
    free(*place);
    *place = malloc(1 + (state >> 33) % 5000);
  }}
}}
"""
MIN_BYTES_FOR_INDEX = 16 << 20  # of frames: kMinBytesForIndex in analyzer/replay/index/index_cache.h


def recording():
    """Its path. It is made once for all test files, and nobody changes it."""
    return harness.made_once(make, "large") / "large.heapprof"


def make(folder):
    program, trace = folder / "large", folder / "large.heapprof"
    subprocess.run(["cc", "-O1", "-x", "c", "-", "-o", program], input=PROGRAM, text=True, check=True, timeout=60)
    subprocess.run([program], check=True, timeout=120,
                   env=harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace))
    written = bytes_of_frames(trace.read_bytes())
    assert written > MIN_BYTES_FOR_INDEX, f"{written} bytes of frames: too few for an index"


def bytes_of_frames(data):
    """docs/concepts/trace-format.md: each frame has a header of 80 bytes, with the number of bytes that follow."""
    file_id = re.escape(data[16:24])
    return sum(80 + int.from_bytes(frame[1], "little")
               for frame in re.finditer(b"HFRM.{4}" + file_id + b".{44}(.{4})", data, re.S))
