#!/bin/sh
# Compiles and links a C++ program for musl, which Debian has no C++ compiler for: with musl's headers, those parts of
# libstdc++ that consist of headers alone, and runtime.h in place of its library.
#
# usage: compile.sh ROOT OUTPUT DEPENDENCIES SOURCE... [OPTION...]
#
# DEPENDENCIES: a file for ninja, which gets the included files.
set -eu
root=$1 output=$2 dependencies=$3
shift 3
here=$root/tests/programs/musl
version=$(g++ -dumpversion)
machine=$(g++ -dumpmachine)
musl=/usr/include/${machine%-gnu}-musl

# Headers of Linux itself are in the directories of glibc's headers, which therefore come last.
g++ -c -o "$output.o" -MD -MF "$dependencies" -MT "$output" \
  -nostdinc -nostdinc++ -isystem "$here/include" \
  -isystem "/usr/include/c++/$version" -isystem "/usr/include/$machine/c++/$version" \
  -isystem "$musl" -isystem "$(g++ -print-file-name=include)" \
  -idirafter "/usr/include/$machine" -idirafter /usr/include \
  -I "$root" -include "$here/runtime.h" \
  -std=c++20 -fno-exceptions -fno-rtti -fno-threadsafe-statics -w "$@"
musl-gcc -rdynamic -o "$output" "$output.o"
