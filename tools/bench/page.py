#!/usr/bin/env python3
"""Measure the page of `heapprof serve` in Chromium, used as a user does, and print a table.

usage: tools/bench/page.py --work DIR [--build DIR] [--events N] [--live N] [--rounds N] [--pace N] [--follow-s N]
                           [--follow-live N] [--views NAME,...] [--seed N] [--only NAME,...]

Records ranges.cpp once (DIR/page.heapprof; remove it after a change of --events or --live), and writes its index. All
times are wall times that the page itself measures, from the user's action to the frame that shows the result:

  open      the address is loaded: the header, the first figures (summary with its table), the timeline, everything;
            with an index and without one, each time with an empty cache and a new server; without, the progress and
            the sums so far, too
  ranges    a range is dragged on the timeline while the flame graph is shown: narrow, wide, random; and a range of
            0.1 % from a link
  filter    a letter is typed into the search of the table, the flame graph, and the table of call stacks
  scroll    the blocks that are live at the peak are scrolled for two seconds at several speeds, as fast as the page
            draws with 300 pixels a frame, and with a jump to another place: frames per second, the longest time
            between two frames, the processor time of the page for each frame (which other load on the machine changes
            least), and the time until the rows are filled in. In turns with it, a table of plain HTML of the same
            size, without a script: what the browser can show on this machine
  follow    a program that makes a million events a second (--pace) with --follow-live live blocks is watched while it
            runs, in each of --views for --follow-s seconds: how far the program's clock is ahead of the time in the
            header, and of the figures that are shown, without the first 5 seconds of a view. A view may have a
            selection: leaks, "flame&from=2"
  memory    the highest resident memory (proportional set size) of the server and of the processes of its answers,
            in all of the above, and of one alone

*Processor time of the answers* is that of all processes that the server started, from the action until nothing is
awaited any more. The table has the median and the worst of --rounds, and the target. The exit status is 1 when a
median misses it.
"""

import argparse
import html
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import browser  # noqa: E402

PARTS = ("open", "ranges", "filter", "scroll", "follow", "memory")
MAX_WAIT_S = 100
FRAME_MS = 1000 / 60
SMOOTH_FRAMES = 58   # of 60 in a second; the first and the last are incomplete
# Of a scroll gesture of Chromium's own measurements, of a wheel that is turned fast, and of a swipe.
SCROLL_SPEEDS = (800, 3000, 9000)   # pixels per second

# Runs before the scripts of the page. It notes when something was drawn first: after the frame with the change.
WATCH = """
window.moments = {};
const drawnAfter = what => requestAnimationFrame(() => setTimeout(what, 0));
const note = name => { if (!(name in moments)) drawnAfter(() => { moments[name] ??= performance.now(); }); };
window.busy = () => ['#view', '#details'].some(part => { const {asked, drawn} = document.querySelector(part).dataset;
                                                         return asked === undefined || asked !== drawn; }) ||
  document.querySelector('.waiting') !== null || !['0', undefined].includes(document.documentElement.dataset.pending);
const look = () => {
  const about = document.querySelector('#about'), view = document.querySelector('#view');
  if (about && about.textContent) note('header');
  if (document.querySelector('#progress .busy')) note('progress');
  if (document.querySelector('.so-far')) note('sums');
  if (document.querySelector('.tile')) note('figures');
  if (view && view.querySelector('tbody tr[data-index]')) note('view');
  if (document.querySelector('.time-chart path.area')) note('timeline');
};
new MutationObserver(look).observe(document, {childList: true, subtree: true, attributes: true});
"""

# The time from an event to the frame after the view that it asked for was drawn.
AFTER_EVENT = """
window.measured = new Promise(done => {
  const view = document.querySelector('#view'), before = view.dataset.asked;
  let began = null;
  addEventListener(%s, event => {
    if (began !== null) return;
    began = event.timeStamp;
    const check = () => view.dataset.asked !== before && view.dataset.asked === view.dataset.drawn &&
      document.querySelector(%s) ? requestAnimationFrame(() => setTimeout(() => done(performance.now() - began), 0)) :
      setTimeout(check, 1);
    setTimeout(check, 0);
  }, {capture: true, once: true});
}); 0
"""

