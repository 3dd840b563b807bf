#!/usr/bin/env bash
# Installs the Debian packages that the other scripts need, as root or with sudo. If none is missing, it changes
# nothing.
set -euo pipefail

usage() {
  cat <<'END'
usage: tools/packages.sh [--no-install] GROUP...

Install the Debian packages of each GROUP that are missing:

  build   to compile heapprof
  test    to run its tests
  demo    programs that tools/quickstart.sh records
  cross   for aarch64: tools/aarch64.sh, tools/package.sh --arch aarch64
  fuzz    for tools/fuzz.sh
  lint    for tools/lint.sh
  real    programs that tools/real-programs/run.py runs
  package for tools/package.sh
  roots   for tools/try-packages.py

--no-install   print missing packages instead; fail if one of `build` is missing
END
}

build=(
  build-essential meson ninja-build pkg-config python3
  libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libxxhash-dev liblz4-dev libzstd-dev zlib1g-dev
  libdw-dev libelf-dev libiberty-dev libncurses-dev libsqlite3-dev
  # for the web server, headers only
  libboost1.81-dev
  # tools/deps.sh builds libraries from Debian's source packages
  xz-utils ca-certificates libzycore-dev
)
test=(
  autoconf automake libtool
  catch2 libunwind-dev binutils musl-tools
  heaptrack heaptrack-gui kcachegrind massif-visualizer dbus-daemon xvfb xauth x11-utils librsvg2-bin
  libjemalloc-dev libgoogle-perftools-dev
  redis-server redis-tools libcap2-bin git sqlite3 dwz chromium-headless-shell strace valgrind
  # the page of `heapprof html` in a second browser: 76 MB to download, 302 MB installed
  firefox-esr
  # full disks, other allocators, child processes of all kinds
  xfsprogs btrfs-progs bindfs libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0 make cmake clang
  # the screen of top
  python3-pyte
  # completions and manual pages
  zsh fish man-db mandoc
  # consumers of exports; tools/consumers.sh fetches those that Debian lacks
  golang-go nodejs python3-pip
  # the format of the sources
  clang-format-16
)
demo=(redis-server redis-tools)
cross=(g++-aarch64-linux-gnu qemu-user pkg-config apt dpkg)
fuzz=(clang-16 libclang-rt-16-dev)
lint=(clang-format-16 clang-tidy-16)
package=(python3-pip m4 binutils tcl)
roots=(mmdebstrap lintian skopeo)
real=(
  libpython3.11-testsuite perl perl-doc ruby sqlite3 redis-server redis-tools postgresql nginx apache2-utils git clang
  make nodejs openjdk-17-jdk-headless chromium imagemagick ffmpeg gstreamer1.0-tools gstreamer1.0-plugins-base
  gtk-3-examples heaptrack-gui
  xvfb xauth ripgrep rustc golang-go xz-utils zstd bzip2 lua5.4 php-cli vim emacs-nox
  neovim memcached mariadb-server mariadb-client libreoffice-writer-nogui libreoffice-calc-nogui tmux gdb ghostscript
  r-base-core erlang-base cargo
)

install=yes
groups=()
for argument in "$@"; do
  case $argument in
    --no-install) install=no ;;
    -h | --help) usage; exit 0 ;;
    build | test | demo | cross | fuzz | lint | real | package | roots) groups+=("$argument") ;;
    *) usage >&2; exit 2 ;;
  esac
done
if [ ${#groups[@]} -eq 0 ]; then
  usage >&2
  exit 2
fi

# missing_of GROUP: prints its packages that are not installed, one per line.
missing_of() {
  local -n packages=$1
  local package
  for package in "${packages[@]}"; do
    # shellcheck disable=SC2016  # dpkg-query expands this, not the shell
    if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
      echo "$package"
    fi
  done
}

missing=()
needed=no
for group in "${groups[@]}"; do
  while read -r package; do
    missing+=("$package")
    if [ "$group" = build ]; then needed=yes; fi
  done < <(missing_of "$group")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

if [ "$install" = no ]; then
  echo "packages not installed: ${missing[*]}" >&2
  if [ "$needed" = yes ]; then
    echo "they are needed to build; run without --no-install, or: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  exit 0
fi

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "no root and no sudo; install the packages as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
}

apt_log=$(mktemp)
trap 'rm -f "$apt_log"' EXIT

# Prints apt-get's output only when it fails (see below).
apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
    -o Dpkg::Use-Pty=0 "${missing[@]}" >"$apt_log" 2>&1
}

echo "installing: ${missing[*]}"
# Package lists may be missing (in a container) or outdated; they are fetched only if the first attempt fails.
if ! apt_install; then
  echo "fetching package lists"
  if ! as_root apt-get update -q >"$apt_log" 2>&1 || ! apt_install; then
    tail -n 30 "$apt_log" >&2
    echo "cannot install packages; without access to a package archive, use --no-install" >&2
    exit 1
  fi
fi
