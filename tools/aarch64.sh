#!/usr/bin/env bash
# Cross-builds the recorder for aarch64 into build-aarch64/ and tests it with qemu-user: unit tests, and ledger
# programs whose recordings the native build's heapprof reads (run tools/build.sh --everything first). The last line
# is the result.
#
# Not tested, because qemu-user does not support them: events with equal times, the kernel's memory figures,
# /proc/self/maps with the signal trampoline (modules on C libraries without _dl_find_object), kill and fault
# campaigns, and speed.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/aarch64.sh [--no-install] [--only-build]

Build the recorder for aarch64 and run its tests with qemu-user.

--no-install   install no packages; exit with status 77 when some are missing
--only-build   build, run nothing
END
}

install=yes
run=yes
for argument in "$@"; do
  case $argument in
    --no-install) install=no ;;
    --only-build) run=no ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

triplet=aarch64-linux-gnu
build=${AARCH64_BUILD_DIR:-build-aarch64}
native=$(realpath "${HEAPPROF_TEST_BUILD:-build}")
emulator=(qemu-aarch64 -L "/usr/$triplet")

[ "$install" = no ] || tools/packages.sh cross
for tool in "$triplet-g++" qemu-aarch64 apt-get dpkg-deb; do
  if ! command -v "$tool" >/dev/null; then
    echo "tools/aarch64.sh: $tool is not installed; run tools/packages.sh cross" >&2
    exit 77
  fi
done
mkdir -p "$build"
build=$(realpath "$build")

# Debian's packages for aarch64 are unpacked in the build directory, so that dpkg needs no second architecture.
root=$build/root
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
    >"$build/apt.log" 2>&1 || { tail -n 20 "$build/apt.log" >&2; exit 1; }
  for package in "$apt"/packages/*.deb; do dpkg-deb -x "$package" "$root"; done
  touch "$root/complete"
fi

# tools/deps.sh builds with the `cc` and the binutils in PATH.
mkdir -p "$build/tools"
for tool in gcc:cc gcc:gcc g++:g++ objcopy:objcopy objdump:objdump ar:ar nm:nm ranlib:ranlib strip:strip; do
  ln -sf "$(command -v "$triplet-${tool%%:*}")" "$build/tools/${tool##*:}"
done
echo "==> libraries built from Debian's source packages"
PATH=$build/tools:$PATH tools/deps.sh --tests
deps=$(PATH=$build/tools:$PATH tools/deps.sh --path)

if [ ! -f "$build/build.ninja" ]; then
  echo "==> configuring $(basename "$build")/"
  cat >"$build/cross.ini" <<END
[binaries]
c = '$triplet-gcc'
cpp = '$triplet-g++'
ar = '$triplet-ar'
strip = '$triplet-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['${emulator[0]}', '${emulator[1]}', '${emulator[2]}']
[properties]
pkg_config_libdir = '$root/usr/lib/$triplet/pkgconfig:$root/usr/share/pkgconfig'
sys_root = '$root'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
  meson setup "$build" --cross-file "$build/cross.ini" -Ddeps="$deps" -Danalyzer=false -Doptimization=2 -Ddebug=true \
    -Db_ndebug=true "-Dcpp_args=-isystem$root/usr/include" >"$build/setup.log" 2>&1 ||
    { tail -n 40 "$build/setup.log" >&2; exit 1; }
fi
echo "==> compiling"
ninja -C "$build" >"$build/compile.log" 2>&1 || { grep -v '^\[' "$build/compile.log" | tail -n 60 >&2; exit 1; }
[ "$run" = yes ] || exit 0

passed=0
failed=0
attempt() {
  local name=$1 log=$build/test.log
  shift
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "$name on aarch64: ok"
  else
    failed=$((failed + 1))
    tail -n 60 "$log" >&2
    echo "$name on aarch64: FAILED"
  fi
}
for name in common recorder unwind; do
  attempt "$name" meson test -C "$build" --no-rebuild --print-errorlogs "$name"
done
for name in figures_single_thread figures_threads; do
  attempt "$name" env HEAPPROF_TEST_BUILD="$native" HEAPPROF_TEST_TARGET="$build" \
    HEAPPROF_TEST_EMULATOR="${emulator[*]}" PYTHONPATH=tests/support PYTHONDONTWRITEBYTECODE=1 \
    python3 "tests/e2e/$name.py"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
