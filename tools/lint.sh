#!/usr/bin/env bash
# Checks the format of all sources (.clang-format) and finds errors in changed ones (.clang-tidy).
set -euo pipefail
started_in=$PWD
cd "$(dirname "$0")/.."

usage() {
  cat <<'USAGE'
usage: tools/lint.sh [--no-install] [--format | --tidy] [--all | --since COMMIT] [--fix] [FILE...]

Check the format of all files in the repository, and run clang-tidy on the .cpp files of heapprof that changed.
clang-tidy does not check tests, whose programs do on purpose what it reports.

--no-install    install no packages
--format        check the format only
--tidy          run clang-tidy only
--all           run clang-tidy on all files, which takes some minutes
--since COMMIT  run clang-tidy on the files that differ from COMMIT (default: main)
--fix           correct the format, and what clang-tidy can correct
FILE            check only these files

clang-tidy is fetched from PyPI (tools/clang-tidy.sh); where it cannot be, Debian's older one checks more slowly.
It needs the compile commands in build/ (or $BUILD_DIR): run tools/build.sh --everything first.
Exit status: 0; 1 when something was found, or a FILE was not checked; 2 for a wrong command line; 77 when a tool is
not installed, or COMMIT is unknown.
USAGE
}

install_option=()
format=yes
tidy=yes
files_to_tidy=changed
since=main
fix=no
files=()
while [ $# -gt 0 ]; do
  case $1 in
    --no-install) install_option=(--no-install) ;;
    --format) tidy=no ;;
    --tidy) format=no ;;
    --all) files_to_tidy=all ;;
    --since)
      [ $# -gt 1 ] || { echo "tools/lint.sh: missing value of --since" >&2; exit 2; }
      since=$2
      shift
      ;;
    --fix) fix=yes ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "tools/lint.sh: unknown option '$1'" >&2; exit 2 ;;
    # As paths from the root directory, which the compile commands end with.
    *) files+=("$(cd "$started_in" && realpath -m --relative-to="$OLDPWD" -- "$1")") ;;
  esac
  shift
done
if [ "$format$tidy" = nono ]; then
  echo "tools/lint.sh: --format and --tidy exclude each other" >&2
  exit 2
fi

build=${BUILD_DIR:-build}
tools/packages.sh "${install_option[@]}" lint
if [ ${#install_option[@]} -eq 0 ] && [ "$tidy" = yes ]; then tools/clang-tidy.sh; fi
version=16
# need PROGRAM: exits if it is not installed. Other versions format differently.
need() {
  command -v "$1" >/dev/null || { echo "$1 is not installed" >&2; exit 77; }
}

status=0
if [ "$format" = yes ]; then
  need clang-format-$version
  if ! git rev-parse --git-dir >/dev/null 2>&1; then
    echo "not a git repository: the files to check are unknown" >&2
    exit 77
  fi
  mode=(--dry-run --Werror)
  if [ "$fix" = yes ]; then mode=(-i); fi
  if [ ${#files[@]} -gt 0 ]; then printf '%s\0' "${files[@]}"; else git ls-files -z '*.h' '*.cpp' '*.c'; fi |
    xargs -0 -n 40 -P "$(nproc)" clang-format-$version "${mode[@]}" || status=1
fi

if [ "$tidy" = yes ]; then
  clang_tidy=$(echo "$build"/lint/clang-tidy-*/clang_tidy/data/bin/clang-tidy)
  if [ ! -x "$clang_tidy" ]; then
    need clang-tidy-$version
    clang_tidy=clang-tidy-$version
  fi
  if [ ! -f "$build/compile_commands.json" ]; then
    echo "$build/compile_commands.json does not exist: run tools/build.sh --everything first" >&2
    exit 1
  fi
  are_named=yes
  if [ ${#files[@]} -eq 0 ]; then
    are_named=no
    checked=('analyzer/*.cpp' 'common/*.cpp' 'preload/*.cpp' 'tools/*.cpp')
    if [ "$files_to_tidy" = changed ] && ! git rev-parse --verify --quiet "$since^{commit}" >/dev/null; then
      echo "no commit '$since' in this repository: the changed files are unknown" >&2
      exit 77
    fi
    if [ "$files_to_tidy" = all ]; then
      mapfile -d '' files < <(git ls-files -z "${checked[@]}")
    else
      mapfile -d '' files < <(git diff -z --name-only --diff-filter=d "$since" -- "${checked[@]}")
    fi
  fi
  # Only files that are compiled for this machine, and not without vector registers, which clang does not support for
  # headers of libstdc++.
  compiled=()
  for file in "${files[@]}"; do
    reason="not compiled in $build"
    if [ -f "$file" ] &&
      command=$(grep -F -B1 "/$file\"" "$build/compile_commands.json" | grep '^ *"command"'); then
      if ! [[ ${command%%$'\n'*} == *-mgeneral-regs-only* ]]; then
        compiled+=("$file")
        continue
      fi
      reason="compiled without vector registers"
    fi
    if [ "$are_named" = yes ]; then
      echo "clang-tidy cannot check $file: it is $reason" >&2
      # At least the format of such files has been checked.
      [[ $format == yes && ($file == *.h || $reason == *registers) ]] || status=1
    fi
  done
  # Some options of GCC are removed: clang does not know them, or cannot parse libstdc++'s headers with them.
  mkdir -p "$build/lint"
  sed -E 's/ -(mgeneral-regs-only|fno-tree-loop-distribute-patterns|fno-ipa-icf)\b//g' "$build/compile_commands.json" \
    >"$build/lint/compile_commands.json"
  mode=(--quiet)
  if [ "$fix" = yes ]; then mode+=(--fix); fi
  if [ ${#compiled[@]} -gt 0 ]; then
    # The compiler's warnings are those of the build. Hides the number of suppressed warnings.
    printf '%s\0' "${compiled[@]}" |
      xargs -0 -n 1 -P "$(nproc)" "$clang_tidy" -p "$build/lint" "${mode[@]}" --extra-arg=-w \
        2> >(grep -v '^[0-9]* warnings\? generated' >&2) || status=1
  fi
fi
exit $status
