#!/usr/bin/env bash
# Builds heapprof on a fresh machine, records Debian's redis-server under redis-benchmark, prints the report, and
# exports the recording.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/quickstart.sh [--no-install]

Build heapprof, record redis-server, print the report and export the recording into ./heapprof-quickstart/, which each
run replaces.

--no-install   install no packages
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
build=${BUILD_DIR:-build}
heapprof=$build/analyzer/heapprof
results=heapprof-quickstart
requests=20000

# One installation for all; and what is missing is reported before minutes of compiling.
tools/packages.sh "${install_option[@]}" build demo
for program in redis-server redis-benchmark redis-cli; do
  if ! command -v "$program" >/dev/null; then
    echo "$program is not installed; install redis-server and redis-tools, or run without --no-install" >&2
    exit 1
  fi
done

tools/build.sh "${install_option[@]}"

echo "==> recording redis-server under redis-benchmark"
# A private directory and a Unix socket, so that the server uses no port and disturbs no other server.
work=$(mktemp -d)
server=
cleanup() {
  if [ -n "$server" ] && kill -0 "$server" 2>/dev/null; then kill "$server"; fi
  rm -rf "$work"
}
trap cleanup EXIT
mkdir -p "$results"
trace=$results/redis.heapprof
socket=$work/redis.sock

"$heapprof" record -o "$trace" --force -- redis-server --port 0 --unixsocket "$socket" --dir "$work" \
  --save '' --appendonly no --daemonize no >"$work/server.log" 2>"$work/recorder.log" &
server=$!
for _ in $(seq 100); do
  if [ "$(redis-cli -s "$socket" ping 2>/dev/null)" = PONG ]; then break; fi
  if ! kill -0 "$server" 2>/dev/null; then break; fi
  sleep 0.1
done
if [ "$(redis-cli -s "$socket" ping 2>/dev/null)" != PONG ]; then
  cat "$work/server.log" "$work/recorder.log" >&2
  echo "redis-server did not respond within 10 s" >&2
  exit 1
fi
redis-benchmark -s "$socket" -q -n "$requests" -r 10000 -d 100 -t set,get,lpush,sadd,hset,zadd |
  tr '\r' '\n' | grep 'requests per second' | sed 's/,* p50=.*//; s/^/    /'
redis-cli -s "$socket" shutdown nosave >/dev/null 2>&1 || true
wait "$server" || { cat "$work/server.log" "$work/recorder.log" >&2; exit 1; }
server=
sed 's/^/    /' "$work/recorder.log"

echo "==> report"
"$heapprof" report "$trace" --top 5
"$heapprof" timeline "$trace"

echo "==> exporting"
"$heapprof" flamegraph "$trace" --format svg -o "$results/flamegraph.svg"
"$heapprof" timeline "$trace" --format svg -o "$results/timeline.svg"
"$heapprof" export heaptrack "$trace" -o "$results/redis.heaptrack.zst"

echo
echo "The recording and its exports:"
printf '    %-42s %s\n' \
  "$trace" "input of all commands: $heapprof report, leaks, timeline, ..." \
  "$results/flamegraph.svg" 'open it in a browser: search, zoom, tooltips' \
  "$results/timeline.svg" 'live memory over time, by call site' \
  "$results/redis.heaptrack.zst" 'for heaptrack_gui and heaptrack_print'
echo
echo "Your own program:  $heapprof record -- PROGRAM ARGUMENTS"
