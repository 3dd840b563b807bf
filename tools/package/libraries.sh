#!/usr/bin/env bash
# The compiler of the packages, and the libraries that heapprof is linked with there.
#
# The compiler is zig's clang: it brings libc++ and the symbols of older glibcs, so that a program built on any
# machine runs with glibc 2.28. The libraries are built from Debian's sources, because archives that a distribution
# compiled need the glibc of that distribution. All are static. NOTICE says under which licences.
#
# The result is a folder:
#
#   bin/       cc, c++, ar, ranlib, pkg-config, with which meson builds; static-cc, for static programs with musl
#   meson.ini  the machine file for meson: --native-file for x86_64, --cross-file for others
#   include/   headers of these libraries, and links to the headers of those that consist of headers. /usr/include
#              is never searched: it has another glibc
#   lib/       archives; pkgconfig/ describes them
#   licenses/  texts that the packages have to contain
#   sources/   the source of elfutils, for whoever relinks the program (LGPL)
#
# HEAPPROF_DEPS and HEAPPROF_SOURCES have the meaning that they have for tools/deps.sh; HEAPPROF_SOURCES also has to
# contain the wheel of ziglang.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<'END'
usage: tools/package/libraries.sh [--path] [x86_64 | aarch64]

Build the libraries of the packages for one architecture (default: x86_64) unless they are there; print one line.

--path   print the folder that holds or would hold them, nothing else
END
}

zig_version=0.17.1
# Of the wheel on PyPI for x86-64.
zig_sha256=ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54
glibc=2.28

architecture=x86_64
only_path=no
for argument in "$@"; do
  case $argument in
    --path) only_path=yes ;;
    x86_64 | aarch64) architecture=$argument ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
target=$architecture-linux-gnu.$glibc

# unavailable WHAT: without access to packages, tests are skipped.
unavailable() {
  tail -n 5 "$log" >&2
  echo "tools/package/libraries.sh: cannot download $1; set HEAPPROF_SOURCES to a folder that has it" >&2
  exit 77
}

fail() {
  echo "tools/package/libraries.sh: $*" >&2
  exit 1
}

store=${HEAPPROF_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/heapprof-deps}
# The key of the result: this script without comments, because it contains the flags.
result=$store/package-$architecture-$(sed '/^ *#/d' tools/package/libraries.sh | sha256sum | cut -c1-16)
if [ "$only_path" = yes ]; then
  echo "$result"
  exit 0
fi

report() { echo "libraries of the packages $1: $(tr '\n' ' ' <"$result/versions")in $result"; }
if [ -f "$result/versions" ]; then report ready; exit 0; fi

[ "$(uname -m)" = x86_64 ] || fail "the packages are built on x86-64; this machine is $(uname -m)"
[ -f /usr/include/CLI/CLI.hpp ] || fail "libcli11-dev is not installed; run tools/packages.sh build"
[ -f /usr/include/toml++/toml.h ] || fail "libtomlplusplus-dev is not installed; run tools/packages.sh build"
[ -f /usr/include/boost/beast/http.hpp ] || fail "libboost1.81-dev is not installed; run tools/packages.sh build"
command -v m4 >/dev/null || fail "m4 is not installed; run tools/packages.sh build"
command -v tclsh >/dev/null || fail "tcl is not installed; run tools/packages.sh package"

mkdir -p "$store"
# One build at a time; the lock goes with the process, however it ends.
exec 9>"$store/package.lock"
flock 9
if [ -f "$result/versions" ]; then report ready; exit 0; fi
# The name is always the same, so that zig finds in its cache what it compiled before.
work=$store/package-build
rm -rf "$work"
mkdir "$work"
trap 'rm -rf "$work"' EXIT
log=$work/log

# run COMMAND...: quietly; its output is printed when it fails.
run() {
  if ! "$@" >>"$log" 2>&1; then
    tail -n 30 "$log" >&2
    fail "failed: $*"
  fi
}

