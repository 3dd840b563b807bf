#!/usr/bin/env bash
# Prepares cross-builds of the recorder for aarch64 with Debian's compiler: headers, LZ4 and Catch of Debian's packages
# for that architecture, the libraries of tools/deps.sh, and the machine file for meson.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/aarch64-setup.sh [--no-install] DIR

Write into DIR, unless they are there:

  cross.ini  the machine file for meson --cross-file; programs run with qemu-user
  deps       the folder of the libraries, for meson -Ddeps
  root/      files of Debian's packages for aarch64; headers are in root/usr/include
  tools/     the compiler and its tools by their short names

--no-install   install no packages; exit with status 77 when some are missing

Exit status 77: also when what is needed cannot be downloaded.
END
}

install=yes
directory=
for argument in "$@"; do
  case $argument in
    --no-install) install=no ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) directory=$argument ;;
  esac
done
[ -n "$directory" ] || { usage >&2; exit 2; }

triplet=aarch64-linux-gnu
[ "$install" = no ] || tools/packages.sh cross
for tool in "$triplet-g++" qemu-aarch64 apt-get dpkg-deb; do
  if ! command -v "$tool" >/dev/null; then
    echo "tools/aarch64-setup.sh: $tool is not installed; run tools/packages.sh cross" >&2
    exit 77
  fi
done
mkdir -p "$directory"
directory=$(realpath "$directory")

# unavailable WHAT: without access to packages, tests are skipped.
log=$directory/apt.log
unavailable() {
  tail -n 20 "$log" >&2
  echo "skipped: cannot download $1: $(grep '^E: ' "$log" | tail -n 1)"
  exit 77
}

# The packages are unpacked here, so that dpkg needs no second architecture.
root=$directory/root
if [ ! -f "$root/complete" ]; then
  echo "==> headers and LZ4 for aarch64"
  apt=$(mktemp -d)
  trap 'rm -rf "$apt"' EXIT
  mkdir -p "$apt"/{lists/partial,cache/archives/partial,packages}
  options=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State::lists=$apt/lists"
           -o Dir::State::status=/dev/null -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root
           -o Acquire::Languages=none)
  (apt-get "${options[@]}" update && cd "$apt/packages" &&
    apt-get "${options[@]}" download liblz4-dev libxxhash-dev catch2) \
    >"$log" 2>&1 || unavailable "Debian's packages for aarch64"
  for package in "$apt"/packages/*.deb; do dpkg-deb -x "$package" "$root"; done
  touch "$root/complete"
fi

# tools/deps.sh builds with the `cc` and the binutils in PATH.
mkdir -p "$directory/tools"
for tool in gcc:cc gcc:gcc g++:g++ objcopy:objcopy objdump:objdump ar:ar nm:nm ranlib:ranlib strip:strip; do
  ln -sf "$(command -v "$triplet-${tool%%:*}")" "$directory/tools/${tool##*:}"
done
echo "==> libraries built from Debian's source packages"
export PATH=$directory/tools:$PATH
libraries=$(tools/deps.sh --path)
if [ ! -f "$libraries/versions-of-tests" ] && [ -z "${HEAPPROF_SOURCES:-}" ]; then
  # The only one that is needed for aarch64.
  HEAPPROF_SOURCES=$directory/sources
  rm -rf "$HEAPPROF_SOURCES"
  mkdir "$HEAPPROF_SOURCES"
  tools/deps.sh --sources "$HEAPPROF_SOURCES" mimalloc >"$log" 2>&1 || unavailable "the source of mimalloc"
  export HEAPPROF_SOURCES
fi
tools/deps.sh --tests
ln -sfn "$libraries" "$directory/deps"

# Only what changes is written: meson configures again when the file is newer than its build.
cat >"$directory/cross.ini.new" <<END
[binaries]
c = '$triplet-gcc'
cpp = '$triplet-g++'
ar = '$triplet-ar'
strip = '$triplet-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-L', '/usr/$triplet']
[properties]
pkg_config_libdir = '$root/usr/lib/$triplet/pkgconfig:$root/usr/share/pkgconfig'
sys_root = '$root'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
if cmp -s "$directory/cross.ini.new" "$directory/cross.ini"; then
  rm "$directory/cross.ini.new"
else
  mv "$directory/cross.ini.new" "$directory/cross.ini"
fi
