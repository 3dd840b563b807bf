#!/usr/bin/env bash
# Fuzzes the code that reads untrusted input, with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/fuzz.sh [--no-install] [--runs N] [--seconds N] [NAME...]

Build the fuzz targets in build-fuzz/ and run all of them, or those named:

  trace_file    random bytes as a trace, up to the report
  trace_events  random records in an undamaged trace, up to the report
  compacted     random sections in a compacted trace, up to the report
  codec         decoding and encoding of event columns
  residency     random pieces of snapshots of resident pages in an undamaged trace
  symbols       a random file as a module of the recorded program (ELF, DWARF)
  cfi           the recorder's parser of .eh_frame
  recorder_elf  the recorder's parsers of symbol tables, of ELF headers in memory, and of code to be patched
  texts         suppressions, selections, options
  serve_request requests to the web server of serve
  settings      the recorder's variables and /etc/heapprof.conf
  side_files    indexes, bundled symbols, perf maps

--runs N        maximum number of executions of each target; default 1000000
--seconds N     maximum time of each target; default 600

New inputs are added to build-fuzz/corpus/NAME, and the next run starts with them and with tests/fuzz/corpus/NAME. A
finding is written to build-fuzz/findings/NAME-..., and the exit status is 1: fix the error, add a test, and add the
input to tests/fuzz/corpus/NAME. The last lines of the output have the number of executions, which build-fuzz/tally
sums over all runs.
END
}

runs=1000000
seconds=600
install_option=()
names=()
all=(trace_file trace_events compacted codec residency symbols cfi recorder_elf texts settings side_files serve_request)
number() {
  [[ ${2:-} =~ ^[0-9]+$ ]] || { echo "tools/fuzz.sh: $1: expected a number" >&2; exit 2; }
}
while [ $# -gt 0 ]; do
  case $1 in
    --runs) number "$@"; runs=$2; shift ;;
    --seconds) number "$@"; seconds=$2; shift ;;
    --no-install) install_option=(--no-install) ;;
    -h | --help) usage; exit 0 ;;
    *)
      if [[ " ${all[*]} " != *" $1 "* ]]; then
        echo "tools/fuzz.sh: unknown target '$1'; expected some of ${all[*]}" >&2
        exit 2
      fi
      names+=("$1")
      ;;
  esac
  shift
