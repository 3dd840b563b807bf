#!/usr/bin/env python3
"""Measure how long heapprof takes to resolve 200,000 addresses in a library with 1 GB of debug information.

usage: tools/bench/symbols.py [--megabytes 1000] [--addresses 200000] [--work DIR] [--build DIR] [--library FILE]

The library consists of a few C++ sources with many templates and inlined functions, compiled once with -O2 -g, whose
objects are copied under other symbol names until the size is reached. It is never run. --library measures another
file. The library is read once before, so that its pages are in memory. For comparison, `llvm-symbolizer` and
`addr2line`, if installed, resolve the first addresses of the same list.
"""

import argparse
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

SOURCE = """
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>
template <int N> struct Key { long a[N % 5 + 1]; bool operator<(const Key& o) const { return a[0] < o.a[0]; } };
template <int N> long work(const std::string& text) {
  std::map<Key<N>, std::vector<std::string>> map;
  std::unordered_map<std::string, std::deque<Key<N>>> table;
  std::set<std::pair<std::string, long>> set;
  for (char c : text) {
    Key<N> key{};
    key.a[0] = c * N;
    map[key].push_back(text + c);
    table[text].push_back(key);
    set.emplace(text, c);
  }
  auto json = nlohmann::json::parse(text);
  json["n"] = N;
  std::vector<std::function<long(long)>> calls;
  for (auto& [key, value] : map) calls.push_back([&key = key, &value = value](long x) { return key.a[0] + x + value.size(); });
  std::sort(calls.begin(), calls.end(), [](auto& a, auto& b) { return a(1) < b(2); });
  return calls.size() + json.dump().size() + set.size() + std::regex_match(text, std::regex("a+b" + text));
}
long all(const std::string& text) { return CALLS; }
"""


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, **options)


def make_library(work, megabytes):
    library = work / f"library-{megabytes}.so"
    if library.exists():
        return library
    objects = []
    for kind in range(3):
        source = work / f"source{kind}.cpp"
        source.write_text(SOURCE.replace("CALLS", " + ".join(f"work<{n}>(text)"
                                                             for n in range(kind * 40 + 1, kind * 40 + 9))))
        run("c++", "-std=c++17", "-O2", "-g", "-fPIC", "-ffunction-sections", "-c", source, "-o",
            work / f"object{kind}.o")
        objects.append(work / f"object{kind}.o")
    copies = []
    total = 0
    while total < megabytes * 1_000_000:
        origin = objects[len(copies) % len(objects)]
        copy = work / f"copy{len(copies)}.o"
        run("objcopy", f"--prefix-symbols=copy{len(copies)}_", origin, copy)
        copies.append(copy)
        # Without relocations and .debug_str of the objects: the linker merges strings.
        total += debug_bytes(copy)
    run("c++", "-shared", "-nostdlib", "-Wl,--unresolved-symbols=ignore-all", "-Wl,--build-id", "-o", library,
        *copies)
    for copy in copies:
        copy.unlink()
    return library


def debug_bytes(path):
    lines = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout.splitlines()
    total = 0
    for line in lines:
        fields = line.replace("[ ", "[").split()
        if len(fields) > 5 and fields[1].startswith(".debug_") and fields[1] != ".debug_str":
            total += int(fields[5], 16)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--addresses", type=int, default=200_000)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "heapprof-symbols")
    parser.add_argument("--build", type=Path, default=Path("build"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    run("ninja", "-C", options.build, "analyzer/symbols_bench", stdout=subprocess.DEVNULL)
    library = options.library or make_library(options.work, options.megabytes)
    print(f"{library}: {library.stat().st_size / 1e6:.0f} MB, {debug_bytes(library) / 1e6:.0f} MB of it "
          "debug information")
    with open(library, "rb") as file:
        while file.read(1 << 24):
            pass
    cache = options.work / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    run(options.build / "analyzer" / "symbols_bench", library, options.addresses, cache)
    code = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=True).stdout
    text = next(line.replace("[ ", "[").split() for line in code.splitlines() if " .text " in line)
    begin, size = int(text[3], 16), int(text[5], 16)
    few = 2000
    addresses = "".join(f"{begin + i * size // options.addresses:#x}\n" for i in range(few))
    for command in (["llvm-symbolizer", f"--obj={library}", "--inlines"],
                    ["addr2line", "-a", "-i", "-f", "-C", "-e", library]):
        if shutil.which(command[0]) is None:
            continue
        start = time.monotonic()
        try:
            run(*command, input=addresses.encode(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
            print(f"{command[0]:22} {time.monotonic() - start:7.2f} s  the first {few} of the addresses")
        except subprocess.TimeoutExpired:
            print(f"{command[0]:22}   > 300 s  the first {few} of the addresses")


if __name__ == "__main__":
    main()
