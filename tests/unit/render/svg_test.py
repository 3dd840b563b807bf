#!/usr/bin/env python3
"""The svg files are well-formed, self-contained, and have the figures of the folded text.

usage: svg_test.py RENDER_SAMPLES

With node installed the embedded scripts are checked for their syntax as well.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"
NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
problems = []


def check(condition, what):
    if not condition:
        problems.append(what)


def scripts_of(root):
    data = [s for s in root.iter(SVG + "script") if s.get("type") == "application/json"]
    code = [s for s in root.iter(SVG + "script") if s.get("type") is None]
    return data, code


def check_tree(name, data, folded):
    """Frames are a tree in preorder whose values add up to those of the folded lines."""
    count = len(data["depth"])
    for column in ("function", "line", "value"):
        check(len(data[column]) == count, f"{name}: column {column} has another length")
    value = [int(data["exact"].get(str(i), v)) for i, v in enumerate(data["value"])]
    own = list(value)
    path = []
    stacks = {}
    for i, depth in enumerate(data["depth"]):
        check(depth <= len(path), f"{name}: frame {i} is deeper than a child")
        del path[depth:]
        if path:
            own[path[-1]] -= value[i]
        path.append(i)
    check(all(v >= 0 for v in own), f"{name}: children have more than their parent")
    total = sum(int(line.rsplit(" ", 1)[1]) for line in folded)
    check(value[0] == total, f"{name}: the root has {value[0]}, the folded lines {total}")
    if data["merged"][0]:
        return
    path = []
    for i, depth in enumerate(data["depth"]):
        del path[depth:]
        path.append("" if i == 0 else data["functions"][data["function"][i]][0].replace(";", ":"))
        if own[i]:
            stack = ";".join(path[1:]) or "??"
            stacks[stack] = stacks.get(stack, 0) + own[i]
    expected = dict((line.rsplit(" ", 1)[0], int(line.rsplit(" ", 1)[1])) for line in folded)
    check(stacks == expected, f"{name}: stacks differ from the folded text")


def main():
    node = shutil.which("node")
    with tempfile.TemporaryDirectory() as directory_name:
        directory = Path(directory_name)
        subprocess.run([sys.argv[1], directory_name], check=True)
        pictures = sorted(directory.glob("*.svg"))
        check(len(pictures) >= 14, f"only {len(pictures)} pictures")
        syntax_checked = set()
        for picture in pictures:
            text = picture.read_bytes().decode("utf-8")
            try:
                root = xml.fromstring(text)
            except xml.ParseError as error:
                problems.append(f"{picture.name}: {error}")
                continue
            check(root.tag == SVG + "svg", f"{picture.name}: the root is {root.tag}")
            check(all(root.get(name) for name in ("viewBox", "width", "height")),
                  f"{picture.name}: no size")
            check(root.find(SVG + "title") is not None, f"{picture.name}: no title")
            data, code = scripts_of(root)
            check(len(data) == 1 and len(code) == 1, f"{picture.name}: {len(data)} data and {len(code)} scripts")
            # Nothing is loaded: the only references are to parts of the file.
            for reference in re.findall(r"(?:href|src)\s*=|@import|url\((?!#)|fetch\(|XMLHttpRequest", text):
                problems.append(f"{picture.name}: refers to another file: {reference}")
            check(set(re.findall(r"https?://[^\s'\"<]+", text)) <= NAMESPACES,
                  f"{picture.name}: a URL that is no namespace")
            parsed = json.loads(data[0].text)
            if "depth" in parsed:
                lines = (picture.with_suffix(".folded")).read_bytes().decode("utf-8").split("\n")[:-1]
                check_tree(picture.name, parsed, lines)
                drawn = len(list(root.iter(SVG + "rect")))
                check(drawn < 8000, f"{picture.name}: {drawn} rectangles in the drawing")
            else:
                check(len(parsed["time"]) <= 2200, f"{picture.name}: {len(parsed['time'])} points")
                check(parsed["time"] == sorted(parsed["time"]), f"{picture.name}: time goes back")
            if node and code[0].text not in syntax_checked:
                syntax_checked.add(code[0].text)
                script = directory / "script.js"
                script.write_text(code[0].text)
                done = subprocess.run([node, "--check", str(script)], capture_output=True, text=True, check=False)
                check(done.returncode == 0, f"{picture.name}: {done.stderr[:400]}")
        large = json.loads(scripts_of(xml.parse(directory / "large.svg").getroot())[0][0].text)
        check(large["merged"] == [0, 0] and len(large["depth"]) > 10_000,
              "large.svg has fewer than ten thousand frames")
        pruned = json.loads(scripts_of(xml.parse(directory / "pruned.svg").getroot())[0][0].text)
        left_out = sum(line for line, function in zip(pruned["line"], pruned["function"]) if function == -1)
        check(pruned["merged"][0] == left_out and pruned["merged"][0] > 90_000,
              "pruned.svg does not have the number of merged frames")
        named = sum(1 for function in pruned["function"] if function >= 0)
        check(4_000 < named <= 5_000, f"pruned.svg keeps {named} frames")
        timeline = json.loads(scripts_of(xml.parse(directory / "timeline.svg").getroot())[0][0].text)
        check(max(timeline["live"]) == 9_000_000, "timeline.svg does not have the peak")
        check(f"{pruned['merged'][0]:,} small frames are merged" in (directory / "pruned.svg").read_text(),
              "the drawing does not show that frames were merged")
        check("&lt;0.01%" in (directory / "tiny.svg").read_text(), "tiny.svg has no share that needs escaping")
        print(f"{len(pictures)} pictures"
              + ("" if node else "; node is not installed: scripts not checked for syntax"))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
