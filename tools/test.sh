#!/usr/bin/env bash
# Installs what is needed, builds, runs every test. The last line is the result: "N passed, N failed", with
# ", N skipped" when something could not be tried here. Above it stand the names of what failed and was skipped.
# Exit status 0 when something passed and nothing failed.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/test.sh [--no-install] [--no-build | --only-build] [--logs FOLDER] [TEST...]

--no-install    install no packages; tests that lack a program are skipped by name
--no-build      run what is already built, and install nothing
--only-build    build all that the tests need, and run none
--logs FOLDER   keep the output of each failed test in FOLDER
TEST            names or suites of meson's (e2e-kill, --suite unit); default: all

HEAPPROF_TEST_SEED=N gives all random choices of the tests another seed; each test prints its own.
END
}

install=yes
build_first=yes
run=yes
result_options=()
tests=()
while [ $# -gt 0 ]; do
  case $1 in
    --no-install) install=no ;;
    --no-build) build_first=no ;;
    --only-build) run=no ;;
    --logs)
      [ $# -gt 1 ] || { echo "tools/test.sh: --logs needs a folder" >&2; exit 2; }
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
    tools/build.sh --everything
    tools/consumers.sh
  else
    tools/build.sh --no-install --everything
  fi
  # What only tests need, so that their time is not a compiler's. When one can't be built its test says why.
  if [ ${#tests[@]} -eq 0 ]; then
    echo "==> compiling for aarch64 and in Rust"
    export HEAPPROF_TEST_BUILD
    HEAPPROF_TEST_BUILD=$(realpath "$build")
    tools/aarch64.sh --no-install --only-build >"$build/aarch64.log" 2>&1 || true
    PYTHONPATH=tests/support PYTHONDONTWRITEBYTECODE=1 \
      python3 tests/e2e/embedded_allocators_rust.py --only-build >"$build/rust.log" 2>&1 || true
  fi
fi
[ "$run" = yes ] || exit 0

echo "==> testing"
mkdir -p "$build/meson-logs"
rm -f "$build/meson-logs/testlog.json"
# Without meson's list of tests there is no knowing whether all of them gave a result.
expected=$build/meson-logs/expected-tests.txt
meson test -C "$build" --no-rebuild --list "${tests[@]}" >"$expected"
# meson's own lines are the progress; its status is not needed, the log tells more.
meson test -C "$build" --no-rebuild --print-errorlogs "${tests[@]}" || true
python3 tools/test_result.py "$build/meson-logs/testlog.json" --expected "$expected" "${result_options[@]}"
