#!/bin/bash
# Builds the libraries that Debian does not package as they are needed here. For the recorder:
#
#   Zydis      the instruction decoder: static, position-independent, without libc except memcpy and related functions
#              (x86-64 only; its basic types are in Debian's libzycore-dev)
#
# and with --tests also for the tests:
#
#   libunwind  the local interface, static and position-independent: for comparisons in the unwinder's tests (x86-64
#              only)
#   mimalloc   static, as a replacement of malloc: for test programs with an embedded allocator
#
# The undefined symbols of Zydis are checked: the build fails if a version needs other functions.
#
#   tools/deps.sh [--tests]
#                           build the libraries unless they exist; print one line
#   tools/deps.sh --path    print the directory of the libraries, which may not exist yet
#   tools/deps.sh --sources DIRECTORY PACKAGE...
#                           only download the original tarballs of Debian's source packages into DIRECTORY
#
# HEAPPROF_DEPS     directory for the results (default: $XDG_CACHE_HOME/heapprof-deps or ~/.cache/heapprof-deps)
# HEAPPROF_SOURCES  directory with the upstream sources, as trees mimalloc*/, libunwind*/ and *zydis*/ or as Debian's
#                   original tarballs, for machines without package access. By default, apt fetches the sources from
#                   the machine's Debian mirrors, with deb-src entries in a private configuration. That needs no
#                   root and changes nothing on the machine.
set -euo pipefail

store=${HEAPPROF_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/heapprof-deps}

flags=(-O2 -g -fPIC -fvisibility=hidden -fno-omit-frame-pointer -fno-stack-protector -U_FORTIFY_SOURCE
       -ffunction-sections -fdata-sections -fasynchronous-unwind-tables -D_GNU_SOURCE -DNDEBUG -w)

# The key covers this script without its comments, because it contains the flags.
key=$({ sed '/^ *#/d' "${BASH_SOURCE[0]}"; cc --version; cc -dumpmachine; } | sha256sum | cut -c1-16)
result=$store/$key

usage() {
  echo "usage: tools/deps.sh [--tests | --path | --sources DIRECTORY PACKAGE...]" >&2
  exit 2
}

download_to=
with_tests=no
case "${1:-}" in
  --path) echo "$result"; exit 0 ;;
  --sources)
    [ $# -ge 3 ] || usage
    download_to=$(realpath "$2")
    packages=("${@:3}")
    ;;
  --tests) with_tests=yes ;;
  '') ;;
  *) usage ;;
esac

fail() {
  echo "tools/deps.sh: $*" >&2
  exit 1
}

# The files $result/versions and $result/versions-of-tests list what was built; each is written last.
missing_sets() {
  [ -f "$result/versions" ] || echo recorder
  [ "$with_tests" = no ] || [ -f "$result/versions-of-tests" ] || echo tests
}
ready() { [ -z "$download_to" ] && [ -z "$(missing_sets)" ]; }
report() {
  local versions=("$result/versions")
  if [ "$with_tests" = yes ]; then versions+=("$result/versions-of-tests"); fi
  echo "dependencies $1: $(cat "${versions[@]}" | tr '\n' ' ')in $result"
}

if ready; then report "ready"; exit 0; fi

mkdir -p "$store"
# One build at a time. The kernel releases the lock when the process ends.
exec 9> "$store/lock"
flock 9
if ready; then report "ready"; exit 0; fi

work=$(mktemp -d "$store/build.XXXXXX")
# Removes the directories of interrupted builds. No other build is running, because this one has the lock.
find "$store" -maxdepth 1 -name 'build.*' ! -path "$work" -exec rm -rf {} +
trap 'rm -rf "$work"' EXIT
log=$work/log

# run COMMAND...: runs a command, and prints the end of its output only if it fails.
run() {
  if ! "$@" >> "$log" 2>&1; then
    tail -n 30 "$log" >&2
    fail "failed: $*"
  fi
}

# ---- sources -----------------------------------------------------------------------------------------

