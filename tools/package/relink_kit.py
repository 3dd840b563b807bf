#!/usr/bin/env python3
"""Collect what is needed to relink heapprof with another version of elfutils (LGPL-3.0, section 4).

usage: tools/package/relink_kit.py --build DIR --libraries DIR --output DIR

--build      the build folder of the analyzer
--libraries  the folder of tools/package/libraries.sh
--output     the folder to write: object files, archives, the source of elfutils, and link.sh
"""

import argparse
import shlex
import shutil
import subprocess
from pathlib import Path

LINK = """#!/bin/sh
# Links heapprof from the object files and archives of this folder, with the compiler of the packages:
#
#   pip install ziglang=={version} && ./link.sh
#
# To use another elfutils: build it (its source is in sources/), and replace elfutils/libelf.a and elfutils/libdw.a.
set -eu
cd "$(dirname "$0")"
exec ${{ZIG:-python3 -m ziglang}} c++ -target {target} {arguments}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("build", "libraries", "output"):
        parser.add_argument("--" + name, required=True, type=Path)
    options = parser.parse_args()
    shutil.rmtree(options.output, ignore_errors=True)
    options.output.mkdir(parents=True)
    shutil.copytree(options.libraries / "sources", options.output / "sources")

    archiver = str(options.libraries / "bin" / "ar")
    commands = subprocess.run(["ninja", "-C", options.build, "-t", "commands", "analyzer/heapprof"], check=True,
                              capture_output=True, text=True).stdout
    words = shlex.split([line for line in commands.splitlines() if " -o analyzer/heapprof " in line][-1])
    arguments = []
    for word in words[1:]:
        if (options.libraries / "lib" / f"lib{word[2:]}.a").exists() and word.startswith("-l"):
            word = str(options.libraries / "lib" / f"lib{word[2:]}.a")
        path = options.build / word
        if word.startswith("-L"):
            continue
        if word.endswith(".o"):
            name = "heapprof/" + Path(word).name
            (options.output / "heapprof").mkdir(exist_ok=True)
            shutil.copy(path, options.output / name)
        elif word.endswith(".a"):
            folder = "elfutils" if path.name in ("libelf.a", "libdw.a") else "libraries"
            name = f"{folder}/{path.name}"
            (options.output / folder).mkdir(exist_ok=True)
            # Archives of the build are thin: they name their members.
            if path.read_bytes()[:7] == b"!<thin>":
                members = subprocess.run([archiver, "t", path], check=True, capture_output=True, text=True).stdout
                subprocess.run([archiver, "rcs", options.output / name,
                                *[options.build / member for member in members.split()]], check=True)
            else:
                shutil.copy(path, options.output / name)
        else:
            name = "heapprof-relinked" if word == "analyzer/heapprof" else word
        if "/" in name and name in arguments:
            continue
        arguments.append(shlex.quote(name))
    compiler = (options.libraries / "bin" / "c++").read_text()
    target = compiler.split("-target ")[1].split()[0]
    versions = dict(line.split(" ", 1) for line in (options.libraries / "versions").read_text().splitlines())
    script = options.output / "link.sh"
    script.write_text(LINK.format(version=versions["zig"], target=target, arguments=" ".join(arguments)))
    script.chmod(0o755)


if __name__ == "__main__":
    main()
