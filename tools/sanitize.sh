#!/usr/bin/env bash
# Runs unit tests under sanitizers: the analyzer's and the fuzzers' corpus under AddressSanitizer and UndefinedBehaviorSanitizer,
# the recorder's core under ThreadSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/sanitize.sh [--no-install] [analyzer|threads]

analyzer   builds into build-asan/ and runs there: all unit tests of the analyzer and the launcher, and every input of
           tests/fuzz/corpus
threads    builds into build-tsan/ and runs there: what the recorder's core does with several threads (streams, their handover
           to other threads, the call tree, the file's extents)

Default: both. The recorder's library cannot be built this way, as it brings no runtime; tools/fuzz.sh compiles its parser of unwind
information with sanitizers.
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
tools/deps.sh >/dev/null

# test_in FOLDER TEST... -- MESON-OPTION...
test_in() {
  local folder=$1 tests=()
  shift
  while [ "$1" != -- ]; do tests+=("$1"); shift; done
  shift
  mkdir -p "$folder"
  if [ ! -f "$folder/build.ninja" ]; then
    # Lines, but no more, of debug information: the compiler takes half the time.
    meson setup "$folder" -Ddebug=false -Dcpp_args=-g1 -Db_lundef=false "$@" >"$folder/setup.log" 2>&1 || {
      tail -n 30 "$folder/setup.log" >&2
      exit 1
    }
  fi
  # Builds what these tests need and no more. GCC 12's ThreadSanitizer knows no address space layout as random as newer kernels make it.
  setarch -R meson test -C "$folder" --print-errorlogs --timeout-multiplier 10 "${tests[@]}"
}

status=0
for part in "${parts[@]}"; do
  if [ "$part" = analyzer ]; then
    # Debian's libraries keep a little at a refused ELF file.
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 ASAN_OPTIONS=detect_leaks=0 test_in build-asan \
      trace common replay render export launch symbols \
      corpus-{trace-file,trace-events,compacted,codec,symbols,recorder-elf,cfi,texts,settings,side-files} -- -Doptimization=0 \
      -Db_sanitize=address,undefined || status=1
  else
    test_in build-tsan recorder -- -Doptimization=1 -Db_sanitize=thread -Dcore_sanitizer=thread || status=1
  fi
done
exit $status
