#!/usr/bin/env bash
# Runs tests with sanitizers: unit tests of the analyzer and the fuzzing corpus with AddressSanitizer and
# UndefinedBehaviorSanitizer, unit tests with several threads with ThreadSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/sanitize.sh [--no-install] [analyzer | threads]

Build with sanitizers and run tests. Default: both parts.

analyzer   in build-asan/, with AddressSanitizer and UndefinedBehaviorSanitizer: all unit tests of the analyzer and
           the launcher, and all inputs of tests/fuzz/corpus
threads    in build-tsan/, with ThreadSanitizer: unit tests of the recorder's core (streams, their reuse by other
           threads, the call tree, the extents of the file), and of those parts of the analyzer and the launcher that
           start threads

Before the tests, print their names, and the test cases that are not compiled with the sanitizer; afterwards, those
that were skipped; each with the reason.

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

# Without allocator-libraries: it preloads allocators into a program that cannot be linked with a sanitizer.
analyzer_tests=(allocators base cli common export findings follow launch live model pins processes push query render
  replay rss serve svg symbols trace views)
# The others start no threads, or are tests of the unwinder, whose stacks would have frames of ThreadSanitizer.
thread_tests=(recorder python cli follow launch push replay symbols trace)

tools/packages.sh "${install_option[@]}" build test
tools/deps.sh --tests >/dev/null

# print_left_out TEST...: the test cases of unit tests that ThreadSanitizer leaves out at compile time, and why.
print_left_out() {
  local test sources=()
  for test in "$@"; do
    # Tests of other names are in the directory of one of these.
    if [ -d "tests/unit/$test" ]; then sources+=("tests/unit/$test"/*.cpp); fi
  done
  if [ ${#sources[@]} -eq 0 ]; then return; fi
  awk '
    FNR == 1 { depth = 0 }
    /^#if/ {
      reason[++depth] = ""
      if (/HEAPPROF_SINGLE_STEP/) reason[depth] = "would also interrupt the code of ThreadSanitizer"
      if (/^#ifndef __SANITIZE_THREAD__/) reason[depth] = "ThreadSanitizer delays signals"
    }
    /^#else/ { reason[depth] = "" }
    /^#endif/ { --depth }
    /^TEST_CASE\("/ {
      why = ""
      for (i = 1; i <= depth; ++i) if (reason[i] != "") why = reason[i]
      if (why == "") next
      split(FILENAME, path, "/")
      name = $0
      sub(/^TEST_CASE\("/, "", name)
      sub(/"[^"]*$/, "", name)
      print "left out in " path[3] ": " name " (" why ")"
      ++count
    }
    END { print count + 0 " cases left out" }' "${sources[@]}"
}

# test_in DIR TEST... -- MESON-OPTION...: configures DIR, builds the tests and runs them.
test_in() {
  local directory=$1 tests=() result=0
  shift
  while [ "$1" != -- ]; do tests+=("$1"); shift; done
  shift
  echo "tests in $directory: ${tests[*]}"
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
  rm -f "$directory/meson-logs/testlog.json"
  setarch -R meson test -C "$directory" --print-errorlogs --timeout-multiplier 10 "${tests[@]}" || result=1
  # The skipped cases.
  if [ -f "$directory/meson-logs/testlog.json" ]; then
    python3 tools/test_result.py "$directory/meson-logs/testlog.json" || result=1
  fi
  return $result
}

status=0
for part in "${parts[@]}"; do
  if [ "$part" = analyzer ]; then
    corpora=(tests/fuzz/corpus/*)
    corpora=("${corpora[@]##*/}")
    corpora=("${corpora[@]//_/-}")
    # Debian's libelf leaks memory when it rejects an ELF file.
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 ASAN_OPTIONS=detect_leaks=0 test_in build-asan \
      "${analyzer_tests[@]}" "${corpora[@]/#/corpus-}" \
      -- -Doptimization=0 -Db_sanitize=address,undefined || status=1
  else
    print_left_out "${thread_tests[@]}"
    test_in build-tsan "${thread_tests[@]}" \
      -- -Doptimization=1 -Db_sanitize=thread -Dcore_sanitizer=thread || status=1
  fi
done
exit $status
