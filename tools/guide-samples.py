#!/usr/bin/env python3
"""Run the commands that docs/guide.md shows, and write their output below them.

usage: tools/guide-samples.py [BUILD_DIR]

A sample is a block ```console``` after the comment `<!-- sample: N -->`: its lines that begin with `$ ` are run, and
the first N lines of output follow (`all`: every line); `...` stands for the rest. The commands run in a temporary
directory, shown as /home/ann, with docs/examples/gateway.cpp and pages.cpp as the programs `./gateway` and `./pages`.
Each run has other times and process ids, so no test compares them; run this script after a change of what commands
print.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = re.compile(r"(<!-- sample: (\w+) -->\n```console\n)(.*?)(```)", re.S)


def output_of(command, directory, build):
    environment = dict(os.environ, PATH=f"{build / 'analyzer'}:{os.environ['PATH']}", LC_ALL="C.UTF-8", COLUMNS="100")
    done = subprocess.run(["bash", "-c", command], cwd=directory, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    text = done.stdout.replace(str(directory), "/home/ann")
    return re.sub(r"^(  host +).*", r"\1laptop", text, flags=re.M).splitlines()


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    guide = ROOT / "docs" / "guide.md"
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for program in ("gateway", "pages"):
            shutil.copy(ROOT / "docs" / "examples" / f"{program}.cpp", directory)
            subprocess.run(["g++", "-g", "-O1", "-I", ROOT / "preload", f"{program}.cpp", "-o", program, "-pthread"],
                           cwd=directory, check=True)

        def renew(sample):
            begin, lines, body, end = sample.groups()
            text = ""
            for command in [line[2:] for line in body.splitlines() if line.startswith("$ ")]:
                found = output_of(command, directory, build)
                shown = found if lines == "all" else found[:int(lines)]
                text += f"$ {command}\n" + "".join(line.rstrip() + "\n" for line in shown)
                if len(shown) < len(found):
                    text += "...\n"
            return begin + text + end

        guide.write_text(SAMPLE.sub(renew, guide.read_text()))


if __name__ == "__main__":
    main()
