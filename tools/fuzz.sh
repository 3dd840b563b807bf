#!/usr/bin/env bash
# Fuzzes what reads input from outside, with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tools/fuzz.sh [--no-install] [--runs N] [--seconds N] [NAME...]

NAME          trace_file    any bytes as a trace, to the report
              trace_events  any records in a sound trace, to the report
              compacted     any sections in a compacted trace, to the report
              codec         event columns, decoded and encoded
              symbols       any file as a module of the profiled program (ELF, DWARF)
              cfi           the recorder's reader of .eh_frame
              recorder_elf  the recorder's readers of symbol tables, of headers in memory, and of code to be patched
              texts         suppressions, selections, options
              settings      the recorder's variables and /etc/heapprof.conf
              side_files    indexes, tables of names, perf maps
              default: all
--runs N      executions of each at most; default 1000000
--seconds N   time for each at most; default 600

New inputs are kept in build-fuzz/corpus/NAME beside those of tests/fuzz/corpus/NAME and are where the next run begins. A finding
is written to build-fuzz/findings/NAME-..., and the exit status is 1: turn it into a test, mend it, and put the input into
tests/fuzz/corpus/NAME. The last lines say how many executions were reached; build-fuzz/tally keeps count over all runs.
END
}

runs=1000000
seconds=600
install_option=()
names=()
all=(trace_file trace_events compacted codec symbols cfi recorder_elf texts settings side_files)
while [ $# -gt 0 ]; do
  case $1 in
    --runs) runs=$2; shift ;;
    --seconds) seconds=$2; shift ;;
    --no-install) install_option=(--no-install) ;;
    -h | --help) usage; exit 0 ;;
    *)
      if [[ " ${all[*]} " != *" $1 "* ]]; then usage >&2; exit 2; fi
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
folder=build-fuzz
mkdir -p "$folder/findings"
# The recorder's own build leaves sanitizers out, so sources are compiled here. What a target needs of them the linker finds
# in one archive; a list for each target would go stale, as no test links them. Left out is what no target can need: the
# commands themselves, what includes generated files, the recorder's parts that work on a live process.
sources=(analyzer/{trace,model,replay,symbols,export,launch}/*.cpp analyzer/render/{flame_tree,palette,text,units,wrap}.cpp
  $(grep -L '"analyzer/cli/commands/commands.h"' analyzer/cli/{help,options,text,commands}/*.cpp) preload/sys/*.cpp preload/intercept/{allocator_functions,allocator_strings,elf_file,object_symbols}.cpp
  preload/intercept/$(uname -m)/patch.cpp preload/unwind/{cfi,elf_object,expression,invalidation,stack_bounds}.cpp
  preload/recorder/process/{settings,log}.cpp)
# Of an input, in bytes: longer ones are not worth the executions that they take.
longest() { case $1 in cfi | settings) echo 500 ;; texts) echo 200 ;; trace_events) echo 1000 ;; symbols | recorder_elf) echo 8192 ;; *) echo 3000 ;; esac }
{
  echo "cxx = $(command -v ccache || true) clang++-16"
  echo "flags = -std=c++20 -gline-tables-only -O1 -fno-omit-frame-pointer -I. -Ipreload/arch/$(uname -m) -Ipreload/intercept/$(uname -m) -I$deps/include -fsanitize=address,undefined" \
    "-fno-sanitize-recover=undefined -fsanitize=fuzzer-no-link -DHEAPPROF_VERSION=\\\"fuzz\\\" -DHEAPPROF_BATCH_EVENTS=64"
  echo "coverage ="
  echo "rule compile"
  echo "  command = \$cxx \$flags \$coverage -MMD -MF \$out.d -c \$in -o \$out"
  echo "  depfile = \$out.d"
  echo "rule link"
  echo "  command = clang++-16 -fsanitize=address,undefined,fuzzer \$in -ldw -lelf -lz -lzstd -liberty -llz4 -lpthread $zydis -o \$out"
  echo "rule archive"
  echo "  command = rm -f \$out && ar rcs \$out \$in"
  for source in "${sources[@]}"; do
    echo "build $folder/objects/${source%.cpp}.o: compile $source"
    # What works on decoded events compares much, with nothing that a fuzzer should guess: telling it takes a third of the time.
    case $source in
      analyzer/trace/* | analyzer/symbols/* | analyzer/launch/* | preload/*) ;;
      *) echo "  coverage = -fno-sanitize-coverage=trace-cmp" ;;
    esac
  done
  for name in "${all[@]}" whole_report; do
    echo "build $folder/objects/tests/fuzz/$name.o: compile tests/fuzz/$name.cpp"
  done
  objects=("${sources[@]/#/$folder/objects/}")
  echo "build $folder/objects/all.a: archive ${objects[*]/%.cpp/.o} $folder/objects/tests/fuzz/whole_report.o"
  for name in "${all[@]}"; do
    echo "build $folder/$name: link $folder/objects/tests/fuzz/$name.o $folder/objects/all.a"
  done
} >"$folder/build.ninja"
ninja -k 0 -f "$folder/build.ninja" "${names[@]/#/$folder/}" >"$folder/compile.log" 2>&1 || {
  grep -v "^\[" "$folder/compile.log" | tail -n 60 >&2
  exit 1
}

# No call chains, and little kept of what was freed: most of an execution's time would go there. A finding run again with
# ASAN_OPTIONS= tells them.
export ASAN_OPTIONS=malloc_context_size=0:max_malloc_fill_size=0:quarantine_size_mb=1:thread_local_quarantine_size_kb=64
export ASAN_OPTIONS=$ASAN_OPTIONS:detect_stack_use_after_return=0
export ASAN_OPTIONS=$ASAN_OPTIONS:allocator_release_to_os_interval_ms=-1
export UBSAN_OPTIONS=print_stacktrace=1
status=0
total=0
for name in "${names[@]}"; do
  mkdir -p "$folder/corpus/$name"
  log=$folder/$name.log
  found=none
  # elfutils keeps nothing that matters, but frees less than LeakSanitizer would like at a refused file.
  ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=$([ "$name" = symbols ] && echo 0 || echo 1) \
    "$folder/$name" -runs="$runs" -max_len="$(longest "$name")" -entropic=0 -max_total_time="$seconds" \
    -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 \
    -artifact_prefix="$folder/findings/$name-" "$folder/corpus/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1 || found=$log
  reached=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  total=$((total + ${reached:-0}))
  echo "$name ${reached:-0}" >>"$folder/tally"
  echo "$name: ${reached:-?} executions, finding: $found"
  if [ "$found" != none ]; then
    status=1
    grep -m 3 -E 'SUMMARY|ERROR|runtime error' "$log" || true
  fi
done
echo "$total executions in all; since $folder/ was made:"
awk '{ sum[$1] += $2; all += $2 } END { for (name in sum) print "  " name, sum[name]; print "  in all", all }' "$folder/tally"
exit $status
