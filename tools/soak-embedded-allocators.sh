#!/usr/bin/env bash
# Records eight threads that allocate while libraries with embedded allocators are loaded, used and unloaded, and
# compares the recording with the program's counts. The test suite runs 15 rounds of this.
#
#   tools/soak-embedded-allocators.sh [ROUNDS]      default 500; needs a build (tools/test.sh)
set -euo pipefail
cd "$(dirname "$0")/.."
HEAPPROF_SOAK_ROUNDS=${1:-500} HEAPPROF_TEST_BUILD=${BUILD_DIR:-build} PYTHONPATH=tests/support:tests/e2e \
  exec python3 tests/e2e/embedded_allocators.py -v Soak
