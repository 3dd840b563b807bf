#!/usr/bin/env python3
"""Drives the flame graph and the timeline in a real browser: search, zoom, keyboard, tooltips.

usage: browser_test.py RENDER_SAMPLES

A script at the end of a copy of the picture acts as a user does, and writes what it found into the page. Skipped if
chromium is not installed.
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
import browser as browsers  # noqa: E402
import process_group  # noqa: E402

SKIPPED = 77
problems = []

# Common to all scenes: actions of a user, and functions that read the page.
PLAYER = r"""
const seen = {errors: []};
window.addEventListener('error', event => seen.errors.push(String(event.message)));
const one = selector => document.querySelector(selector);
const all = selector => Array.from(document.querySelectorAll(selector));
const wait = ms => new Promise(done => setTimeout(done, ms));
const key = (target, name) =>
  target.dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true, cancelable: true}));
const words = selector => (one(selector) || {textContent: null}).textContent;
const labels = () => all('.chart svg text').map(text => text.textContent);
const crumbs = () => all('.crumbs button').map(button => button.textContent);
const rectOf = label => all('.chart svg text').find(text => text.textContent === label).previousSibling;
const mouse = (target, kind) => {
  const at = target.getBoundingClientRect();
  target.dispatchEvent(new MouseEvent(kind, {bubbles: true, clientX: at.left + at.width / 2, clientY: at.top + 5}));
};
const type = async text => {
  one('input').value = text;
  one('input').dispatchEvent(new Event('input', {bubbles: true}));
  await wait(300);
};
const play = async scene => {
  try { await scene(); } catch (error) { seen.errors.push(String(error) + String(error.stack)); }
  const outcome = document.createElementNS('http://www.w3.org/2000/svg', 'metadata');
  outcome.id = 'outcome';
  outcome.textContent = JSON.stringify(seen);
  document.documentElement.append(outcome);
};
"""

SMALL = r"""
play(async () => {
  seen.drawing = one('#drawing') === null;
  seen.start = labels();
  seen.sum = words('.sum b');
  seen.reset = one('.bar button:not(.search button)').disabled;

  await type('alpha');
  seen.found = words('.found');
  seen.lit = all('.chart rect.lit').length;
  await type('Alpha');
  seen.foundCapital = words('.found');
  await type('module:libleaf.so.1');
  seen.foundModule = words('.found');
  await type('file:beta.c');
  seen.foundFile = words('.found');
  one('.search button').click();
  await type('^(alpha|beta)');
  seen.foundRegex = words('.found');
  await type('(');
  seen.bad = [words('.found'), one('.search').classList.contains('bad')];
  await type('');
  one('.search button').click();
  seen.foundNothing = words('.found');

  mouse(rectOf('beta'), 'mousemove');
  seen.tip = words('.tip');
  seen.tipShown = one('.tip').classList.contains('on');
  seen.inlinedStyle = rectOf('beta').classList.contains('inl');
  mouse(rectOf('beta'), 'click');
  seen.zoomed = labels();
  seen.crumbs = crumbs();
  seen.hash = location.hash;
  mouse(rectOf('Alpha::operator()()'), 'mousemove');
  seen.tipZoomed = words('.tip');
  all('.crumbs button')[0].click();
  seen.back = labels();

  const chart = one('.chart svg');
  chart.focus();
  key(chart, 'ArrowDown');
  key(chart, 'ArrowDown');
  seen.spoken = words('.unseen');
  key(chart, 'ArrowRight');
  seen.spokenRight = words('.unseen');
  key(chart, 'Enter');
  seen.keyZoom = crumbs();
  key(chart, 'Escape');
  seen.keyOut = crumbs();
  key(chart, 'Home');
  seen.keyHome = crumbs();
  key(chart, '/');
  seen.searchFocused = document.activeElement === one('input');
  await type('leaf');
  key(one('input'), 'Enter');
  seen.next = words('.unseen');
  key(one('input'), 'Escape');
  await wait(50);
  seen.cleared = one('input').value;

  const before = rectOf('main').getBoundingClientRect().top;
  key(chart, 'f');
  seen.flipped = rectOf('main').getBoundingClientRect().top > before;
  seen.flipOrder = rectOf('main').getBoundingClientRect().top > rectOf('alpha()').getBoundingClientRect().top;
});
"""

SEVERAL = r"""
// As another picture of the document does, of another version.
for (const name of ['figures', 'flameBoxes', 'flameElements', 'flameLayout', 'flameSearch', 'flameTree'])
  window[name] = () => { throw new Error(`${name} is that of another picture`); };
