#!/usr/bin/env python3
"""Print the graph of includes between folders, and fail when folders include each other in a cycle.

A folder and its subfolder are two folders: one may include the other, not both.

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

FOLDERS = ["common", "preload", "analyzer"]
SUFFIXES = {".h", ".hpp", ".inc", ".c", ".cc", ".cpp", ".S"}
MAX_LISTED = 10  # includes printed for one step of a cycle
INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')


class Tree:
    """The source files below some folders, and their includes as (file, line, included file), paths from the root."""

    def __init__(self, root, folders):
        self.files = set()
        for folder in folders:
            for path, subfolders, names in os.walk(root / folder):
                subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
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
    """{folder: {included folder: [(file, line, included file)]}}; every folder with a file is a key."""
    edges = {os.path.dirname(file): defaultdict(list) for file in sorted(tree.files)}
    for file, line, target in tree.includes:
        if os.path.dirname(file) != os.path.dirname(target):
            edges[os.path.dirname(file)][os.path.dirname(target)].append((file, line, target))
    return edges


def shortest_cycle(edges, start):
    """The shortest path from `start` back to itself as a list of folders, `start` first; None: there is none."""
    previous = {}
    queue = [start]
    for folder in queue:
        for target in sorted(edges[folder]):
            if target == start:
                cycle = [folder]
                while cycle[-1] != start:
                    cycle.append(previous[cycle[-1]])
                return cycle[::-1]
            if target not in previous:
                previous[target] = folder
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
    """The strongly connected components with a cycle, as sets of folders, the largest first."""
    reachable = {folder: reachable_from(edges, folder) for folder in edges}
    components = []
    for folder in sorted(edges):
        if folder in reachable[folder] and not any(folder in component for component in components):
            components.append({other for other in reachable[folder] if folder in reachable[other]})
    return sorted(components, key=lambda component: (-len(component), sorted(component)))


def describe_cycle(edges, cycle):
    """Lines with the includes of each step of `cycle`."""
    lines = []
    for folder, target in zip(cycle, cycle[1:] + cycle[:1]):
        includes = edges[folder][target]
        lines.append(f"  {folder} includes {target}:")
        lines += [f"    {file}:{line} includes {included}" for file, line, included in includes[:MAX_LISTED]]
        if len(includes) > MAX_LISTED:
            lines.append(f"    and {len(includes) - MAX_LISTED} more")
    return lines


def print_text(edges):
    for folder in sorted(edges):
        print(folder)
        for target in sorted(edges[folder]):
            print(f"  {target} ({len(edges[folder][target])})")


def print_dot(edges, components):
    """For Graphviz; folders and includes that are part of a cycle are red."""
    print("digraph includes {")
    print("  rankdir=LR; node [shape=box, fontname=sans]; edge [fontname=sans, fontsize=9];")
    for folder in sorted(edges):
        color = " [color=red]" if any(folder in component for component in components) else ""
        print(f'  "{folder}"{color};')
    for folder in sorted(edges):
        for target in sorted(edges[folder]):
            color = ", color=red" if any({folder, target} <= component for component in components) else ""
            print(f'  "{folder}" -> "{target}" [label={len(edges[folder][target])}{color}];')
    print("}")


def main():
    parser = argparse.ArgumentParser(
        description="Print which folders include which, with the number of includes. Fail when folders include each "
                    "other in a cycle, and print the shortest one.",
        epilog="Exit status: 0; 1 when there is a cycle; 2 for a wrong command line. "
               "A picture: tools/include-graph.py --dot | dot -Tsvg >includes.svg")
    parser.add_argument("folders", nargs="*", metavar="FOLDER",
                        help=f"folders to read (default: {' '.join(FOLDERS)})")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1],
                        help="root folder, to which includes are relative (default: this repository)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--dot", action="store_true", help="print the graph for Graphviz")
    output.add_argument("--check", action="store_true", help="print cycles only")
    options = parser.parse_args()
    folders = options.folders or FOLDERS
    for folder in folders:
        if not (options.root / folder).is_dir():
            parser.error(f"no folder '{folder}' in {options.root}")

    edges = edges_of(Tree(options.root, folders))
    components = cyclic_components(edges)
    if options.dot:
        print_dot(edges, components)
    elif not options.check:
        print_text(edges)
    for component in components:
        cycle = min((shortest_cycle(edges, folder) for folder in sorted(component)), key=len)
        print(f"error: {len(component)} folders include each other: {', '.join(sorted(component))}", file=sys.stderr)
        print(f"  shortest cycle: {' -> '.join(cycle + cycle[:1])}", file=sys.stderr)
        print("\n".join(describe_cycle(edges, cycle)), file=sys.stderr)
    return 1 if components else 0


if __name__ == "__main__":
    sys.exit(main())