# private_apt DIRECTORY: writes an apt configuration to DIRECTORY with deb-src entries for the machine's configured
# archives whose suite belongs to this Debian release. Reads both formats of sources.list(5).
private_apt() {
  local apt=$1 codename file
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  [ -n "$codename" ] || fail "no VERSION_CODENAME in /etc/os-release; set HEAPPROF_SOURCES"
  mkdir -p "$apt"/{parts,lists/partial,cache/archives/partial}
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] || continue
    awk -v codename="$codename" '
      BEGIN { RS = ""; FS = "\n" }
      { suites = ""; stanza = ""
        for (i = 1; i <= NF; ++i) {
          if ($i ~ /^#/) continue
          if ($i ~ /^Suites:/) suites = $i
          if ($i ~ /^Types:/) $i = "Types: deb-src"
          stanza = stanza $i "\n" }
        if (suites ~ "[ \t]" codename "(-updates|-security)?([ \t]|$)") print stanza }' "$file"
  done > "$apt/parts/source.sources"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] || continue
    awk -v codename="$codename" '
      $1 == "deb" {
        suite = 3
        if ($2 ~ /^\[/) { for (i = 2; $i !~ /\]$/ && i < NF; ++i) {} suite = i + 2 }
        if ($suite ~ "^" codename "(-updates|-security|/updates)?$") { $1 = "deb-src"; print } }' "$file"
  done > "$apt/parts/source.list"
  cat > "$apt/apt.conf" <<CONF
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$apt/parts";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt/cache";
APT::Sandbox::User "root";
APT::Get::List-Cleanup "false";
Acquire::Languages "none";
Acquire::Retries "3";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
CONF
}

fetch() {
  command -v apt-get > /dev/null ||
    fail "apt-get is not installed: set HEAPPROF_SOURCES to a directory with the sources of ${packages[*]}"
  private_apt "$work/apt"
  run apt-get -q -c "$work/apt/apt.conf" update
  (cd "$work/fetched" && run apt-get -q -c "$work/apt/apt.conf" source --download-only "${packages[@]}")
}

if [ -n "$download_to" ]; then
  mkdir -p "$work/fetched"
  fetch
  for tarball in "$work/fetched"/*.tar.*; do
    case "$tarball" in *.debian.tar.* | *.asc) ;; *) mv "$tarball" "$download_to/" ;; esac
  done
  exit 0
fi

# source_tree NAME MARKER: prints the path of NAME's source tree, and unpacks its tarball first if necessary. MARKER
# is a file that the tree contains.
source_tree() {
  local name=$1 marker=$2 from=${HEAPPROF_SOURCES:-$work/fetched} found
  for found in "$from/"*"$name"*/"$marker"; do
    [ -f "$found" ] || continue
    mkdir -p "$work/source"
    cp -r "${found%"/$marker"}" "$work/source/"
  done
  if ! compgen -G "$work/source/*$name*/$marker" > /dev/null; then
    mkdir -p "$work/source"
    for found in "$from/$name"[_-]*.tar.*; do
      case "$found" in *.debian.tar.* | *.asc | *.sig) continue ;; esac
      [ -f "$found" ] && run tar -C "$work/source" --no-same-owner -xf "$found"
    done
  fi
  set -- "$work/source/"*"$name"*/"$marker"
  [ $# -eq 1 ] && [ -f "$1" ] || fail "expected exactly one source tree of $name in $from"
  echo "${1%"/$marker"}"
}

# ---- checks ------------------------------------------------------------------------------------------

# check_library ARCHIVE: fails unless its undefined symbols are memcpy and related functions only, and it has neither
# constructors, destructors nor thread-local storage.
check_library() {
  local archive=$1 undefined sections
  undefined=$(nm -A "$archive" 2> /dev/null | awk '$(NF-1) ~ /^[Uw]$/ { print $NF }' | sort -u |
    comm -23 - <(nm "$archive" 2> /dev/null | awk 'NF == 3 && $2 ~ /^[A-Z]$/ { print $3 }' | sort -u) |
    grep -vE "^(memcpy|memset|memmove|memcmp|_GLOBAL_OFFSET_TABLE_)$" || true)
  [ -z "$undefined" ] ||
    fail "$(basename "$archive") needs symbols that the recorder must not use: $(echo $undefined)"
  sections=$(objdump -h "$archive" | awk '$2 ~ /^\.(init_array|fini_array|ctors|dtors|tdata|tbss)/ { print $2 }')
  [ -z "$sections" ] ||
    fail "$(basename "$archive") has sections that the recorder must not contain: $(echo $sections)"
}