done
if [ ${#names[@]} -eq 0 ]; then names=("${all[@]}"); fi

tools/packages.sh "${install_option[@]}" build fuzz
tools/deps.sh >/dev/null
deps=$(tools/deps.sh --path)
zydis=
if [ -f "$deps/lib/libzydis.a" ]; then zydis=$deps/lib/libzydis.a; fi
directory=build-fuzz
mkdir -p "$directory/findings"
# The sources are compiled here, since the recorder's own build disables sanitizers, into one archive, from which the
# linker takes what each target needs. Not included: the commands, sources that include generated files, and parts of
# the recorder that need a live process.
sources=(
  $(grep -rL --include='*.cpp' -e '"analyzer/cli/commands/commands.h"' -e '_assets.h"' analyzer |
    grep -vx analyzer/main.cpp)
  preload/sys/*.cpp
  preload/intercept/{allocator_functions,allocator_strings,elf_file,object_symbols}.cpp
  preload/intercept/"$(uname -m)"/patch.cpp
  preload/unwind/{cfi,elf_object,expression,invalidation,stack_bounds}.cpp
  preload/recorder/process/{settings,log}.cpp
)
# max_bytes TARGET: prints the maximum size of an input. Longer inputs cost more time than their findings are worth.
max_bytes() {
  case $1 in
    cfi | settings) echo 500 ;;
    texts) echo 200 ;;
    trace_events) echo 1000 ;;
    symbols | recorder_elf) echo 8192 ;;
    *) echo 3000 ;;
  esac
}
{
  echo "cxx = $(command -v ccache || true) clang++-16"
  echo "flags = -std=c++20 -gline-tables-only -O1 -fno-omit-frame-pointer -I. -Ipreload/arch/$(uname -m)" \
    "-Ipreload/intercept/$(uname -m) -I$deps/include -fsanitize=address,undefined" \
    "-fno-sanitize-recover=undefined -fsanitize=fuzzer-no-link" \
    "-DHEAPPROF_VERSION=\\\"fuzz\\\" -DHEAPPROF_BATCH_EVENTS=64"
  echo "coverage ="
  echo "rule compile"
  echo "  command = \$cxx \$flags \$coverage -MMD -MF \$out.d -c \$in -o \$out"
  echo "  depfile = \$out.d"
  echo "rule link"
  echo "  command = clang++-16 -fsanitize=address,undefined,fuzzer \$in" \
    "-ldw -lelf -lz -lzstd -liberty -llz4 -lpthread $zydis -o \$out"
  echo "rule archive"
  echo "  command = rm -f \$out && ar rcs \$out \$in"
  for source in "${sources[@]}"; do
    echo "build $directory/objects/${source%.cpp}.o: compile $source"
    # Comparisons of decoded events do not help the fuzzer, and tracing them takes a third of the time.
    case $source in
      analyzer/trace/* | analyzer/symbols/* | analyzer/launch/* | preload/*) ;;
      *) echo "  coverage = -fno-sanitize-coverage=trace-cmp" ;;
    esac
  done
  for name in "${all[@]}" whole_report; do
    echo "build $directory/objects/tests/fuzz/$name.o: compile tests/fuzz/$name.cpp"
  done
  objects=("${sources[@]/#/$directory/objects/}")
  echo "build $directory/objects/all.a: archive ${objects[*]/%.cpp/.o} $directory/objects/tests/fuzz/whole_report.o"
  for name in "${all[@]}"; do
    echo "build $directory/$name: link $directory/objects/tests/fuzz/$name.o $directory/objects/all.a"
  done
} >"$directory/build.ninja"
ninja -k 0 -f "$directory/build.ninja" "${names[@]/#/$directory/}" >"$directory/compile.log" 2>&1 || {
  grep -v "^\[" "$directory/compile.log" | tail -n 60 >&2
  exit 1
}

# Stacks of allocations and a large quarantine of freed blocks would take most of the time. Run a finding again with
# an empty ASAN_OPTIONS to get the stacks.
export ASAN_OPTIONS=malloc_context_size=0:max_malloc_fill_size=0:quarantine_size_mb=1
export ASAN_OPTIONS=$ASAN_OPTIONS:thread_local_quarantine_size_kb=64:detect_stack_use_after_return=0
export ASAN_OPTIONS=$ASAN_OPTIONS:allocator_release_to_os_interval_ms=-1
export UBSAN_OPTIONS=print_stacktrace=1
status=0
total=0
for name in "${names[@]}"; do
  mkdir -p "$directory/corpus/$name"
  log=$directory/$name.log
  found=none
  # libelf leaks memory when it rejects a file.
  ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=$([ "$name" = symbols ] && echo 0 || echo 1) \
    "$directory/$name" -runs="$runs" -max_len="$(max_bytes "$name")" -entropic=0 -max_total_time="$seconds" \
    -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 -artifact_prefix="$directory/findings/$name-" \
    "$directory/corpus/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1 || found=$log
  reached=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  total=$((total + ${reached:-0}))
  echo "$name ${reached:-0}" >>"$directory/tally"
  echo "$name: ${reached:-?} executions, finding: $found"
  if [ "$found" != none ]; then
    status=1
    grep -m 3 -E 'SUMMARY|ERROR|runtime error' "$log" || true
  fi
done
echo "$total executions in total; since $directory/ was created:"
awk '{ sum[$1] += $2; all += $2 }
  END { for (name in sum) print "  " name, sum[name]; print "  total", all }' "$directory/tally"
exit $status
