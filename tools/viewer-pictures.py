#!/usr/bin/env python3
"""Create the pictures of docs/viewers.md and docs/guide.md: open exports of two traces in each viewer, on a virtual
display, and take screenshots.

usage: tools/viewer-pictures.py BEFORE AFTER [DIR] [NAME...]

BEFORE, AFTER  bundled traces (`heapprof bundle`). Only the comparison shows AFTER. In the guide they are two runs of
               redis-server, compiled with -g, under redis-benchmark
DIR            output directory; default docs/images
NAME           only these pictures: flamegraph, diff, timeline, heaptrack, ...; default: all

Needs the packages of `tools/packages.sh test`, tools/consumers.sh, and xdotool, imagemagick, curl and
fonts-noto-color-emoji. Check the pictures by eye.
"""

import base64
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import browser  # noqa: E402

BUILD = Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
DISPLAY = ":93"
WIDTH, HEIGHT = 1300, 780


class Screenshots:
    def __init__(self, before, after, directory, work):
        self.directory, self.work = directory, work
        # The picture of the comparison contains these names.
        self.before, self.after = Path("before.heapprof"), Path("after.heapprof")
        shutil.copy(before, work / self.before)
        shutil.copy(after, work / self.after)
        self.environment = {**os.environ, "HOME": str(work), "XDG_RUNTIME_DIR": str(work),
                            "XDG_CONFIG_HOME": str(work),
                            "XDG_CACHE_HOME": str(work), "DISPLAY": DISPLAY, "LC_ALL": "C.UTF-8"}

    def heapprof(self, *arguments):
        subprocess.run([BUILD / "analyzer" / "heapprof", *map(str, arguments)], check=True, cwd=self.work)

    def export(self, form, name):
        path = self.work / name
        self.heapprof("export", form, self.before, "-o", path)
        return path

    def save(self, name):
        subprocess.run(["convert", self.work / "picture.png", "-strip", "-define", "png:compression-level=9",
                        f"PNG24:{self.directory / name}.png"], check=True)

    @staticmethod
    def until(condition, seconds=90):
        """Waits until condition() is true, and returns its value."""
        end = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > end:
                raise TimeoutError(f"nothing is displayed after {seconds} s")
            time.sleep(0.5)
        return value

    # Pictures in a browser

    def page(self, name, address, act=lambda page: None, height=HEIGHT, dark=False):
        with browser.Browser(self.work, WIDTH, height) as page:
            page.open(address, dark=dark)
            act(page)
            page.screenshot(self.work / "picture.png")
        self.save(name)

    def wait(self, page, seconds):
        page.evaluate(f"new Promise(done => setTimeout(done, {1000 * seconds}))")

    def flamegraph(self):
        svg = self.work / "flamegraph.svg"
        self.heapprof("flamegraph", self.before, "-o", svg)

        def search(page):
            page.press("/", *"dictAddRaw")
            self.wait(page, 0.5)
        self.page("flamegraph", svg.as_uri(), lambda page: page.move(760, 441), height=800)
        self.page("flamegraph-search", svg.as_uri(), search, height=800, dark=True)

    def diff(self):
        svg = self.work / "diff.svg"
        self.heapprof("diff", self.before, self.after, "--format", "svg", "-o", svg)
        self.page("diff", svg.as_uri(), height=680)

    def timeline(self):
        svg = self.work / "timeline.svg"
        self.heapprof("timeline", self.before, "--format", "svg", "-o", svg)
        self.page("timeline", svg.as_uri(), lambda page: page.move(420, 300), height=700)

    def folded(self):
        """The output of flamegraph.pl."""
        stacks = self.work / "stacks.folded"
        self.heapprof("flamegraph", self.before, "--format", "folded", "--cost", "leaked", "-o", stacks)
        program = BUILD / "consumers" / "debian" / "usr/share/perl5/Devel/NYTProf/flamegraph.pl"
        svg = self.work / "leaked.svg"
        svg.write_bytes(subprocess.run(["perl", program, "--countname", "bytes", "--width", "1260", "--title",
                                        "Leaked by redis-server",
                                        stacks], check=True, stdout=subprocess.PIPE).stdout)
        self.page("viewer-flamegraph-pl", svg.as_uri(), height=620)

    def pprof(self):
        go = shutil.which("go") or "/usr/local/go/bin/go"
        server = subprocess.Popen([go, "tool", "pprof", "-http=localhost:7787", "-no_browser",
                                   "-sample_index=peak_space",
                                   "-symbolize=none", self.export("pprof", "redis.pb.gz")],
                                  # go keeps its downloads in HOME.
                                  env={**self.environment, "HOME": os.environ.get("HOME", "/")},
                                  cwd=self.work, start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            self.until(lambda: subprocess.run(["curl", "-sf", "-o", "/dev/null",
                                               "http://localhost:7787/ui/flamegraph"]).returncode == 0)
            self.page("viewer-pprof", "http://localhost:7787/ui/flamegraph", lambda page: self.wait(page, 2),
                      height=680)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()

    def speedscope(self):
        data = base64.b64encode(self.export("speedscope", "redis.speedscope.json").read_bytes()).decode()
        script = self.work / "speedscope.js"
        script.write_text(f"speedscope.loadFileFromBase64('redis.speedscope.json', '{data}')")
        start = BUILD / "consumers" / "node_modules" / "speedscope" / "dist" / "release" / "index.html"
        self.page("viewer-speedscope", f"{start.as_uri()}#view=left-heavy&localProfilePath={script}",
                  lambda page: (self.wait(page, 4), page.move(860, 433), self.wait(page, 1)), height=680)

    def dhat(self):
        self.export("dhat", "redis.dhat.json")
        viewer = next(path for path in Path("/usr").glob("lib*/**/valgrind/dh_view.html"))

        def act(page):
            # The same as the button "Load...".
            page.call("DOM.enable")
            root = page.call("DOM.getDocument")["root"]["nodeId"]
            field = page.call("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
            page.call("DOM.setFileInputFiles", nodeId=field, files=[str(self.work / "redis.dhat.json")])
            self.wait(page, 3)
            page.evaluate("(() => { const list = [...document.querySelectorAll('select')][0];"
                          "list.selectedIndex = [...list.options].findIndex(one => one.textContent.startsWith('At "
                          "t-gmax (bytes)'));"
                          "list.dispatchEvent(new Event('change')); })()")
            self.wait(page, 1)
        self.page("viewer-dhat", viewer.as_uri(), act, height=900)

    def serve(self):
        """The page of `heapprof serve`."""
        server = subprocess.Popen([BUILD / "analyzer" / "heapprof", "serve", self.before, "--no-open"], cwd=self.work,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            address = server.stdout.readline().strip()
            for name, selection, dark in (("summary", "view=summary", False),
                                          ("flame", "view=flame&from=40%25&to=90%25", True)):
                self.page(f"page-{name}", f"{address}#{selection}", lambda page: self.wait(page, 3), height=860,
                          dark=dark)
        finally:
            server.kill()
            server.wait()

    # Pictures of windows

    def window(self, name, command, seconds, act=lambda: None, width=WIDTH, height=HEIGHT):
        screen = subprocess.Popen(["Xvfb", DISPLAY, "-screen", "0", f"{width}x{height}x24"],
                                  stderr=subprocess.DEVNULL)
        time.sleep(1)
        process = subprocess.Popen(["dbus-run-session", "--", *map(str, command)], env=self.environment,
                                   cwd=self.work,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            # There is no window manager: resize the largest window to the display.
            window = self.until(self.largest_window)
            self.xdo("windowmove", window, 0, 0)
            self.xdo("windowsize", window, width, height)
            time.sleep(seconds)
            act()
            time.sleep(2)
            subprocess.run(["import", "-display", DISPLAY, "-window", "root", self.work / "picture.png"], check=True)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            screen.terminate()
            screen.wait()
        self.save(name)

    def largest_window(self):
        windows = self.xdo("search", "--onlyvisible", "--name", ".").split()
        widths = {one: int((re.findall(r"WIDTH=(\d+)", self.xdo("getwindowgeometry", "--shell", one)) or [0])[0])
                  for one in windows}
        return max((one for one in widths if widths[one] > 300), key=widths.get, default=None)

    def xdo(self, *arguments):
        return subprocess.run(["xdotool", *map(str, arguments)], env=self.environment, capture_output=True,
                              text=True).stdout

    def click(self, x, y):
        self.xdo("mousemove", x, y, "click", 1)
        time.sleep(1)

    def heaptrack(self):
        self.window("viewer-heaptrack", ["heaptrack_gui", self.export("heaptrack", "redis.heaptrack.zst")], 8,
                    lambda: (self.click(443, 37), self.xdo("mousemove", 480, 456)))

    def massif(self):
        self.window("viewer-massif", ["massif-visualizer", self.export("massif", "massif.out.redis")], 8)

    def kcachegrind(self):
        (self.work / "kcachegrindrc").write_text("[TipOfDay]\nRunOnStart=false\n")
        self.window("viewer-kcachegrind", ["kcachegrind", self.export("callgrind", "callgrind.out.redis")], 8,
                    # The tab "Callee Map".
                    lambda: self.click(615, 99))


PICTURES = ("serve", "flamegraph", "diff", "timeline", "folded", "heaptrack", "pprof", "speedscope", "massif", "dhat",
            "kcachegrind")


def main():
    words = sys.argv[1:]
    if words in (["-h"], ["--help"]):
        print(__doc__)
        return
    if len(words) < 2 or words[0].startswith("-"):
        sys.exit(__doc__)
    names = [word for word in words[2:] if word in PICTURES] or PICTURES
    directories = [word for word in words[2:] if word not in PICTURES] or [ROOT / "docs" / "images"]
    with tempfile.TemporaryDirectory() as work:
        paths = (Path(word).resolve() for word in (words[0], words[1], directories[0]))
        screenshots = Screenshots(*paths, Path(work))
        for name in names:
            getattr(screenshots, name)()
            print(name, flush=True)


if __name__ == "__main__":
    main()