# The time from a key to the frame after it, and the frames while the page is scrolled.
AFTER_KEY = """
window.measured = new Promise(done => addEventListener('keydown', event => requestAnimationFrame(() => setTimeout(
  () => done(performance.now() - event.timeStamp), 0)), {capture: true, once: true})); 0
"""
FRAMES = """
window.frames_ms = [];
window.counting = true;
(() => { const count = at => { frames_ms.push(at); if (counting) requestAnimationFrame(count); };
         requestAnimationFrame(count); })()
"""


# A table with as many rows and columns of text in view as that of the blocks, and no script.
PLAIN_TABLE = """
<!doctype html><style>
body { margin: 0; font: 13px sans-serif }
div { position: absolute; inset: %(top)dpx 0 0 %(left)dpx; overflow: auto; background: white }
table { border-collapse: collapse; width: 100%%; table-layout: fixed }
td { height: %(row)dpx; padding: 0 8px; border-bottom: 1px solid #ddd; white-space: nowrap; overflow: hidden }
</style><div class=scroller><table>%(rows)s</table></div>
"""


# Prints its clock when it starts. The sleep between two slices of 10 ms is as long as the program is ahead.
PACED = """
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
int main(int, char** arguments) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::printf("%lld\\n", static_cast<long long>(begin.time_since_epoch().count()));
  std::fflush(stdout);
  const long pace = std::atol(arguments[1]), slices = std::atol(arguments[2]) * 100;
  const unsigned live = static_cast<unsigned>(std::atol(arguments[3]));
  std::vector<void*> kept(live);
  for (unsigned i = 0; i < live; ++i) kept[i] = std::malloc(16 + i % 100);
  unsigned number = 0;
  for (long slice = 1; slice <= slices; ++slice) {
    for (long i = 0; i < pace / 200; ++i) {
      number = number * 1664525u + 1013904223u;
      void** const place = &kept[number % live];
      std::free(*place);
      *place = std::malloc(16 + (number >> 8) % 100);
    }
    std::this_thread::sleep_until(begin + std::chrono::milliseconds(10) * slice);
  }
}
"""


class Memory:
    """The highest memory of a process and its descendants, looked at ten times a second."""

    def __init__(self, pid):
        self.pid = pid
        self.all = self.server = self.answer = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    @staticmethod
    def pss(pid):
        try:
            return int(re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1]) / 1024
        except (OSError, TypeError):
            return 0.0  # it has ended

    @staticmethod
    def children(pid):
        try:
            return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return []  # it has ended

    def watch(self):
        while not self.ended.wait(0.1):
            # A process that stays answers by copies of itself, which share its memory.
            sizes = [sum(map(self.pss, [child, *self.children(child)])) for child in self.children(self.pid)]
            server = self.pss(self.pid)
            self.server = max(self.server, server)
            self.answer = max([self.answer, *sizes])
            self.all = max(self.all, server + sum(sizes))

    def stop(self):
        self.ended.set()
        self.thread.join()