play(async () => {
  await type('Alpha');
  seen.found = words('.found');
  mouse(rectOf('beta'), 'mousemove');
  seen.tip = words('.tip strong');
  mouse(rectOf('beta'), 'click');
  seen.zoomed = labels();
});
"""

LARGE = r"""
play(async () => {
  seen.note = words('footer span');
  seen.elements = all('.chart svg rect, .chart svg path').length;
});
"""

ADDRESS = r"""
play(async () => {
  await wait(100);
  seen.crumbs = crumbs();
  seen.found = words('.found');
  seen.query = one('input').value;
});
"""

HOSTILE = r"""
play(async () => {
  window.alert = () => seen.errors.push('a name was executed');
  await type(']]' + '></script>');
  seen.found = words('.found');
  await type('__proto__');
  seen.foundProto = words('.found');
  await type('non\ufffd\ufffdutf8');
  seen.foundBytes = words('.found');
});
"""

HUGE = r"""
play(async () => {
  mouse(rectOf('main'), 'mousemove');
  seen.tip = words('.tip');
});
"""

EMPTY = "play(async () => { seen.words = words('.empty'); });"

TIMELINE = r"""
play(async () => {
  seen.when = words('.when');
  const field = one('#field');
  const at = field.getBoundingClientRect();
  const place = {bubbles: true, clientX: at.left + at.width / 4, clientY: at.top + 50};
  field.dispatchEvent(new MouseEvent('mousemove', place));
  seen.moved = /^At 1[45] min/.test(words('.when'));
  seen.value = words('.row[data-key="0"] .value');
  seen.bubble = words('.bubble').replace(/1[45] min \d\d s/, 'some time ');
  field.dispatchEvent(new MouseEvent('mouseleave', {}));
  seen.left = words('.when');
  key(field, 'End');
  seen.end = words('.when');
});
"""


def show(browser, directory, picture, scene, address=""):
    text = (directory / picture).read_text(encoding="utf-8")
    end = text.rindex("</svg>")
    page = directory / "page.svg"
    page.write_text(text[:end] + "<script><![CDATA[" + PLAYER + scene + "]]></script>" + text[end:], encoding="utf-8")
    browser.open(page.as_uri() + address)
    deadline = time.monotonic() + 60
    while not (outcome := browser.evaluate("(document.querySelector('#outcome') || {}).textContent")):
        if time.monotonic() > deadline:
            problems.append(f"{picture}: the scene did not end within a minute: {browser.errors}")
            return None
        time.sleep(0.02)
    seen = json.loads(outcome)
    if seen["errors"]:
        problems.append(f"{picture}: {seen['errors']}")
    return seen


def same(picture, seen, expected):
    for what, want in expected.items():
        got = seen.get(what) if seen else None
        if got != want:
            problems.append(f"{picture}: {what} is {got!r}, expected {want!r}")


def main():
    process_group.end_all_with(signal.SIGTERM)
    if not browsers.PROGRAM:
        print("skipped: chromium is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, browsers.Browser(name) as browser:
        directory = Path(name)
        subprocess.run([sys.argv[1], name], check=True)

        everything = ["all: 1000 B", "main", "alpha()", "beta", "leaf", "Alpha::operator()()", "alpha()"]
        zoomed = ["all: 1000 B", "main", "beta", "Alpha::operator()()", "alpha()"]
        same("small.svg", show(browser, directory, "small.svg", SMALL), {
            "drawing": True, "start": everything, "sum": "1000 B", "reset": True,
            # A match inside another match is counted once: 800 + 150 + 50.
            "found": "100% 1000 B in 3 frames", "lit": 3,
            "foundCapital": "15.0% 150 B in 1 frame",
            "foundModule": "60.0% 600 B in 1 frame",
            "foundFile": "20.0% 200 B in 1 frame",
            "foundRegex": "100% 1000 B in 4 frames",
            "bad": ["invalid regular expression", True],
            "foundNothing": "",
            "tip": "betainlineddemo\u2002\u00b7\u2002src/beta.c:5bytes200 B200of total20.0%of caller20.0%",
            "tipShown": True, "inlinedStyle": True,
            "zoomed": zoomed, "crumbs": ["all", "main", "beta"], "hash": "#zoom=4",
            "tipZoomed": "Alpha::operator()(char)demobytes150 B150of total15.0%of caller75.0%of zoomed75.0%",
            "back": everything,
            "spoken": "alpha(int), 800 B, 80.0% of total",
            "spokenRight": "beta, inlined, 200 B, 20.0% of total",
            "keyZoom": ["all", "main", "beta"], "keyOut": ["all", "main"], "keyHome": ["all"],
            "searchFocused": True, "next": "leaf, 600 B, 60.0% of total", "cleared": "",
            "flipped": True, "flipOrder": True})
        same("small.svg#...", show(browser, directory, "small.svg", ADDRESS, "#search=be(t%7Cl)a&regex=1&zoom=4"), {
            "crumbs": ["all", "main", "beta"], "found": "20.0% 200 B in 1 frame", "query": "be(t|l)a"})
        same("small.svg of several", show(browser, directory, "small.svg", SEVERAL), {
            "found": "15.0% 150 B in 1 frame", "tip": "betainlined", "zoomed": zoomed})
        same("hostile.svg", show(browser, directory, "hostile.svg", HOSTILE), {
            # Name i has 1000 + i bytes and, as a callee, those of the one before; all 15 have 15105.
            "found": "13.3% 1.96 KiB in 2 frames", "foundProto": "13.4% 1.98 KiB in 2 frames",
            "foundBytes": "13.3% 1.96 KiB in 2 frames"})
        same("huge.svg", show(browser, directory, "huge.svg", HUGE), {
            "tip": "maindemobytes64.0 PiB72,057,594,037,927,936of total100%"})
        same("empty.svg", show(browser, directory, "empty.svg", EMPTY), {"words": "Nothing to show: no leaked."})
        large = show(browser, directory, "large.svg", LARGE)
        if large:
            # tests/consumers/browsing.py measures the time of each step.
            if large["elements"] > 2000:
                problems.append(f"large.svg: {large['elements']} elements drawn")
            if not re.match(r"[\d,]+ frames too narrow to draw: ", large["note"]):
                problems.append(f"large.svg: does not show how many frames are hidden: {large['note']!r}")
        same("timeline.svg", show(browser, directory, "timeline.svg", TIMELINE), {
            "when": "At the peak, 33 min 20 s", "moved": True, "value": "586 KiB",
            "bubble": "1.04 MiB live at some time 61.0 MiB resident",
            "left": "At the peak, 33 min 20 s", "end": "At 59 min 59 s"})
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