# ---- compiler ----------------------------------------------------------------------------------------

zig=$store/zig-$zig_version/ziglang/zig
if [ ! -x "$zig" ]; then
  mkdir "$work/wheel"
  if [ -n "${HEAPPROF_SOURCES:-}" ]; then
    cp "$HEAPPROF_SOURCES/ziglang-$zig_version"-*x86_64.whl "$work/wheel/" ||
      fail "no wheel of ziglang $zig_version for x86-64 in $HEAPPROF_SOURCES"
  else
    echo "ziglang==$zig_version --hash=sha256:$zig_sha256" >"$work/requirements"
    python3 -m pip download --no-deps --only-binary :all: --require-hashes -r "$work/requirements" \
      -d "$work/wheel" >>"$log" 2>&1 || unavailable "ziglang $zig_version"
  fi
  run sha256sum -c - <<<"$zig_sha256  $(echo "$work"/wheel/*.whl)"
  run python3 -m zipfile -e "$work"/wheel/*.whl "$work/zig"
  chmod +x "$work/zig/ziglang/zig"
  rm -rf "$store/zig-$zig_version"
  mv "$work/zig" "$store/zig-$zig_version"
fi

# wrapper NAME COMMAND...: a program that runs COMMAND, with zig's cache beside the other results.
tools=$work/result/bin
wrapper() {
  local name=$1
  shift
  {
    echo '#!/bin/sh'
    echo "export ZIG_GLOBAL_CACHE_DIR='$store/zig-cache' ZIG_LOCAL_CACHE_DIR='$store/zig-cache'"
    # meson asks the linker for its name, which zig does not know.
    # shellcheck disable=SC2016  # for the script that is written
    echo 'if [ "$1" = -Wl,--version ]; then echo "LLD (compatible with GNU linkers)"; exit 0; fi'
    # zig passes what is read from standard input to another program, which does not know its targets.
    # shellcheck disable=SC2016
    case $name in cc | c++) echo 'case " $* " in *" - "*) set -- -x '"${name/cc/c}"' "$@" ;; esac' ;; esac
    # zig adds debug information unless it is told not to. It names the folders of the compiler and of the build, so
    # the object files that are published to relink the program would differ from build to build.
    # shellcheck disable=SC2016
    case $name in cc | c++) echo 'case " $* " in *" -g"*) ;; *) set -- -g0 "$@" ;; esac' ;; esac
    echo "exec $* \"\$@\""
  } >"$tools/$name"
  chmod +x "$tools/$name"
}
mkdir -p "$tools" "$work"/result/{include,lib/pkgconfig,licenses,sources}
wrapper cc "'$zig' cc -target $target"
wrapper c++ "'$zig' c++ -target $target"
wrapper static-cc "'$zig' cc -target $architecture-linux-musl -static"
wrapper ar "'$zig' ar"
wrapper ranlib "'$zig' ranlib"
cat >"$tools/pkg-config" <<END
#!/bin/sh
PKG_CONFIG_LIBDIR='$result/lib/pkgconfig' exec pkg-config "\$@"
END
chmod +x "$tools/pkg-config"

# Programs for another architecture run with qemu-user.
wrapper_line= machine_lines=
if [ "$architecture" != x86_64 ]; then
  wrapper_line="exe_wrapper = ['qemu-$architecture', '-L', '/usr/$architecture-linux-gnu']"
  machine_lines="[host_machine]
system = 'linux'
cpu_family = '$architecture'
cpu = '$architecture'
endian = 'little'"
fi
# The constant source_map, a list of options, depends on the folder of the sources, and comes from another file.
# libiberty.h declares basename unless this macro is set.
cat >"$work/result/meson.ini" <<END
[binaries]
c = '$result/bin/cc'
cpp = '$result/bin/c++'
ar = '$result/bin/ar'
pkgconfig = '$result/bin/pkg-config'
$wrapper_line
[built-in options]
c_args = ['-isystem', '$result/include'] + source_map
cpp_args = ['-isystem', '$result/include', '-ffunction-sections', '-fdata-sections',
            '-DHAVE_DECL_BASENAME=1'] + source_map
cpp_link_args = ['-L$result/lib', '-Wl,--gc-sections', '-Wl,--build-id=sha1', '-Wl,-z,now', '-s']
$machine_lines
END

# ---- sources -----------------------------------------------------------------------------------------

packages=(elfutils libiberty libzstd lz4 ncurses sqlite3 xz-utils zlib)
sources=${HEAPPROF_SOURCES:-$work/fetched}
if [ -z "${HEAPPROF_SOURCES:-}" ]; then
  mkdir "$sources"
  tools/deps.sh --sources "$sources" "${packages[@]}" >>"$log" 2>&1 || unavailable "${packages[*]}"
fi
versions=()
mkdir "$work/source"
# unpack PACKAGE: sets `source` to its tree.
unpack() {
  local tarball=("$sources/$1"_*.orig.tar.*)
  [ ${#tarball[@]} -eq 1 ] && [ -f "${tarball[0]}" ] || fail "no single original tarball of $1 in $sources"
  source=$work/source/$1
  mkdir "$source"
  run tar -C "$source" --no-same-owner --strip-components=1 -xf "${tarball[0]}"
  versions+=("$1 $(basename "${tarball[0]}" | sed 's/.*_\(.*\)\.orig.*/\1/')")
}

