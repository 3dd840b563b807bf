#!/usr/bin/env bash
# Cross-builds the recorder for aarch64 into build-aarch64/ and tests it with qemu-user: unit tests, and ledger
# programs whose recordings the native build's heapprof reads (run tools/build.sh --everything first). With --packages,
# also the packages, whose heapprof runs with qemu-user, too. The last line is the result.
#
# Not tested, because qemu-user does not support them: events with equal times, the kernel's memory figures,
# /proc/self/maps with the signal trampoline (modules on C libraries without _dl_find_object), heapprof record, kill
# and fault campaigns, and speed.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/aarch64.sh [--no-install] [--packages] [--only-build]

Build the recorder for aarch64 and run its tests with qemu-user.

--no-install   install no packages; exit with status 77 when some are missing
--packages     also build the packages for aarch64 and the unit tests of heapprof, and test them, which takes minutes
--only-build   build, run nothing
END
}

install_option=()
packages=no
run=yes
for argument in "$@"; do
  case $argument in
    --no-install) install_option=(--no-install) ;;
    --packages) packages=yes ;;
    --only-build) run=no ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

# quietly LOG COMMAND...: the output goes to LOG; its end is printed when the command fails.
quietly() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 || { grep -v '^\[' "$log" | tail -n 60 >&2; exit 1; }
}

build=${AARCH64_BUILD_DIR:-build-aarch64}
native=$(realpath "${HEAPPROF_TEST_BUILD:-build}")
emulator=(qemu-aarch64 -L /usr/aarch64-linux-gnu)

tools/aarch64-setup.sh "${install_option[@]}" "$build"
build=$(realpath "$build")

libraries=$(realpath "$build/deps")
if [ ! -f "$build/build.ninja" ]; then
  echo "==> configuring $(basename "$build")/"
  quietly "$build/setup.log" meson setup "$build" --cross-file "$build/cross.ini" -Ddeps="$libraries" \
    -Danalyzer=false -Doptimization=2 -Ddebug=true -Db_ndebug=true "-Dcpp_args=-isystem$build/root/usr/include"
elif [ "$(cat "$build/configured-libraries" 2>/dev/null)" != "$libraries" ]; then
  # tools/deps.sh has changed since.
  quietly "$build/setup.log" meson configure "$build" -Ddeps="$libraries"
fi
echo "$libraries" >"$build/configured-libraries"
echo "==> compiling"
quietly "$build/compile.log" ninja -C "$build"

# The packages' heapprof, and its unit tests, which are linked with the same objects.
packaged=$build/packaged
export PACKAGE_BUILD_DIR=$build/package PACKAGE_ARCHITECTURE=aarch64
if [ "$packages" = yes ]; then
  tools/package.sh "${install_option[@]}" --arch aarch64 --only-build
  echo "==> compiling unit tests of heapprof"
  quietly "$build/package/tests.log" meson configure "$build/package/analyzer" -Dtests=true
  quietly "$build/package/tests.log" ninja -C "$build/package/analyzer"
  # A build folder, as the tests expect it, of what the packages contain.
  mkdir -p "$packaged"/{analyzer,preload,tests}
  printf '%s\n' '#!/bin/sh' "exec ${emulator[*]} '$build/package/tree/bin/heapprof' \"\$@\"" \
    >"$packaged/analyzer/heapprof"
  chmod +x "$packaged/analyzer/heapprof"
  ln -sf "$build/package/tree/lib/libheapprof.so" "$packaged/preload/libheapprof.so"
  ln -sfn "$build/tests/programs" "$packaged/tests/programs"
fi
[ "$run" = yes ] || exit 0

passed=0
failed=0
# attempt NAME COMMAND...
attempt() {
  local name=$1 log=$build/test.log
  shift
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "$name on aarch64: ok"
  else
    failed=$((failed + 1))
    tail -n 60 "$log" >&2
    echo "$name on aarch64: FAILED"
  fi
}

export PYTHONPATH=tests/support PYTHONDONTWRITEBYTECODE=1
# In one run of meson, which takes longer to start than some of them.
attempt "common, recorder, unwind" meson test -C "$build" --no-rebuild --print-errorlogs --num-processes 1 \
  common recorder unwind
for name in figures_single_thread figures_threads; do
  attempt "$name" env HEAPPROF_TEST_BUILD="$native" HEAPPROF_TEST_TARGET="$build" \
    HEAPPROF_TEST_EMULATOR="${emulator[*]}" python3 "tests/e2e/$name.py"
done
if [ "$packages" = yes ]; then
  unit_test=(meson test -C "$build/package/analyzer" --no-rebuild --print-errorlogs --timeout-multiplier 5)
  for name in trace replay model launch cli render export; do attempt "$name" "${unit_test[@]}" "$name"; done
  # Without the test that reads its own symbols, because the packages' programs are stripped, and one for which `/`
  # and `/tmp/..` must be the same: qemu-user's option -L replaces `/`.
  attempt symbols "${unit_test[@]}" \
    --test-args "'~every function of this program*' '~a map of another user in /tmp is ignored*'" symbols
  attempt packages python3 tests/package/package_test.py
  for name in golden figures_single_thread figures_threads; do
    attempt "$name with the packages" env HEAPPROF_TEST_BUILD="$packaged" HEAPPROF_TEST_EMULATOR="${emulator[*]}" \
      python3 "tests/e2e/$name.py"
  done
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
