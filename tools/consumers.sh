#!/usr/bin/env bash
# Fetches programs that read exports into the build directory, where tests/consumers expects them. Those that Debian
# lacks come from npm, PyPI and crates.io. Two Debian packages would install a daemon and a profiler, so files of
# each are extracted instead. Tests whose program is not available are skipped.
set -uo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/consumers.sh

Fetch the programs and Python modules that read exports, and that `tools/packages.sh test` does not install, into
consumers/ in the build directory ($BUILD_DIR, by default build/), unless they are there: duckdb, prometheus_client,
perfetto, speedscope, profiler-cli, promtool, prometheus, flamegraph.pl, inferno-flamegraph.

What cannot be fetched is named; the exit status is 0 then, too, because tests that need it are skipped.
END
}

case ${1:-} in
  '') ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

directory=${BUILD_DIR:-build}/consumers
mkdir -p "$directory"

if [ ! -d "$directory/python/duckdb" ]; then
  timeout 100 python3 -m pip install -q --disable-pip-version-check --no-warn-script-location \
    --target "$directory/python" duckdb prometheus_client >"$directory/pip.log" 2>&1 ||
    echo "not available from PyPI: duckdb, prometheus_client"
fi
# The messages of Perfetto's traces, as Python classes.
if [ ! -d "$directory/python/perfetto" ]; then
  timeout 100 python3 -m pip install -q --disable-pip-version-check --no-warn-script-location \
    --target "$directory/python" perfetto==0.59.1 protobuf >>"$directory/pip.log" 2>&1 ||
    echo "not available from PyPI: perfetto"
fi
if [ ! -d "$directory/node_modules/speedscope" ]; then
  timeout 100 npm install --silent --no-audit --no-fund --prefix "$directory" speedscope >"$directory/npm.log" 2>&1 ||
    echo "not available from npm: speedscope"
fi
if [ ! -d "$directory/node_modules/@firefox-devtools/profiler-cli" ]; then
  # profiler-cli needs a newer node than Debian's.
  timeout 200 npm install --silent --no-audit --no-fund --prefix "$directory" \
    @firefox-devtools/profiler-cli@0.10.0 node@24 >>"$directory/npm.log" 2>&1 ||
    echo "not available from npm: @firefox-devtools/profiler-cli"
fi
# files_of PACKAGE PATH...: extracts the files from a Debian package without installing it.
files_of() {
  local package=$1 path missing=()
  shift
  for path; do [ -e "$directory/debian/$path" ] || missing+=("./$path"); done
  [ ${#missing[@]} -eq 0 ] && return
  mkdir -p "$directory/debian"
  (cd "$directory/debian" && rm -f "$package"_*.deb && timeout 60 apt-get download "$package" &&
    dpkg-deb --fsys-tarfile "$package"_*.deb | tar x "${missing[@]}") >"$directory/apt.log" 2>&1 ||
    echo "not available from Debian: $package"
  rm -f "$directory/debian/$package"_*.deb
}
files_of prometheus usr/bin/promtool usr/bin/prometheus
files_of libdevel-nytprof-perl usr/share/perl5/Devel/NYTProf/flamegraph.pl
if [ ! -x "$directory/cargo/bin/inferno-flamegraph" ]; then
  # Not optimized: compiling takes a minute less, running a second more.
  timeout 200 cargo install --quiet --debug --locked --version 0.12.8 --root "$directory/cargo" \
    --no-default-features --features cli --bin inferno-flamegraph inferno >"$directory/cargo.log" 2>&1 ||
    echo "not available from crates.io: inferno"
fi
# Newer versions of Go compile pprof when it is used first, which takes half a minute.
if command -v go >/dev/null; then go tool pprof -help >/dev/null 2>&1 || true; fi
exit 0