# ---- builds ------------------------------------------------------------------------------------------

jobs=$(nproc)
# Without the map, paths of this folder would get into the text of assertions.
flags=(-O2 -fPIC -ffunction-sections -fdata-sections -DNDEBUG -w "-ffile-prefix-map=$work=.")

# compile FOLDER FILE... [-- OPTION...]: an object in FOLDER for each file.
compile() {
  local folder=$1 files=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do files+=("$1"); shift; done
  [ $# -eq 0 ] || shift
  mkdir -p "$folder"
  # shellcheck disable=SC2016  # for the inner shell
  run xargs -P "$jobs" -I FILE \
    sh -c 'file=$1; folder=$2; shift 2; exec "$@" -c "$file" -o "$folder/$(basename "$file").o"' \
    sh FILE "$folder" "$tools/cc" "${flags[@]}" "$@" < <(printf '%s\n' "${files[@]}")
}

# archive NAME FILE... [-- OPTION...]: lib/libNAME.a of all files.
archive() {
  local name=$1
  shift
  compile "$work/objects/$name" "$@"
  run "$tools/ar" rcs "$work/result/lib/lib$name.a" "$work/objects/$name"/*.o
}

# package NAME VERSION LIBS: what pkg-config prints.
package() {
  cat >"$work/result/lib/pkgconfig/$1.pc" <<END
prefix=\${pcfiledir}/../..
Name: $1
Description: $1, as heapprof's packages contain it
Version: $2
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib $3
END
}

install_headers() { run cp "$@" "$work/result/include/"; }

build_lz4() {
  unpack lz4
  archive lz4 "$source/lib/lz4.c" "$source/lib/lz4hc.c"
  install_headers "$source/lib/lz4.h" "$source/lib/lz4hc.h"
  run cp "$source/lib/LICENSE" "$work/result/licenses/lz4"
  package liblz4 1.9.4 -llz4
}

build_zstd() {
  unpack libzstd
  local files=("$source"/lib/{common,compress,decompress}/*.c)
  if [ "$architecture" = x86_64 ]; then files+=("$source/lib/decompress/huf_decompress_amd64.S"); fi
  archive zstd "${files[@]}" -- -DXXH_NAMESPACE=ZSTD_ -DZSTD_LEGACY_SUPPORT=0
  install_headers "$source"/lib/zstd{,_errors}.h
  run cp "$source/LICENSE" "$work/result/licenses/zstd"
  package libzstd 1.5.4 -lzstd
}

build_zlib() {
  unpack zlib
  archive z "$source"/{adler32,compress,crc32,deflate,infback,inffast,inflate,inftrees,trees,uncompr,zutil}.c \
    "$source"/gz{close,lib,read,write}.c -- -DHAVE_HIDDEN -D_LARGEFILE64_SOURCE=1 -DZ_HAVE_UNISTD_H
  install_headers "$source"/{zlib,zconf}.h
  run cp "$source/LICENSE" "$work/result/licenses/zlib"
  package zlib 1.2.13 -lz
}

# configure SOURCE BUILD OPTION...: in a build folder.
configure() {
  local source=$1 build=$2
  shift 2
  mkdir "$build"
  (cd "$build" && run "$source/configure" --host="$architecture-linux-gnu" --build=x86_64-linux-gnu "$@" \
    CC="$tools/cc" AR="$tools/ar" RANLIB="$tools/ranlib" CFLAGS="${flags[*]}" \
    CPPFLAGS="-I$work/result/include" LDFLAGS="-L$work/result/lib")
}

# The decoder of xz, for .gnu_debugdata.
build_xz() {
  unpack xz-utils
  configure "$source" "$work/xz" --disable-shared --disable-encoders --disable-threads --disable-xz --disable-xzdec \
    --disable-lzmadec --disable-lzmainfo --disable-lzma-links --disable-scripts --disable-doc --disable-nls
  run make -C "$work/xz/src/liblzma" -j"$jobs"
  run cp "$work/xz/src/liblzma/.libs/liblzma.a" "$work/result/lib/"
  run cp -r "$source"/src/liblzma/api/lzma{,.h} "$work/result/include/"
}

# For the screen of top. The terminals in use are compiled in, so that images without a terminfo database have them.
build_ncurses() {
  unpack ncurses
  configure "$source" "$work/ncurses" --with-build-cc=cc --with-build-cflags=-O2 \
    --with-build-cppflags=-DHAVE_CONFIG_H --with-normal --without-shared --without-debug --enable-widec \
    --without-cxx --without-cxx-binding --without-ada --without-manpages --without-progs --without-tests --without-gpm \
    --without-dlsym --disable-pc-files --disable-home-terminfo --disable-stripping \
    --with-terminfo-dirs=/etc/terminfo:/lib/terminfo:/usr/share/terminfo \
    --with-default-terminfo-dir=/usr/share/terminfo \
    --with-fallbacks=xterm,xterm-256color,linux,screen,screen-256color,tmux,tmux-256color,rxvt-unicode-256color,vt100
  run make -C "$work/ncurses/include" -j"$jobs"
  run make -C "$work/ncurses/ncurses" -j"$jobs"
  # Its makefile would write the times of the files into the archive.
  run "$tools/ar" rcs "$work/result/lib/libncursesw.a" "$work"/ncurses/objects/*.o
  install_headers "$work"/ncurses/include/{curses,ncurses_dll,term,unctrl}.h
  run cp "$source/COPYING" "$work/result/licenses/ncurses"
  package ncursesw 6.4 -lncursesw
}

# For query. Scripts in Tcl make one file of the sources.
build_sqlite() {
  unpack sqlite3
  mkdir "$work/sqlite"
  (cd "$work/sqlite" && run "$source/configure" --disable-tcl && run make sqlite3.c)
  archive sqlite3 "$work/sqlite/sqlite3.c" -- -DSQLITE_THREADSAFE=1 -DSQLITE_TEMP_STORE=1 -DSQLITE_OMIT_LOAD_EXTENSION \
    -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_ENABLE_DBSTAT_VTAB -DHAVE_USLEEP=1
  install_headers "$work/sqlite/sqlite3.h"
  run cp "$source/LICENSE.md" "$work/result/licenses/sqlite"
  package sqlite3 3.40.1 "-lsqlite3 -lm"
}

# Without zstd, as in Debian 12: heapprof decompresses such sections itself (analyzer/symbols/zstd_sections.cpp).
build_elfutils() {
  local folder
  unpack elfutils
  configure "$source" "$work/elfutils" --disable-debuginfod --disable-libdebuginfod --disable-nls --with-zlib \
    --with-lzma --without-bzlib --without-zstd
  for folder in lib libelf libcpu backends libebl libdwelf libdwfl libdw; do
    case $folder in
      lib) run make -C "$work/elfutils/$folder" -j"$jobs" libeu.a ;;
      backends) run make -C "$work/elfutils/$folder" -j"$jobs" libebl_backends.a ;;
      *) run make -C "$work/elfutils/$folder" -j"$jobs" "$folder.a" ;;
    esac
  done
  run cp "$work"/elfutils/lib{elf/libelf,dw/libdw}.a "$work/result/lib/"
  install_headers "$source"/libelf/{libelf,gelf,nlist}.h "$source/libdw/dwarf.h"
  mkdir "$work/result/include/elfutils"
  run cp "$source"/libelf/elf-knowledge.h "$source"/libdw/{known-dwarf,libdw}.h "$source/libdwfl/libdwfl.h" \
    "$source/libdwelf/libdwelf.h" "$source/libebl/libebl.h" "$work/elfutils/version.h" \
    "$work/result/include/elfutils/"
  run cp "$source/COPYING" "$work/result/licenses/GPL-3"
  run cp "$source/COPYING-LGPLV3" "$work/result/licenses/LGPL-3"
  run cp "$sources"/elfutils_*.orig.tar.* "$work/result/sources/"
  package libelf 0.188 "-lelf -lz"
  package libdw 0.188 "-ldw -lelf -llzma -lz -ldl"
}

# Only the files of the two demanglers: their licences allow every use of their compiled form in a program. That of
# the table behind libiberty's <ctype.h> does not.
build_demanglers() {
  unpack libiberty
  mkdir "$work/ctype"
  cat >"$work/ctype/safe-ctype.h" <<'END'
#define ISDIGIT(c) ((c) >= '0' && (c) <= '9')
#define ISLOWER(c) ((c) >= 'a' && (c) <= 'z')
#define ISUPPER(c) ((c) >= 'A' && (c) <= 'Z')
#define ISALNUM(c) (ISDIGIT(c) || ISLOWER(c) || ISUPPER(c))
END
  archive iberty "$source"/libiberty/{cp,rust}-demangle.c -- "-I$work/ctype" "-I$source/include" -D_GNU_SOURCE \
    -DHAVE_DECL_BASENAME=1 -DHAVE_ALLOCA_H -DHAVE_LIMITS_H -DHAVE_STDLIB_H -DHAVE_STRING_H
  mkdir "$work/result/include/libiberty"
  run cp "$source"/include/{demangle,libiberty,ansidecl}.h "$work/result/include/libiberty/"
}

build_lz4
build_zstd
build_zlib
build_ncurses
build_sqlite
build_xz
build_elfutils
build_demanglers
# Catch is for unit tests (tools/aarch64.sh), and need not be installed.
for header in CLI boost nlohmann toml++ xxhash.h catch2; do ln -s "/usr/include/$header" "$work/result/include/$header"; done
package CLI11 2.1 ''
package nlohmann_json 3.11 ''
package tomlplusplus 3.3 ''
package libxxhash 0.8 ''
package catch2 2.13 ''
run cp "$store/zig-$zig_version/ziglang/LICENSE" "$work/result/licenses/zig"
run cp "$store/zig-$zig_version/ziglang/lib/libc/musl/COPYRIGHT" "$work/result/licenses/musl"

printf '%s\n' "zig $zig_version" "${versions[@]}" >"$work/result/versions"
rm -rf "$result"
mv "$work/result" "$result"
report built
