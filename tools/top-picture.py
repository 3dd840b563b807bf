#!/usr/bin/env python3
"""Create the picture of `heapprof top` in docs/guide.md, as SVG: the screen of a real session in a terminal of 108
columns, while docs/examples/gateway.cpp runs.

usage: tools/top-picture.py [--build DIR] [-o FILE.svg]

--build DIR  build directory with heapprof and the recorder; default build/
-o FILE.svg  the picture; default docs/images/top.svg

Needs g++ and python3-pyte. Check the picture by eye.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from terminal import Terminal  # noqa: E402

COLUMNS, LINES = 108, 15
# Pixels of a character, and around the page.
WIDTH, HEIGHT, MARGIN = 8.4, 18, 12
COLOURS = {"default": "#d8dee9", "black": "#8b949e", "red": "#ff7b72", "green": "#7ee787", "brown": "#e3b341",
           "cyan": "#76e3ea"}  # black: dim (tests/support/terminal.py)
BAR_HEIGHTS = {bar: eighths / 8 for eighths, bar in enumerate("▁▂▃▄▅▆▇█", 1)}
READINGS = 12  # in the sparklines of the rows


def bars(text, column, line):
    """Sparklines as rectangles, because fonts differ in these characters."""
    path = ""
    for offset, char in enumerate(text):
        height = (HEIGHT - 4) * BAR_HEIGHTS[char]
        path += f"M{(column + offset) * WIDTH + MARGIN:.1f} {(line + 1) * HEIGHT + MARGIN - 2}" \
                f"h{WIDTH - 1:.1f}v{-height:.1f}h{1 - WIDTH:.1f}z"
    return f'<path d="{path}"/>'


def svg_of(screen):
    width, height = COLUMNS * WIDTH + 2 * MARGIN, LINES * HEIGHT + 2 * MARGIN
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
             f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" '
             f'font-size="14" fill="{COLOURS["default"]}">',
             f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" fill="#0d1117"/>']
    for line in range(LINES):
        cells = [screen.buffer[line][column] for column in range(COLUMNS)]
        column = 0
        while column < COLUMNS:
            def kind(cell):
                return cell.fg, cell.bold, cell.data in BAR_HEIGHTS
            end = column
            while end < COLUMNS and kind(cells[end]) == kind(cells[column]):
                end += 1
            text = "".join(cell.data for cell in cells[column:end])
            start = column + len(text) - len(text.lstrip())
            text, colour, bold = text.strip(), cells[column].fg, cells[column].bold and cells[column].fg != "black"
            if text and text[0] in BAR_HEIGHTS:
                parts.append(bars(text, start, line))
            elif text:
                parts.append(
                    f'<text x="{start * WIDTH + MARGIN:.1f}" y="{(line + 1) * HEIGHT + MARGIN - 5}" '
                    f'textLength="{len(text) * WIDTH:.1f}" lengthAdjust="spacingAndGlyphs" xml:space="preserve"' +
                    (f' fill="{COLOURS[colour]}"' if colour != "default" else "") +
                    (' font-weight="bold"' if bold else "") + f'>{escape(text)}</text>')
            column = end
    return "\n".join(parts + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "images" / "top.svg", metavar="FILE.svg")
    options = parser.parse_args()
    build = options.build.resolve()
    if not (build / "analyzer" / "heapprof").exists():
        sys.exit(f"{build / 'analyzer' / 'heapprof'} does not exist: run tools/build.sh first, or set --build")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        subprocess.run(["g++", "-g", "-O1", "-I", ROOT / "preload", ROOT / "docs" / "examples" / "gateway.cpp", "-o",
                        directory / "gateway", "-pthread"], check=True)
        trace = directory / "gateway.heapprof"
        program = subprocess.Popen([directory / "gateway", "1000000"], stdout=subprocess.DEVNULL,
                                   env=dict(os.environ, LD_PRELOAD=str(build / "preload" / "libheapprof.so"),
                                            HEAPPROF_OUTPUT=str(trace)))
        while not trace.exists() or trace.stat().st_size == 0:
            time.sleep(0.05)
        terminal = Terminal([str(build / "analyzer" / "heapprof"), "top", str(trace), "--interval", "0.5"], COLUMNS,
                            LINES, dict(os.environ, TERM="xterm-256color", LC_ALL="C.UTF-8",
                                        XDG_CACHE_HOME=str(directory / "cache")))
        terminal.wait_for(lambda text: "q quit" in text, "the table")
        terminal.press("\x1b[B")
        terminal.wait_for(lambda text: "(new stacks" not in text and any(sum(char in BAR_HEIGHTS for char in line) >= READINGS
                                           for line in text.splitlines()[5:]), "sparklines")
        # The rest of the page.
        while terminal.read(0.1):
            pass
        options.output.write_text(svg_of(terminal.screen))
        terminal.press("q")
        terminal.wait_for_end()
        terminal.close()
        program.kill()
        program.wait()


if __name__ == "__main__":
    main()
