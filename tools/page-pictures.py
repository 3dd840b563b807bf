#!/usr/bin/env python3
"""Make the pictures of the page in docs/images: page-VIEW.png and page-VIEW-dark.png.

usage: tools/page-pictures.py [--build DIR] [-o DIRECTORY] [VIEW...]

Records docs/examples/gateway.cpp twice, serves both recordings, and takes a picture of each view in Chromium, or of
those named: of the summary the whole page, of the others the part below the timeline. Look at each one afterwards.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
import browser  # noqa: E402

EXAMPLES = ROOT / "docs/examples"
SIZE = (1080, 680)
MAX_BYTES = 135_000
SESSIONS = "name=SessionStore%3A%3Aopen_session(int)"
VIEWS = {
    "summary": "view=summary",
    "flame": f"view=flame&metric=allocated&{SESSIONS}",
    "table": "view=table&metric=allocated",
    "tree": "view=tree&metric=allocated",
    "leaks": "view=leaks&metric=leaked",
    "blocks": "view=blocks&metric=leaked",
    "lifetimes": "view=lifetimes",
    "threads": "view=threads&metric=allocated",
    "source": "view=source&file=gateway.cpp&metric=leaked",
    "compare": "view=compare&before=20%25&after=80%25",
    "resident": "view=resident",
    "processes": "view=processes",
}
SETTLED = """new Promise(done => { const check = () => ['#view', '#details'].every(part => {
  const {asked, drawn} = document.querySelector(part).dataset; return asked !== undefined && asked === drawn; }) &&
  document.querySelector('.waiting') === null && document.documentElement.dataset.pending === '0' ? done() :
  setTimeout(check, 20); check(); })"""


def record(heapprof, directory):
    program = directory / "gateway"
    subprocess.run(["g++", "-g", "-O1", "-I", ROOT / "preload", EXAMPLES / "gateway.cpp", "-o", program, "-pthread",
                    f"-fdebug-prefix-map={EXAMPLES}=/home/ann"], check=True)
    recordings = directory / "recordings"
    recordings.mkdir()
    for name, *arguments in (("gateway-1", "10000"), ("gateway-2-fixed", "10000", "fixed")):
        subprocess.run([heapprof, "record", "-q", "--snapshots", "on", "--free-stacks", "on", "-o",
                        recordings / f"{name}.heapprof", "--", program, *arguments], check=True,
                       stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs/images")
    parser.add_argument("views", nargs="*", metavar="VIEW")
    options = parser.parse_args()
    if unknown := set(options.views) - set(VIEWS):
        parser.error(f"unknown view '{min(unknown)}'; expected {', '.join(VIEWS)}")
    heapprof = options.build.resolve() / "analyzer/heapprof"
    if not heapprof.exists():
        sys.exit(f"{heapprof} does not exist: run tools/build.sh first, or set --build")
    large = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        directory = Path(name)
        record(heapprof, directory)
        (directory / "src").symlink_to(EXAMPLES)
        # Relative names: the pictures show commands.
        with subprocess.Popen([heapprof, "serve", "recordings", "--no-open", "--source-path", "src"], cwd=name,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=dict(os.environ, XDG_CACHE_HOME=name)) as server:
            try:
                address = server.stdout.readline().strip()
                with browser.Browser(name, *SIZE) as page:
                    for view in options.views or VIEWS:
                        for dark in (False, True):
                            page.open(f"{address}#{VIEWS[view]}", dark=dark)
                            page.evaluate(SETTLED)
                            top = 0 if view == "summary" else page.evaluate(
                                "document.querySelector('#selection').getBoundingClientRect().top")
                            picture = options.output / f"page-{view}{'-dark' if dark else ''}.png"
                            page.screenshot(picture, (0, top, SIZE[0], SIZE[1] - top))
                            if picture.stat().st_size > MAX_BYTES:
                                large.append(f"{picture}: {picture.stat().st_size} bytes")
                    errors = page.errors
            finally:
                server.terminate()
    for line in [*large, *errors]:
        print(line, file=sys.stderr)
    return 1 if large or errors else 0


if __name__ == "__main__":
    sys.exit(main())
