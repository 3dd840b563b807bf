#!/usr/bin/env python3
"""Print the graph of includes between directories, and fail when directories include each other in a cycle.

A directory and its subdirectory are two directories: one may include the other, not both.

An include is resolved relative to the including file, then relative to the root. Otherwise the build finds it through
an include directory (such as preload/arch/<arch>): it then means every file whose path ends with it, one for each
architecture. Generated headers have no file and are skipped, as are includes in angle brackets.
"""

import argparse
import os
import re
import sys
from collections import defaultdict
from pathlib import Path

DIRECTORIES = ["common", "preload", "analyzer"]
SUFFIXES = {".h", ".hpp", ".inc", ".c", ".cc", ".cpp", ".S"}
MAX_LISTED = 10  # includes printed for one step of a cycle
INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')


class Tree:
    """The source files below some directories, and their includes as (file, line, included file). All paths are
    relative to the root."""

    def __init__(self, root, directories):
        self.files = set()
        for directory in directories:
            for path, subdirectories, names in os.walk(root / directory):
                subdirectories[:] = sorted(name for name in subdirectories if not name.startswith("."))
                self.files.update(os.path.relpath(os.path.join(path, name), root) for name in names
                                  if os.path.splitext(name)[1] in SUFFIXES)
        self.by_name = defaultdict(list)
        for file in sorted(self.files):
            self.by_name[os.path.basename(file)].append(file)
        self.includes = []
        for file in sorted(self.files):
            with open(root / file, encoding="utf-8", errors="replace") as source:
                for number, line in enumerate(source, 1):
                    if match := INCLUDE.match(line):
                        self.includes += [(file, number, target) for target in self.resolve(file, match[1])]

    def resolve(self, file, include):
        """The files that `include` in `file` may mean."""
        for candidate in (os.path.normpath(os.path.join(os.path.dirname(file), include)), os.path.normpath(include)):
            if candidate in self.files:
                return [candidate]
        return [found for found in self.by_name[os.path.basename(include)] if found.endswith("/" + include)]


def edges_of(tree):
    """{directory: {included directory: [(file, line, included file)]}}; every directory with a file is a key."""
    edges = {os.path.dirname(file): defaultdict(list) for file in sorted(tree.files)}
    for file, line, target in tree.includes:
        if os.path.dirname(file) != os.path.dirname(target):
            edges[os.path.dirname(file)][os.path.dirname(target)].append((file, line, target))
    return edges


def shortest_cycle(edges, start):
    """The shortest path from `start` back to itself as a list of directories, `start` first; None: there is none."""
    previous = {}
    queue = [start]
    for directory in queue:
        for target in sorted(edges[directory]):
            if target == start:
                cycle = [directory]
                while cycle[-1] != start:
                    cycle.append(previous[cycle[-1]])
                return cycle[::-1]
            if target not in previous:
                previous[target] = directory
                queue.append(target)
    return None


def reachable_from(edges, start):
    seen = set()
    queue = [start]
    while queue:
        for target in edges[queue.pop()]:
            if target not in seen:
                seen.add(target)
                queue.append(target)
    return seen


def cyclic_components(edges):
    """The strongly connected components with a cycle, as sets of directories, the largest first."""
    reachable = {directory: reachable_from(edges, directory) for directory in edges}
    components = []
    for directory in sorted(edges):
        if directory in reachable[directory] and not any(directory in component for component in components):
            components.append({other for other in reachable[directory] if directory in reachable[other]})
    return sorted(components, key=lambda component: (-len(component), sorted(component)))


def describe_cycle(edges, cycle):
    """Lines with the includes of each step of `cycle`."""
    lines = []
    for directory, target in zip(cycle, cycle[1:] + cycle[:1]):
        includes = edges[directory][target]
        lines.append(f"  {directory} includes {target}:")
        lines += [f"    {file}:{line} includes {included}" for file, line, included in includes[:MAX_LISTED]]
        if len(includes) > MAX_LISTED:
            lines.append(f"    and {len(includes) - MAX_LISTED} more")
    return lines


def print_text(edges):
    for directory in sorted(edges):
        print(directory)
        for target in sorted(edges[directory]):
            print(f"  {target} ({len(edges[directory][target])})")


def print_dot(edges, components):
    """For Graphviz; directories and includes that are part of a cycle are red."""
    print("digraph includes {")
    print("  rankdir=LR; node [shape=box, fontname=sans]; edge [fontname=sans, fontsize=9];")
    for directory in sorted(edges):
        color = " [color=red]" if any(directory in component for component in components) else ""
        print(f'  "{directory}"{color};')
    for directory in sorted(edges):
        for target in sorted(edges[directory]):
            color = ", color=red" if any({directory, target} <= component for component in components) else ""
            print(f'  "{directory}" -> "{target}" [label={len(edges[directory][target])}{color}];')
    print("}")


def main():
    parser = argparse.ArgumentParser(
        description="Print which directories include which, with the number of includes. Fail when directories "
                    "include each other in a cycle, and print the shortest one.",
        epilog="Exit status: 0; 1 when there is a cycle; 2 for a wrong command line. "
               "A picture: tools/include-graph.py --dot | dot -Tsvg >includes.svg")
    parser.add_argument("directories", nargs="*", metavar="DIR",
                        help=f"directories to read (default: {' '.join(DIRECTORIES)})")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1],
                        help="root directory, to which includes are relative (default: this repository)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--dot", action="store_true", help="print the graph for Graphviz")
    output.add_argument("--check", action="store_true", help="print cycles only")
    options = parser.parse_args()
    directories = options.directories or DIRECTORIES
    for directory in directories:
        if not (options.root / directory).is_dir():
            parser.error(f"no directory '{directory}' in {options.root}")

    edges = edges_of(Tree(options.root, directories))
    components = cyclic_components(edges)
    if options.dot:
        print_dot(edges, components)
    elif not options.check:
        print_text(edges)
    for component in components:
        cycle = min((shortest_cycle(edges, directory) for directory in sorted(component)), key=len)
        print(f"error: {len(component)} directories include each other: {', '.join(sorted(component))}",
              file=sys.stderr)
        print(f"  shortest cycle: {' -> '.join(cycle + cycle[:1])}", file=sys.stderr)
        print("\n".join(describe_cycle(edges, cycle)), file=sys.stderr)
    return 1 if components else 0


if __name__ == "__main__":
    sys.exit(main())
