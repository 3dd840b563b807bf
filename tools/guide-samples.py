#!/usr/bin/env python3
"""Run the commands that docs/guide.md and docs/python.md show, and write their output below them.

usage: tools/guide-samples.py [BUILD_DIR [PAGE]]         # PAGE: guide or python; without it, both

A sample is a block ```console``` after the comment `<!-- sample: N -->`: its lines that begin with `$ ` are run, and
the first N lines of output follow (`all`: every line); `...` stands for the rest. The commands run in a temporary
directory, shown as /home/ann, with docs/examples/gateway.cpp and pages.cpp as the programs `./gateway` and `./pages`,
or with orders.py and the extension module of fields.c, for the system's python3.
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
EXAMPLES = ROOT / "docs" / "examples"
SAMPLE = re.compile(r"(<!-- sample: (\w+) -->\n```console\n)(.*?)(```)", re.S)


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


PAGES = {"guide": prepare_guide, "python": prepare_python}


def renew_page(page, build):
    path = ROOT / "docs" / f"{page}.md"
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        PAGES[page](directory)

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

        path.write_text(SAMPLE.sub(renew, path.read_text()))


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    for page in sys.argv[2:] or PAGES:
        renew_page(page, build)


if __name__ == "__main__":
    main()
