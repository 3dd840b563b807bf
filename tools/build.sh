#!/usr/bin/env bash
# Builds heapprof into build/ (or $BUILD_DIR), optimized: installs packages, builds the libraries of tools/deps.sh,
# runs meson and ninja. A second run builds only what changed.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/build.sh [--no-install] [--everything] [--werror]

Build heapprof and libheapprof.so into build/ (or $BUILD_DIR): without debug information, and heapprof's files in
groups, because that takes the least time.

--no-install   install no packages
--everything   for development: also build the tests; with debug information, and each file alone
--werror       treat compiler warnings as errors
END
}

install_option=()
everything=no
werror=no
for argument in "$@"; do
  case $argument in
    --no-install) install_option=(--no-install) ;;
    --everything) everything=yes ;;
    --werror) werror=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
build=${BUILD_DIR:-build}

groups=(build)
if [ "$everything" = yes ]; then groups+=(test cross package roots); fi
echo "==> packages"
tools/packages.sh "${install_option[@]}" "${groups[@]}"

echo "==> libraries built from Debian's source packages"
if [ "$everything" = yes ]; then tools/deps.sh --tests; else tools/deps.sh; fi

# What the two kinds of build differ in.
options=(-Dtests=false -Ddebug=false -Dunity_analyzer=true)
if [ "$everything" = yes ]; then options=(-Dtests=true -Ddebug=true -Dunity_analyzer=false); fi
if [ ! -f "$build/build.ninja" ]; then
  echo "==> configuring $build/"
  mkdir -p "$build"
  meson setup "$build" -Doptimization=2 -Db_ndebug=true "${options[@]}" >"$build/setup.log" 2>&1 || {
    tail -n 40 "$build/setup.log" >&2
    exit 1
  }
elif [ "$everything" = yes ]; then
  # meson configure refuses options that were added to meson_options.txt since the directory was configured.
  meson configure "$build" "${options[@]}" >/dev/null 2>&1 ||
    meson setup --reconfigure "$build" "${options[@]}" >"$build/setup.log" 2>&1 || {
    tail -n 40 "$build/setup.log" >&2
    exit 1
  }
fi
if [ "$werror" = yes ]; then meson configure "$build" -Dwerror=true; fi

echo "==> compiling"
targets=(preload/libheapprof.so analyzer/heapprof)
if [ "$everything" = yes ]; then targets=(all); fi
ninja -C "$build" "${targets[@]}" >"$build/compile.log" 2>&1 || {
  grep -a -v '^\[' "$build/compile.log" | tail -n 80 >&2
  exit 1
}