# ---- builds ------------------------------------------------------------------------------------------

build_mimalloc() {
  local source=$1
  run cc -std=gnu11 -O2 -g -fPIC -D_GNU_SOURCE -DNDEBUG -DMI_MALLOC_OVERRIDE -w -I "$source/include" \
    -c "$source/src/static.c" -o "$work/mimalloc_program.o"
  run ar rcs "$work/result/lib/libmimalloc_program.a" "$work/mimalloc_program.o"
}

build_libunwind() {
  local source=$1 build=$work/libunwind
  mkdir -p "$build"
  [ -x "$source/configure" ] || (cd "$source" && run autoreconf -i)
  (cd "$build" && run "$source/configure" --disable-shared --enable-static --with-pic --disable-tests \
    --disable-documentation --disable-cxx-exceptions --disable-minidebuginfo --disable-zlibdebuginfo \
    --disable-coredump --disable-ptrace --disable-setjmp --disable-debug-frame --enable-per-thread-cache=no \
    CC=cc CFLAGS="-O2 -fPIC")
  run make -C "$build/src" -j"$(nproc)" CFLAGS="${flags[*]}" libunwind.la
  run cp "$build/src/.libs/libunwind.a" "$work/result/lib/"
  run cp "$build/include/libunwind.h" "$build/include/libunwind-common.h" \
    "$source/include/libunwind-x86_64.h" "$source/include/libunwind-dynamic.h" "$work/result/include/"
}

# Builds the decoder only, with the minimal tables for lengths of instructions and offsets of operands.
build_zydis() {
  local source=$1 file
  [ -f /usr/include/Zycore/Types.h ] || fail "libzycore-dev is not installed"
  for file in Decoder DecoderData SharedData; do
    run cc -std=gnu11 "${flags[@]}" -DZYDIS_STATIC_BUILD -DZYCORE_STATIC_BUILD -DZYAN_NO_LIBC -DZYDIS_MINIMAL_MODE \
      -DZYDIS_DISABLE_FORMATTER -DZYDIS_DISABLE_ENCODER -DZYDIS_DISABLE_SEGMENT -DZYDIS_DISABLE_AVX512 \
      -DZYDIS_DISABLE_KNC -I "$source/include" -I "$source/src" -c "$source/src/$file.c" -o "$work/zydis_$file.o"
  done
  run ar rcs "$work/result/lib/libzydis.a" "$work"/zydis_*.o
  run cp -r "$source/include/Zydis" "$work/result/include/"
  check_library "$work/result/lib/libzydis.a"
}

# What is missing, by machine.
sets=$(missing_sets)
libraries=()
case $(cc -dumpmachine) in
  x86_64*)
    [[ $sets != *recorder* ]] || libraries+=(zydis)
    [[ $sets != *tests* ]] || libraries+=(mimalloc libunwind)
    ;;
  *) [[ $sets != *tests* ]] || libraries+=(mimalloc) ;;
esac
declare -A marker=([zydis]=src/Decoder.c [mimalloc]=src/static.c [libunwind]=include/libunwind-common.h.in)

mkdir -p "$work/fetched" "$work/result/include" "$work/result/lib" "$result/include" "$result/lib"
packages=("${libraries[@]}")
if [ ${#libraries[@]} -ne 0 ] && [ -z "${HEAPPROF_SOURCES:-}" ]; then fetch; fi
if [[ $sets == *recorder* ]]; then : > "$work/result/versions"; fi
if [[ $sets == *tests* ]]; then : > "$work/result/versions-of-tests"; fi
for library in "${libraries[@]}"; do
  source=$(source_tree "$library" "${marker[$library]}")
  "build_$library" "$source"
  case $library in
    zydis) basename "$source" >> "$work/result/versions" ;;
    *) basename "$source" >> "$work/result/versions-of-tests" ;;
  esac
done

# The lists of versions come last: an interrupted copy is not taken for complete.
cp -r "$work/result/include" "$work/result/lib" "$result/"
for set in "$work/result/versions"*; do mv "$set" "$result/"; done
report "built"
