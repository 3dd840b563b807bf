#!/usr/bin/env bash
# Builds once, then runs all tests repeatedly. Each run adds one line to a file, so that rare failures are counted and
# named. A second call resumes.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/repeat.sh [--runs N] [--loaded] [--no-install] [--no-build] [--results FILE] [TEST...]

Run all tests, or those named, repeatedly, and count the failures.

--runs N        stop when FILE has N runs of this commit under this load; default 20
--loaded        run two busy loops at the same time
--no-install    install no packages
--no-build      run the tests as they are built, and install nothing
--results FILE  add the results to FILE; default repeat.tsv in the build directory
TEST            names or suites, as for tools/test.sh; default: all

FILE has tab-separated columns: date, commit (with "+" if files differ from it), load, passed, failed, skipped,
seconds, and the failed tests, each as NAME=PATH with the path of its output. An interrupted run adds no line.

Exit status 0: no run of this commit under this load had a failure.
END
}

runs=20
load=idle
no_build=no
build_options=(--only-build)
results=
tests=()
value() {
  [ $# -gt 1 ] && [ -n "$2" ] || { echo "tools/repeat.sh: missing value of $1" >&2; exit 2; }
}
while [ $# -gt 0 ]; do
  case $1 in
    --runs) value "$@"; runs=$2; shift ;;
    --results) value "$@"; results=$2; shift ;;
    --loaded) load=loaded ;;
    --no-install) build_options+=(--no-install) ;;
    --no-build) no_build=yes ;;
    -h | --help) usage; exit 0 ;;
    *) tests+=("$1") ;;
  esac
  shift
done
if ! [[ $runs =~ ^[1-9][0-9]*$ ]]; then
  echo "tools/repeat.sh: invalid number of runs '$runs'; expected 1 or more" >&2
  exit 2
fi
build=${BUILD_DIR:-build}
results=${results:-$build/repeat.tsv}

commit=$(git rev-parse --short=12 HEAD)
[ -z "$(git status --porcelain)" ] || commit+=+

if [ "$no_build" = no ]; then
  tools/test.sh "${build_options[@]}"
fi

mkdir -p "$(dirname "$results")"
[ -s "$results" ] || printf 'date\tcommit\tload\tpassed\tfailed\tskipped\tseconds\tfailed tests\n' >"$results"
# count CONDITION: prints the number of runs of this commit under this load that match an awk condition.
count() {
  awk -F'\t' -v commit="$commit" -v load="$load" \
    "\$2 == commit && \$3 == load $1 { n++ } END { print n + 0 }" "$results"
}

# A signal ends this script and its busy loops, which are killed by process id, and nothing else.
loops=()
output=$(mktemp)
clean() {
  rm -f "$output"
  for loop in "${loops[@]}"; do kill "$loop" 2>/dev/null || true; done
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ "$load" = loaded ]; then
  for _ in 1 2; do
    (trap - EXIT INT TERM; while :; do :; done) &
    loops+=($!)
  done
fi

while done=$(count ''); [ "$done" -lt "$runs" ]; do
  date=$(date +%Y-%m-%dT%H:%M:%S)
  logs=$results.logs/run-$(wc -l <"$results")
  begin=$(date +%s)
  tools/test.sh --no-build --logs "$logs" "${tests[@]}" >"$output" 2>&1 || true
  seconds=$(($(date +%s) - begin))
  result=$(tail -n 1 "$output")
  if ! [[ $result =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)? ]]; then
    echo "tools/repeat.sh: the run printed no result:" >&2
    tail -n 20 "$output" >&2
    exit 1
  fi
  passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]} skipped=${BASH_REMATCH[4]:-0}
  # A run without passed and failed tests is not a success.
  [ "$passed" -gt 0 ] || [ "$failed" -gt 0 ] || { echo "tools/repeat.sh: no test ran" >&2; exit 1; }
  names=$(sed -n 's/^failed: \([^ ]*\) (.*): \(.*\)$/\1=\2/p' "$output" | paste -sd ' ')
  if [ "$failed" -gt 0 ]; then cp "$build/meson-logs/testlog.json" "$logs/"; fi
  row=("$date" "$commit" "$load" "$passed" "$failed" "$skipped" "$seconds" "$names")
  (IFS=$'\t'; printf '%s\n' "${row[*]}") >>"$results"
  echo "run $((done + 1)) of $runs, $load, $seconds s: $result${names:+; failed: $names}"
done

with_failures=$(count '&& $5 > 0')
without_failure=$((done - with_failures))
echo "$done runs of $commit, $load: $without_failure without a failure, $with_failures with failures;" \
  "results in $results"
[ "$with_failures" = 0 ]
