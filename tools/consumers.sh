#!/usr/bin/env bash
# Fetches the consumers of exports that Debian does not have, from npm, PyPI and crates.io, into the build folder, where the
# tests of tests/consumers look for them. What cannot be had is left out, and its test is skipped by name.
set -uo pipefail
cd "$(dirname "$0")/.."

folder=${BUILD_DIR:-build}/consumers
mkdir -p "$folder"

if [ ! -d "$folder/python/duckdb" ]; then
  timeout 100 python3 -m pip install -q --disable-pip-version-check --no-warn-script-location --target "$folder/python" \
    duckdb prometheus_client >"$folder/pip.log" 2>&1 || echo "not available from PyPI: duckdb, prometheus_client"
fi
if [ ! -d "$folder/node_modules/speedscope" ]; then
  timeout 100 npm install --silent --no-audit --no-fund --prefix "$folder" speedscope >"$folder/npm.log" 2>&1 ||
    echo "not available from npm: speedscope"
fi
if [ ! -x "$folder/cargo/bin/inferno-flamegraph" ]; then
  # Unoptimised: a minute less of compiling for a second more of running.
  timeout 200 cargo install --quiet --debug --locked --version 0.12.8 --root "$folder/cargo" --no-default-features --features cli \
    --bin inferno-flamegraph inferno >"$folder/cargo.log" 2>&1 || echo "not available from crates.io: inferno"
fi
exit 0