class Server:
    """A server with an empty cache."""

    def __init__(self, bench, trace):
        self.cache = tempfile.TemporaryDirectory(dir=bench.work)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HEAPPROF_")}
        begin = time.monotonic()
        self.process = subprocess.Popen(
            [bench.heapprof, "serve", trace, "--no-open"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=dict(environment, XDG_CACHE_HOME=self.cache.name))
        self.address = self.process.stdout.readline().strip()
        self.started_ms = 1000 * (time.monotonic() - begin)
        if not self.address:
            sys.exit("heapprof serve did not start")
        self.memory = Memory(self.process.pid)

    def processor_ms(self):
        """Processor time of the server and of its processes."""
        ticks = 0
        for pid in (self.process.pid, *Memory.children(self.process.pid)):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            ticks += sum(map(int, fields[11:15]))
        return 1000 * ticks / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.memory.stop()
        self.process.terminate()
        self.process.wait()
        self.cache.cleanup()


class Bench:
    def __init__(self, options):
        self.options = options
        self.work = Path(options.work)
        self.heapprof = Path(options.build) / "analyzer/heapprof"
        self.random = random.Random(options.seed)
        self.results = {}   # name: [figure], in the order of the table
        self.targets = {}
        self.units = {}
        self.memory = {"all": 0, "server": 0, "answer": 0}

    def note(self, name, figure, target=None, unit="ms"):
        self.results.setdefault(name, []).append(figure)
        self.targets[name] = target
        self.units[name] = unit

    # ---- Recording

    def record(self):
        program, self.trace = self.work / "ranges", self.work / "page.heapprof"
        if not self.trace.exists():
            subprocess.run(["g++", "-O2", "-std=c++20", ROOT / "tools/bench/ranges.cpp", "-o", program], check=True)
            subprocess.run([self.heapprof, "record", "-q", "-o", self.trace, "--", program, str(self.options.events),
                            str(self.options.live), "10000"], check=True)
        subprocess.run([self.heapprof, "index", self.trace], check=True, stderr=subprocess.DEVNULL)
        # The same file in a directory without an index.
        plain = self.work / "no-index"
        plain.mkdir(exist_ok=True)
        self.plain = plain / self.trace.name
        if not self.plain.exists():
            os.link(self.trace, self.plain)

    # ---- Chromium

    def open(self, server, fragment=""):
        self.browser.open(server.address + fragment, timeout=MAX_WAIT_S)

    def evaluate(self, expression):
        return self.browser.evaluate(expression, timeout=MAX_WAIT_S)

    def settle(self):
        """Waits for the answers that the page has asked for; returns the time since it was opened."""
        return self.evaluate("new Promise(done => { const check = () => busy() ? setTimeout(check, 10) : "
                             "done(performance.now()); check(); })")

    def until(self, expression):
        return self.evaluate(f"new Promise(done => {{ const check = () => {{ const found = {expression}; "
                             "return found ? done(found) : setTimeout(check, 10); }; check(); })")

    def chart(self):
        return self.evaluate("(() => { const at = document.querySelector('.time-chart').getBoundingClientRect();"
                             "return [at.left + 68, at.right - 24, at.top + at.height / 2]; })()")

    # ---- What is measured

    def measure_open(self):
        for kind, trace, limit_ms in (("with an index", self.trace, 1000), ("without an index", self.plain, 5000)):
            for _ in range(self.options.rounds):
                with Server(self, trace) as server:
                    self.note(f"server started, {kind}", server.started_ms)
                    self.open(server)
                    moments = self.until("'view' in moments && 'timeline' in moments && moments")
                    if trace == self.plain:
                        for name, text, target in (("progress", "progress shown", 1000),
                                                   ("sums", "sums so far", limit_ms)):
                            self.note(f"{text}, {kind}", moments.get(name, moments["figures"]), target)
                    for name, text, target in (("header", "header", None), ("figures", "first figures", limit_ms),
                                               ("view", "first view", limit_ms), ("timeline", "timeline", None)):
                        self.note(f"{text}, {kind}", moments[name], target)
                    self.note(f"everything, {kind}", self.settle())
                    self.note(f"processor time of the answers, {kind}", server.processor_ms())
                    self.keep_memory(server)

    def measure_ranges(self, server):
        self.open(server, "#view=flame")
        self.settle()
        left, right, height = self.chart()

        def drag(name, begin, end):
            self.evaluate(AFTER_EVENT % ("'pointerup'", "'.flame svg rect'"))
            spent_ms = server.processor_ms()
            self.browser.drag((left + begin * (right - left), height), (left + end * (right - left), height))
            self.note(f"flame graph of a range: {name}", self.evaluate("measured"), 300)
            self.settle()
            self.note("processor time of the answers for a range", server.processor_ms() - spent_ms)
        for _ in range(self.options.rounds):
            begin = self.random.uniform(0.02, 0.9)
            drag("1 %", begin, begin + 0.01)
            begin = self.random.uniform(0.02, 0.85)
            drag("10 %", begin, begin + 0.1)
            begin = self.random.uniform(0.02, 0.45)
            drag("50 %", begin, begin + 0.5)
            drag("96 to 98 %", self.random.uniform(0.001, 0.02), self.random.uniform(0.98, 0.99))
            drag("random", *sorted(self.random.sample(range(1, 99), 2)[i] / 100 for i in range(2)))
            begin = self.random.uniform(1, 98)
            self.evaluate(AFTER_EVENT % ("'hashchange'", "'.flame svg rect'"))
            self.evaluate(f"location.hash = 'view=flame&from={begin:.3f}%25&to={begin + 0.1:.3f}%25'")
            self.note("flame graph of a range: 0.1 %, a link", self.evaluate("measured"), 300)
            self.settle()

    def measure_follow(self):
        program, trace = self.work / "paced", self.work / "paced.heapprof"
        subprocess.run(["g++", "-O2", "-std=c++20", "-x", "c++", "-", "-o", program], input=PACED, text=True,
                       check=True)
        options = self.options
        with subprocess.Popen([self.heapprof, "record", "-q", "--force", "-o", trace, "--", program,
                               str(options.pace), str(options.follow_s * len(options.views)),
                               str(options.follow_live)],
                              stdout=subprocess.PIPE, text=True) as paced:
            began_ns = int(paced.stdout.readline())
            with Server(self, trace) as server:
                for number, view in enumerate(options.views, start=1):
                    self.open(server, f"#view={view}")
                    self.watch_view(paced, began_ns, view, number * options.follow_s)
                self.note("processor time of the answers and events, for each second",
                          server.processor_ms() / (options.follow_s * len(options.views)))
                self.note("memory of the server and its processes while a program is followed", server.memory.all,
                          200 + self.live_mb(options.follow_live), unit="MB")
            about = json.loads(subprocess.run([self.heapprof, "report", "--json", "--top", "1", trace], check=True,
                                              capture_output=True).stdout)
            self.note("events a second", about["events"] / (about["duration_ns"] / 1e9), unit="events")

    def watch_view(self, paced, began_ns, view, until_s):
        opened_ns = time.monotonic_ns() - began_ns
        while paced.poll() is None:
            time.sleep(0.1)
            now_ns = time.monotonic_ns() - began_ns
            shown = self.evaluate("[document.querySelector('#about').dataset.shownNs, "
                                  "document.documentElement.dataset.followedNs]")
            if now_ns > 1e9 * until_s:
                break
            if now_ns < opened_ns + 5e9:
                continue
            for name, text in (("header", shown[0]), ("figures", shown[1])):
                if text is not None:
                    self.note(f"delay of the {name} behind the program: {view}", (now_ns - int(text)) / 1e6, 1000)

    def measure_filter(self, server):
        for name, fragment in (("table of functions", "view=table"), ("table of stacks", "view=table&by=stack"),
                               ("flame graph", "view=flame")):
            self.open(server, "#" + fragment)
            self.settle()
            self.browser.press("/")
            for _ in range(self.options.rounds):
                for letter in "allo":
                    self.evaluate(AFTER_KEY)
                    self.browser.press(letter)
                    self.note(f"filter letter: {name}", self.evaluate("measured"), 100)
                self.evaluate("document.querySelector('#search').value = ''")

    def measure_scroll(self, server):
        self.open(server, "#view=blocks&metric=peak")
        self.settle()
        x, y = self.evaluate("(() => { const at = document.querySelector('.scroller').getBoundingClientRect();"
                             "return [at.left + 200, at.top + 200]; })()")
        filled = "!document.querySelector('#view tr.pending') && document.querySelector('#view tr[data-index]')"
        self.note("rows of the blocks view", self.evaluate(
            "document.querySelector('#view table').getAttribute('aria-rowcount') - 1"), unit="rows")
        plain = self.plain_table()
        for _ in range(self.options.rounds):
            self.browser.open(plain)
            for speed in (*SCROLL_SPEEDS, None):
                self.scroll("scrolling of a plain table", (x, y), speed)
            self.open(server, "#view=blocks&metric=peak")
            self.settle()
            for speed in (*SCROLL_SPEEDS, None):
                self.scroll("scrolling", (x, y), speed, SMOOTH_FRAMES, FRAME_MS)
                self.note("scrolling: rows filled in after it", self.waited(filled))
            place = self.random.uniform(0.1, 0.9)
            self.evaluate(f"(() => {{ const part = document.querySelector('.scroller');"
                          f"part.scrollTop = {place} * part.scrollHeight; }})()")
            self.browser.settle()
            self.note("jump to another place: rows filled in", self.waited(filled))

    def scroll(self, name, at, speed, target=None, frame_ms=None):
        """`speed`: in pixels per second, or None for 300 pixels with each frame."""
        name += f", {speed:,} pixels/s" if speed else ", 300 pixels with each frame"
        x, y = at
        self.browser.move(x, y)
        spent_ms = self.browser.spent_ms()
        self.evaluate(FRAMES)
        if speed:
            self.browser.call("Input.synthesizeScrollGesture", x=x, y=y, yDistance=-2 * speed, speed=speed,
                              gestureSourceType="mouse", preventFling=True)
        else:
            for _ in range(120):
                self.browser.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=300)
        frames = self.evaluate("counting = false, frames_ms")
        gaps = [after - before for before, after in zip(frames, frames[1:])]
        self.note(name, 1000 * len(gaps) / (frames[-1] - frames[0]), target, unit="frames/s")
        self.note(f"{name}: longest time between two frames", max(gaps))
        self.note(f"{name}: processor time of a frame", (self.browser.spent_ms() - spent_ms) / len(frames), frame_ms)

    def plain_table(self):
        """The address of a page with a table of the size of the one that is shown."""
        size = self.evaluate("(() => { const at = document.querySelector('.scroller').getBoundingClientRect(),"
                             "row = document.querySelector('#view tr[data-index]');"
                             "return {left: at.left, top: at.top, row: row.getBoundingClientRect().height,"
                             "texts: [...row.children].map(cell => cell.textContent)}; })()")
        # Higher than all scrolling of a round.
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(text)} {i}</td>" for text in size["texts"])
                       for i in range(int(80_000 / size["row"])))
        page = self.work / "plain.html"
        page.write_text(PLAIN_TABLE % dict(size, rows=rows), encoding="utf-8")
        return page.as_uri()

    def waited(self, condition):
        begin = time.monotonic()
        self.until(f"({condition}) && true")
        return 1000 * (time.monotonic() - begin)

    @staticmethod
    def live_mb(blocks):
        """A live block has an entry of 40 bytes in the table of live blocks, which is at most half empty."""
        return 80 * blocks / (1 << 20)

    def keep_memory(self, server):
        for key in self.memory:
            self.memory[key] = max(self.memory[key], getattr(server.memory, key))

    # ---- All

    def run(self):
        self.work.mkdir(parents=True, exist_ok=True)
        parts = self.options.only
        if set(parts) - {"follow"}:
            self.record()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, \
                browser.Browser(directory, 1440, 900) as self.browser:
            self.browser.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
            if "open" in parts:
                self.measure_open()
            if "follow" in parts:
                self.measure_follow()
            for part in ("ranges", "filter", "scroll"):
                if part in parts:
                    with Server(self, self.trace) as server:
                        getattr(self, "measure_" + part)(server)
                        self.keep_memory(server)
            errors = self.browser.errors
        if "memory" in parts:
            self.note("memory of the server and all processes of its answers", self.memory["all"],
                      200 + self.live_mb(self.options.live), unit="MB")
            self.note("memory of the server alone", self.memory["server"], unit="MB")
            self.note("memory of the largest answer", self.memory["answer"], unit="MB")
        if errors:
            print("errors of the page:", *errors, sep="\n  ", file=sys.stderr)
        return errors

    def table(self):
        """Prints the results; returns whether a target is missed."""
        if set(self.options.only) - {"follow"}:
            size = self.trace.stat().st_size / 1e6
            print(f"{self.options.events / 1e6:g} million events, {self.options.live / 1e6:g} million live blocks, "
                  f"{size:.0f} MB; {self.options.rounds} rounds")
        print(f"load average {os.getloadavg()[0]:.1f}\n")
        print("| measured | median | worst | target |\n|---|---:|---:|---:|")
        any_missed = False
        for name, figures in self.results.items():
            unit, target = self.units[name], self.targets[name]
            at_least = unit == "frames/s"
            median, worst = statistics.median(figures), (min if at_least else max)(figures)
            missed = target is not None and (median < target if at_least else median > target)
            any_missed |= missed
            digits = 1 if max(figures) < 20 else 0
            print(f"| {name} | {median:,.{digits}f} {unit} | {worst:,.{digits}f} {unit} | " +
                  ("" if target is None else f"{target:,.0f} {unit}") + (", missed |" if missed else " |"))
        return any_missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--events", type=int, default=100_000_000)
    parser.add_argument("--live", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pace", type=int, default=1_000_000)
    parser.add_argument("--follow-s", type=int, default=30)
    parser.add_argument("--follow-live", type=int, default=1000)
    parser.add_argument("--views", type=lambda text: text.split(","), default=["summary"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    options = parser.parse_args()
    unknown = set(options.only) - set(PARTS)
    if unknown:
        parser.error(f"--only: unknown part {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
    # The whole browser where it is installed: users have that.
    browser.PROGRAM = shutil.which("chromium") or browser.PROGRAM
    if not browser.PROGRAM:
        sys.exit("chromium is not installed")
    bench = Bench(options)
    errors = bench.run()
    return 1 if bench.table() or errors else 0


if __name__ == "__main__":
    sys.exit(main())
