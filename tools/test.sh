#!/usr/bin/env bash
# Installs packages, builds, and runs all tests. The last line of the output is "N passed, N failed", with ", N
# skipped" when some tests cannot run here; the names of failed and skipped tests precede it. Exit status 0: at least
# one test passed and none failed.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/test.sh [--no-install] [--werror] [--no-build | --only-build] [--logs DIR] [TEST...]

Build everything and run all tests, or those named.

--no-install    install no packages; skip tests that need a program that is not installed
--werror        treat compiler warnings as errors
--no-build      run the tests as they are built, and install nothing
--only-build    build what the tests need, and run none
--logs DIR      write the output of each failed test to DIR
TEST            names or suites as for `meson test` (e2e-kill, --suite unit); default: all

HEAPPROF_TEST_SEED=N sets the seed of all random choices in the tests; each test prints its seed.
END
}

install=yes
build_first=yes
build_options=(--everything)
run=yes
result_options=()
tests=()
while [ $# -gt 0 ]; do
  case $1 in
    --no-install) install=no ;;
    --werror) build_options+=(--werror) ;;
    --no-build) build_first=no ;;
    --only-build) run=no ;;
    --logs)
      [ $# -gt 1 ] || { echo "tools/test.sh: missing value of --logs" >&2; exit 2; }
      result_options=(--logs "$2")
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) tests+=("$1") ;;
  esac
  shift
done
build=${BUILD_DIR:-build}

if [ "$build_first" = yes ]; then
  if [ "$install" = yes ]; then
    tools/build.sh "${build_options[@]}"
    tools/consumers.sh
  else
    tools/build.sh --no-install "${build_options[@]}"
  fi
  # Built here, because the tests that need these builds have a time limit. If a build fails, its test prints why.
  if [ ${#tests[@]} -eq 0 ]; then
    echo "==> compiling for aarch64 and in Rust"
    export HEAPPROF_TEST_BUILD
    HEAPPROF_TEST_BUILD=$(realpath "$build")
    tools/aarch64.sh --no-install --only-build >"$build/aarch64.log" 2>&1 || true
    PYTHONPATH=tests/support PYTHONDONTWRITEBYTECODE=1 \
      python3 tests/e2e/embedded_allocators_rust.py --only-build >"$build/rust.log" 2>&1 || true
    echo "==> compiling for packages"
    rm -rf "${build:?}/package/dist"
    PACKAGE_BUILD_DIR=$build/package tools/package.sh --no-install --output "$build/package/dist" \
      >"$build/package.log" 2>&1 || true
  fi
fi
[ "$run" = yes ] || exit 0

echo "==> testing"
# The cache of the tests is empty at first, so that nothing in it is from an earlier build. It also has what test
# files share (made_once in tests/support/harness.py).
HEAPPROF_TEST_CACHE=$(mktemp -d)
export HEAPPROF_TEST_CACHE
trap 'rm -rf "$HEAPPROF_TEST_CACHE"' EXIT
mkdir -p "$build/meson-logs"
rm -f "$build/meson-logs/testlog.json"
# The list of tests shows which of them have no result.
expected=$build/meson-logs/expected-tests.txt
meson test -C "$build" --no-rebuild --list "${tests[@]}" >"$expected"
# Two tests more than processors: most tests wait at times, for a program, a timer or a disk.
parallel=$(($(nproc) + 2))
# The limits of the tests find those that hang, and must not depend on how busy the machine is: beside two busy loops
# and a compiler, tests took up to four times as long as on an idle one, and one reached its limit.
patience=4
# meson prints the progress. Its exit status is not needed: test_result.py reads the log.
meson test -C "$build" --no-rebuild --print-errorlogs --num-processes "$parallel" --timeout-multiplier "$patience" \
  "${tests[@]}" || true
python3 tools/test_result.py "$build/meson-logs/testlog.json" --expected "$expected" "${result_options[@]}"
