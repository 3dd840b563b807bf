#!/usr/bin/env bash
# Eight threads allocate while libraries that carry allocators of their own are loaded, used and unloaded; the recording
# is compared with what the program counted. The test suite does 15 rounds, this as many as asked for.
#
#   tools/soak-own-allocators.sh [ROUNDS]      500 by default; the programs have to be built (tools/test.sh builds them)
set -euo pipefail
cd "$(dirname "$0")/.."
HEAPPROF_SOAK_ROUNDS=${1:-500} HEAPPROF_TEST_BUILD=${BUILD_DIR:-build} PYTHONPATH=tests/support:tests/e2e \
  exec python3 tests/e2e/own_allocators.py -v Soak
