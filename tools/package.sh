#!/usr/bin/env bash
# Builds the packages into dist/: a tarball, a .deb, a wheel and an image. docs/releasing.md has the steps of a
# release.
#
#   heapprof         compiled by zig's clang for glibc 2.28, with libc++ and its libraries linked in
#                    (tools/package/libraries.sh)
#   libheapprof.so   compiled by gcc, as everywhere; it needs glibc 2.17
#
# The packages for aarch64 are built on x86-64, too. heapprof prints its manual pages with qemu-user there.
#
# Two builds of a commit on one Debian release have the same bytes, in whatever folders they are made.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/package.sh [--no-install] [--arch ARCHITECTURE] [--only-build] [--relink] [--output DIR]

Build the packages into dist/. The build is in build-package/ (or $PACKAGE_BUILD_DIR), for aarch64 in
build-package-aarch64/.

--no-install   install no Debian packages
--arch NAME    build for x86_64 (default) or aarch64
--only-build   build, check the symbol versions, and write no packages
--relink       write what is needed to relink heapprof with another elfutils, too
--output DIR   write the packages there instead of into dist/

Exit status 77: what is needed cannot be downloaded.
SOURCE_DATE_EPOCH sets the time of all files (default: that of the commit), HEAPPROF_MAINTAINER='NAME <ADDRESS>' the
maintainer of the .deb.
END
}

install_option=()
architecture=x86_64
packages=yes
relink=no
output=dist
while [ $# -gt 0 ]; do
  case $1 in
    --no-install) install_option=(--no-install) ;;
    --arch)
      case ${2:-} in
        x86_64 | aarch64) architecture=$2 ;;
        *) echo "tools/package.sh: invalid value '${2:-}' for --arch; expected x86_64 or aarch64" >&2; exit 2 ;;
      esac
      shift
      ;;
    --only-build) packages=no ;;
    --relink) relink=yes ;;
    --output)
      [ $# -gt 1 ] || { echo "tools/package.sh: missing folder after --output" >&2; exit 2; }
      output=$2
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

fail() {
  echo "tools/package.sh: $*" >&2
  exit 1
}

# quietly LOG COMMAND...: the output goes to LOG; its end is printed when the command fails.
quietly() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 || {
    grep -v '^\[' "$log" | tail -n 40 >&2
    fail "failed: $*"
  }
}

build=build-package
if [ "$architecture" != x86_64 ]; then build+=-$architecture; fi
build=${PACKAGE_BUILD_DIR:-$build}
commit=$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || true)
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) ||
    fail "the time of the commit is not known, because this is no git repository; set SOURCE_DATE_EPOCH"
fi
export SOURCE_DATE_EPOCH

echo "==> packages"
tools/packages.sh "${install_option[@]}" build package
for tool in python3 meson ninja; do
  command -v "$tool" >/dev/null || { echo "tools/package.sh: $tool is not installed" >&2; exit 77; }
done
echo "==> libraries"
tools/package/libraries.sh "$architecture"
libraries=$(tools/package/libraries.sh --path "$architecture")
mkdir -p "$build"
build=$(realpath "$build")
# The paths and the debug information of the build must not get into the files: they would change the build ID.
source_map=-ffile-prefix-map=$PWD=.
# Boost's headers contain messages with their own paths.
constants=$(printf '%s\n' '[constants]' "source_map = ['$source_map', '-ffile-prefix-map=$libraries=.']")
# Only what changes is written: meson configures again when the file is newer than its build.
if [ "$(cat "$build/source_map.ini" 2>/dev/null)" != "$constants" ]; then
  printf '%s\n' "$constants" >"$build/source_map.ini"
fi
recorder_options=("-Dc_args=$source_map" "-Dcpp_args=$source_map")
machine_option=--native-file
strip=strip
if [ "$architecture" = x86_64 ]; then
  tools/deps.sh
else
  tools/aarch64-setup.sh "${install_option[@]}" "$build/cross"
  machine_option=--cross-file
  strip=$build/cross/tools/strip
  recorder_options=(--cross-file "$build/cross/cross.ini" -Ddeps="$(realpath "$build/cross/deps")"
    "-Dc_args=$source_map" "-Dcpp_args=$source_map -isystem$build/cross/root/usr/include")
fi

# configure PART OPTION...: sets up the build directory of a part again whenever its options have changed.
configure() {
  local part=$1 configuration
  shift
  configuration=$(printf '%s\n' "$@" && cat "$build/source_map.ini")
  if [ -f "$build/$part/build.ninja" ] && [ "$(cat "$build/$part.options" 2>/dev/null)" = "$configuration" ]; then
    return
  fi
  rm -rf "${build:?}/$part" "$build/$part.options"
  quietly "$build/$part.log" meson setup "$build/$part" --prefix /usr/local -Dtests=false -Doptimization=2 \
    -Ddebug=false -Db_ndebug=true "$@"
  printf '%s\n' "$configuration" >"$build/$part.options"
}

echo "==> recorder"
configure recorder -Danalyzer=false -Dpkgconfig.relocatable=true -Dcpp_link_args=-Wl,--strip-debug \
  "${recorder_options[@]}"
quietly "$build/recorder.log" ninja -C "$build/recorder"

echo "==> analyzer"
configure analyzer -Drecorder=false -Db_pie=true -Dunity_analyzer=true \
  "$machine_option" "$build/source_map.ini" "$machine_option" "$libraries/meson.ini"
quietly "$build/analyzer.log" ninja -C "$build/analyzer"

echo "==> files"
rm -rf "$build/tree" "$build/installed"
for part in recorder analyzer; do
  quietly "$build/install.log" env DESTDIR="$build/installed" meson install -C "$build/$part" --no-rebuild
done
mv "$build/installed/usr/local" "$build/tree"
"$strip" --strip-unneeded "$build/tree/lib/libheapprof.so"
quietly "$build/image.log" "$libraries/bin/static-cc" -Os -s "$source_map" tools/package/install_into.c \
  -o "$build/install-into"
cp -r "$libraries/licenses" "$build/tree/share/doc/heapprof/"
python3 tools/package/symbol_versions.py --program "$build/tree/bin/heapprof" \
  --recorder "$build/tree/lib/libheapprof.so"
[ "$packages" = yes ] || exit 0

echo "==> packages"
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" meson.build)
options=()
if [ "$relink" = yes ]; then
  python3 tools/package/relink_kit.py --build "$build/analyzer" --libraries "$libraries" --output "$build/relink"
  options=(--relink "$build/relink")
fi
python3 tools/package/make_packages.py --tree "$build/tree" --install-into "$build/install-into" \
  --architecture "$architecture" --version "$version" --commit "$commit" --output "$output" "${options[@]}"
