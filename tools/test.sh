#!/usr/bin/env bash
# Installs what is needed, builds, runs every test. The last line is the result: "N passed, N failed", with
# ", N skipped" when something could not be tried here; what failed and what was skipped is named above it.
# Exit status 0 when nothing failed.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/test.sh [--no-install] [TEST...]

--no-install   install no packages; tests that lack a program are skipped by name
TEST           names or suites of meson's (e2e-kill, --suite unit); default: all
END
}

install_option=()
tests=()
for argument in "$@"; do
  case $argument in
    --no-install) install_option=(--no-install) ;;
    -h | --help) usage; exit 0 ;;
    *) tests+=("$argument") ;;
  esac
done
build=${BUILD_DIR:-build}

tools/build.sh "${install_option[@]}" --everything
if [ ${#install_option[@]} -eq 0 ]; then tools/consumers.sh; fi

echo "==> testing"
rm -f "$build"/meson-logs/testlog.json
# meson's own lines are the progress; its status is not needed, the log tells more.
meson test -C "$build" --no-rebuild --print-errorlogs "${tests[@]}" || true
python3 tools/test_result.py "$build/meson-logs/testlog.json"
