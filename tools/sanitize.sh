#!/usr/bin/env bash
# Runs the analyzer's unit tests and the fuzzers' corpus under AddressSanitizer and UndefinedBehaviorSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/sanitize.sh [--no-install]

Builds into build-asan/ and runs there: reader, replay, codec, and every input of tests/fuzz/corpus. The recorder's library cannot
be built this way: it brings no runtime; tools/fuzz.sh compiles its parser of unwind information with sanitizers.
END
}

install_option=()
for argument in "$@"; do
  case $argument in
    --no-install) install_option=(--no-install) ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

tools/packages.sh "${install_option[@]}" build test
tools/deps.sh >/dev/null

folder=build-asan
if [ ! -f "$folder/build.ninja" ]; then
  meson setup "$folder" -Doptimization=1 -Ddebug=true -Db_sanitize=address,undefined -Db_lundef=false >"$folder.log" 2>&1 || {
    tail -n 30 "$folder.log" >&2
    exit 1
  }
fi
corpora=(trace_file trace_events codec symbols texts)
ninja -C "$folder" tests/unit/{trace/trace_test,common/common_test,replay/replay_test} "${corpora[@]/#/tests/fuzz/corpus_}" \
  >"$folder.log" 2>&1 || { grep -v '^\[' "$folder.log" | tail -n 60 >&2; exit 1; }
corpora=("${corpora[@]/#/corpus-}")
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
# Debian's libraries keep a little at a refused ELF file.
export ASAN_OPTIONS=detect_leaks=0
meson test -C "$folder" --no-rebuild --print-errorlogs --timeout-multiplier 10 trace common replay "${corpora[@]//_/-}"
