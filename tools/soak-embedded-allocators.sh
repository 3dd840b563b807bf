#!/usr/bin/env bash
# Records eight threads that allocate while libraries with embedded allocators are loaded, used and unloaded, and
# compares the recording with the program's counts. The test suite runs 15 rounds of this.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/soak-embedded-allocators.sh [ROUNDS]

Load, use and unload libraries with embedded allocators in ROUNDS rounds (default 500), beside eight threads that
allocate, and compare the recording with the program's counts.

Needs a build with the tests: run tools/build.sh --everything first. BUILD_DIR selects another build directory.
END
}

rounds=${1:-500}
case $rounds in
  -h | --help) usage; exit 0 ;;
  '' | *[!0-9]*) usage >&2; exit 2 ;;
esac
build=${BUILD_DIR:-build}
if [ ! -e "$build/preload/libheapprof.so" ]; then
  echo "$build/preload/libheapprof.so does not exist: run tools/build.sh --everything first, or set BUILD_DIR" >&2
  exit 1
fi
HEAPPROF_SOAK_ROUNDS=$rounds HEAPPROF_TEST_BUILD=$build PYTHONPATH=tests/support:tests/e2e \
  exec python3 tests/e2e/embedded_allocators.py -v Soak
