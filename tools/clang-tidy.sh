#!/usr/bin/env bash
# Fetches clang-tidy from PyPI into the build directory, where tools/lint.sh finds it. Debian's version 16 also checks
# the headers of the system, whose findings it then hides: a file takes it three times as long.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/clang-tidy.sh

Fetch clang-tidy from PyPI into lint/ in the build directory ($BUILD_DIR, by default build/), unless it is there.
tools/lint.sh does this itself. Where it cannot be fetched, a line says so, and the exit status is 0.
END
}

case ${1:-} in
  '') ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

version=22.1.8
# Of the wheels for x86-64 and aarch64.
hashes=(
  1a3de07ba82d4403d8b692ae63a5520d4db5c606014c92c24bbcef9259057bf1
  1eaddaa7415e8c5e39aeefbfd15174f1ab2a671c86f7ebb200eb523cf9465559
)
directory=${BUILD_DIR:-build}/lint
program=$directory/clang-tidy-$version/clang_tidy/data/bin/clang-tidy
[ -x "$program" ] && exit

mkdir -p "$directory"
work=$(mktemp -d "$directory/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
{
  echo "clang-tidy==$version"
  printf -- '--hash=sha256:%s\n' "${hashes[@]}"
} | paste -sd ' ' >"$work/requirements"
if ! timeout 200 python3 -m pip install -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
  --target "$work/python" -r "$work/requirements" >"$directory/pip.log" 2>&1; then
  echo "not available from PyPI: clang-tidy $version"
  exit
fi
rm -rf "$directory"/clang-tidy-*
mv "$work/python" "$directory/clang-tidy-$version"
