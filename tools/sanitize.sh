#!/usr/bin/env bash
# Runs tests with sanitizers: unit tests of the analyzer and the fuzzing corpus with AddressSanitizer and
# UndefinedBehaviorSanitizer, unit tests of the recorder's core with ThreadSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/sanitize.sh [--no-install] [analyzer | threads]

Build with sanitizers and run tests. Default: both parts.

analyzer   in build-asan/, with AddressSanitizer and UndefinedBehaviorSanitizer: unit tests of the analyzer and the
           launcher, and all inputs of tests/fuzz/corpus
threads    in build-tsan/, with ThreadSanitizer: unit tests of the recorder's core with several threads (streams,
           their reuse by other threads, the call tree, the extents of the file)

libheapprof.so itself cannot be linked with a sanitizer's runtime. tools/fuzz.sh compiles its parsers with sanitizers.
END
}

install_option=()
parts=()
for argument in "$@"; do
  case $argument in
    --no-install) install_option=(--no-install) ;;
    analyzer | threads) parts+=("$argument") ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
if [ ${#parts[@]} -eq 0 ]; then parts=(analyzer threads); fi

tools/packages.sh "${install_option[@]}" build test
tools/deps.sh --tests >/dev/null

# test_in DIR TEST... -- MESON-OPTION...: configures DIR, builds the tests and runs them.
test_in() {
  local directory=$1 tests=()
  shift
  while [ "$1" != -- ]; do tests+=("$1"); shift; done
  shift
  mkdir -p "$directory"
  if [ ! -f "$directory/build.ninja" ]; then
    # -g1, debug information with line numbers only, halves the compile time.
    meson setup "$directory" -Ddebug=false -Dcpp_args=-g1 -Db_lundef=false "$@" >"$directory/setup.log" 2>&1 || {
      tail -n 30 "$directory/setup.log" >&2
      exit 1
    }
  fi
  # `meson test` builds what these tests need. GCC 12's ThreadSanitizer does not support the address space layout
  # randomization of newer kernels, which setarch disables.
  setarch -R meson test -C "$directory" --print-errorlogs --timeout-multiplier 10 "${tests[@]}"
}

status=0
for part in "${parts[@]}"; do
  if [ "$part" = analyzer ]; then
    corpora=(tests/fuzz/corpus/*)
    corpora=("${corpora[@]##*/}")
    corpora=("${corpora[@]//_/-}")
    # Debian's libelf leaks memory when it rejects an ELF file.
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 ASAN_OPTIONS=detect_leaks=0 test_in build-asan \
      trace common replay render export launch symbols "${corpora[@]/#/corpus-}" \
      -- -Doptimization=0 -Db_sanitize=address,undefined || status=1
  else
    test_in build-tsan recorder -- -Doptimization=1 -Db_sanitize=thread -Dcore_sanitizer=thread || status=1
  fi
done
exit $status
