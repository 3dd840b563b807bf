#!/usr/bin/env python3
"""Run the commands that README.md, docs/guide.md and docs/python.md show, and write their output below them.

usage: tools/guide-samples.py [--build DIR] [PAGE...]

--build DIR  build directory with heapprof and the recorder; default build/
PAGE         README, guide or python; default: all three

A sample is a block ```console``` after the comment `<!-- sample: N -->`: its lines that begin with `$ ` are run, and
the first N lines of output follow (`all`: every line; `3-5`: these lines; `unrun`: the command is not run); `...`
stands for the rest. `<!-- sample: all 3-5 -->` has a value for each command. The commands run in a temporary
directory, shown as /home/ann, with docs/examples/gateway.cpp and pages.cpp as the programs `./gateway` and `./pages`,
or with orders.py and the extension module of fields.c, for the system's python3.
Each run has other times and process ids, so no test compares them; run this script after a change of what commands
print.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "docs" / "examples"
SAMPLE = re.compile(r"(<!-- sample: ((?:[\w-]+ )+)-->\n```console\n)(.*?)(```)", re.S)


def output_of(command, directory, build):
    path = f"{build / 'analyzer'}:/usr/bin:{os.environ['PATH']}"  # the python3 of pyenv is a script
    environment = dict(os.environ, PATH=path, LC_ALL="C.UTF-8", COLUMNS="100")
    done = subprocess.run(["bash", "-c", command], cwd=directory, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode in (126, 127):  # the shell did not find the program
        raise SystemExit(f"tools/guide-samples.py: {command}: {done.stdout.strip()}")
    text = done.stdout.replace(str(directory), "/home/ann")
    return re.sub(r"^(  host +).*", r"\1laptop", text, flags=re.M).splitlines()


def prepare_guide(directory):
    for program in ("gateway", "pages"):
        shutil.copy(EXAMPLES / f"{program}.cpp", directory)
        subprocess.run(["g++", "-g", "-O1", "-I", ROOT / "preload", f"{program}.cpp", "-o", program, "-pthread"],
                       cwd=directory, check=True)


def prepare_python(directory):
    for name in ("orders.py", "fields.c"):
        shutil.copy(EXAMPLES / name, directory)


PAGES = {"README": prepare_guide, "guide": prepare_guide, "python": prepare_python}


def shown_lines(found, lines):
    """Of the output `found` the lines that the value `lines` asks for, and `...` for what is left out."""
    first, last = 1, len(found)
    if "-" in lines:
        first, last = map(int, lines.split("-"))
    elif lines != "all":
        last = int(lines)
    before, after = ["..."] * (first > 1), ["..."] * (last < len(found))
    return before + [line.rstrip() for line in found[first - 1:last]] + after


def renew_page(page, build):
    path = ROOT / "README.md" if page == "README" else ROOT / "docs" / f"{page}.md"
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        PAGES[page](directory)

        def renew(sample):
            begin, values, body, end = sample.groups()
            commands = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
            values = values.split()
            if len(values) == 1:
                values *= len(commands)
            text = []
            for command, lines in zip(commands, values, strict=True):
                text.append(f"$ {command}")
                if lines != "unrun":
                    text += shown_lines(output_of(command, directory, build), lines)
            return begin + "".join(line + "\n" for line in text) + end

        path.write_text(SAMPLE.sub(renew, path.read_text()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    options = parser.parse_args()
    for page in options.pages:
        if page not in PAGES:
            parser.error(f"unknown page '{page}'; expected {', '.join(PAGES)}")
    build = options.build.resolve()
    if not (build / "analyzer" / "heapprof").exists():
        sys.exit(f"{build / 'analyzer' / 'heapprof'} does not exist: run tools/build.sh first, or set --build")
    for page in options.pages or PAGES:
        renew_page(page, build)


if __name__ == "__main__":
    main()
