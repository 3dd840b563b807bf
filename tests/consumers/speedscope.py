"""speedscope, in headless Chromium: it imports every file, and its sandwich view shows each function's share as in
the report. The sums of all profiles equal the report's."""

import base64
import html
import re
import time

import browser
import consumers
import harness
import nasty

PAGE = consumers.FOLDER / "node_modules" / "speedscope" / "dist" / "release" / "index.html"
PROFILES = {"bytes live at the peak": "peak_bytes", "blocks live at the peak": "peak_blocks",
            "bytes live at the end": "leaked_bytes", "blocks live at the end": "leaked_blocks",
            "bytes allocated": "allocated_bytes", "allocations": "allocations", "temporary allocations": "temporary",
            "bytes of temporary allocations": "temporary_bytes"}


def in_units(size):
    """Bytes as speedscope prints them."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024


class Speedscope(consumers.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = browser.Browser(harness.shared_folder(), height=2000)
        cls.addClassCleanup(cls.browser.close)

    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        """The export accepts the selections that report accepts."""
        self.each_selection(self.check, of_mappings=True)

    def check(self, name, trace):
        file = consumers.load(self.export("speedscope", trace))
        totals = self.totals(trace)
        for profile in file["profiles"]:
            if "--live-at" in self.options:  # the time replaces the peak
                self.assertNotIn("the peak", profile["name"])
                profile["name"] = re.sub(r"live at \d.*", "live at the peak", profile["name"])
        self.assertEqual(file["profiles"][0]["name"], "bytes live at the peak")
        for profile in file["profiles"]:
            self.assertEqual(sum(profile["weights"]), totals[PROFILES[profile["name"]]])
            self.assertEqual(len(profile["samples"]), len(profile["weights"]))
            self.assertEqual(profile["endValue"], sum(profile["weights"]))
        self.assertEqual({profile["name"] for profile in file["profiles"]}, set(PROFILES))

    def test_viewer(self):
        for name in ("plain", "names", "truncated", "huge", "many"):
            with self.subTest(trace=name):
                self.check_viewer(name, self.folder / f"{name}.heapprof")
        with self.subTest(trace="real"):
            self.check_viewer("real", self.real())
        with self.subTest(trace="nasty"):
            text = self.check_viewer("nasty", self.nasty())
            # One row each, largest first: as many as the window shows.
            names = [nasty.clean(name) for size, name in sorted(zip(nasty.SIZES, nasty.FUNCTIONS), reverse=True)]
            self.check_nasty_names(text, names[:25])

    def check_viewer(self, name, trace):
        path = self.export("speedscope", trace)
        script = self.dir / f"{name}.js"
        content = base64.b64encode(path.read_bytes()).decode()
        script.write_text(f"speedscope.loadFileFromBase64('{name}', '{content}')")
        # The function with the most bytes is first in the sandwich view.
        file = consumers.load(path)
        profile = file["profiles"][0]
        own = {}
        for sample, weight in zip(profile["samples"], profile["weights"]):
            own[sample[-1]] = own.get(sample[-1], 0) + weight
        top = max(own, key=own.get)
        text = self.page_of(script, "bytes live at the peak \t(1/8)", "\t" + in_units(own[top]) + " (",
                            file["shared"]["frames"][top]["name"][:40].strip())
        # The list of profiles has the total of each profile.
        totals = self.totals(trace)
        for shown, cost in PROFILES.items():
            wanted = in_units(totals[cost]) if "bytes" in shown else f"{totals[cost]:,}"
            self.assertRegex(text, rf"\t{shown}\t+{re.escape(wanted)}\t")
        return text

    def test_viewer_of_an_empty_recording(self):
        """The export of a program without allocations opens, and all profiles are empty."""
        path = self.export("speedscope", self.folder / "empty.heapprof")
        script = self.dir / "empty.js"
        script.write_text(f"speedscope.loadFileFromBase64('empty', '{base64.b64encode(path.read_bytes()).decode()}')")
        self.page_of(script, "bytes live at the peak \t(1/8)")

    def test_folded(self):
        """speedscope imports folded text; bottom-up has the same totals."""
        for name in ("plain", "names", "truncated", "huge", "many", "nasty"):
            trace = self.nasty() if name == "nasty" else self.folder / f"{name}.heapprof"
            for options in ((),) if name == "many" else ((), ("--bottom-up",)):
                with self.subTest(trace=name, options=options):
                    path = self.dir / "folded.txt"
                    path.write_text(self.heapprof("flamegraph", trace, "--format", "folded", *options))
                    lines = path.read_text().split("\n")[:-1]
                    total = self.totals(trace)["peak_bytes"]
                    self.assertEqual(sum(int(line.rpartition(" ")[2]) for line in lines), total)
                    script = self.dir / "folded.js"
                    script.write_text("speedscope.loadFileFromBase64('folded.txt', "
                                      f"'{base64.b64encode(path.read_bytes()).decode()}')")
                    own = {}
                    for line in lines:
                        stack, _, value = line.rpartition(" ")
                        last = stack.split(";")[-1]
                        own[last] = own.get(last, 0) + int(value)
                    self.page_of(script, f"\t{max(own.values()):,} (")

    def page_of(self, script, *wanted):
        """Opens the profile that `script` loads, and waits until speedscope's page contains all of `wanted`. Returns
        the page's text, with tabs for tags."""
        self.browser.open(f"file://{PAGE}#view=sandwich&localProfilePath={script}")

        deadline = time.monotonic() + 60
        while True:
            page = self.browser.evaluate("document.documentElement.outerHTML")
            text = html.unescape(re.sub(r"<[^>]*>", "\t", page))
            if all(piece in text for piece in wanted):
                return text
            if time.monotonic() > deadline:
                self.fail(f"speedscope does not show {wanted!r} within a minute: {text!r}")
            time.sleep(0.05)


if __name__ == "__main__":
    harness.skip_unless(PAGE.exists(), "speedscope is not installed (tools/consumers.sh)")
    harness.skip_unless(browser.PROGRAM, "speedscope needs chromium")
    harness.main()
