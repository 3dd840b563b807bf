"""speedscope itself, in headless Chromium: its importer takes every file, and its sandwich view shows each
function's share as the report has it. The sums of all its profiles are the report's."""

import base64
import html
import re
import shutil
import subprocess

import consumers
import harness
import nasty

PAGE = consumers.FOLDER / "node_modules" / "speedscope" / "dist" / "release" / "index.html"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
PROFILES = {"bytes live at the peak": "peak_bytes", "blocks live at the peak": "peak_blocks",
            "bytes live at the end": "leaked_bytes", "blocks live at the end": "leaked_blocks",
            "bytes allocated": "allocated_bytes", "allocations": "allocations", "temporary allocations": "temporary",
            "bytes of temporary allocations": "temporary_bytes"}


def in_units(size):
    """As speedscope writes bytes."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024


class Speedscope(consumers.Case):
    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        """What report takes, the export takes."""
        self.each_selection(self.check, of_mappings=True)

    def check(self, name, trace):
        file = consumers.load(self.export("speedscope", trace))
        totals = self.totals(trace)
        for profile in file["profiles"]:
            if "--live-at" in self.options:  # the moment stands in the place of the peak
                self.assertNotIn("the peak", profile["name"])
                profile["name"] = re.sub(r"live at \d.*", "live at the peak", profile["name"])
        self.assertEqual(file["profiles"][0]["name"], "bytes live at the peak")
        for profile in file["profiles"]:
            self.assertEqual(sum(profile["weights"]), totals[PROFILES[profile["name"]]])
            self.assertEqual(len(profile["samples"]), len(profile["weights"]))
            self.assertEqual(profile["endValue"], sum(profile["weights"]))
        self.assertEqual({profile["name"] for profile in file["profiles"]}, set(PROFILES))

    def test_viewer(self):
        for name in ("plain", "names", "cut", "huge", "many"):
            with self.subTest(trace=name):
                self.check_viewer(name, self.folder / f"{name}.hprof")
        with self.subTest(trace="real"):
            self.check_viewer("real", self.real())
        with self.subTest(trace="nasty"):
            text = self.check_viewer("nasty", self.nasty())
            # A row of its own each, beginning with the highest: as many as the window shows.
            names = [nasty.clean(name) for size, name in sorted(zip(nasty.SIZES, nasty.FUNCTIONS), reverse=True)]
            self.check_nasty_names(text, names[:25])

    def check_viewer(self, name, trace):
        path = self.export("speedscope", trace)
        script = self.dir / f"{name}.js"
        content = base64.b64encode(path.read_bytes()).decode()
        script.write_text(f"speedscope.loadFileFromBase64('{name}', '{content}')")
        page = self.run_browser(f"file://{PAGE}#view=sandwich&localProfilePath={script}")
        text = html.unescape(re.sub(r"<[^>]*>", "\t", page))
        self.assertIn("bytes live at the peak \t(1/8)", text)
        # The list of profiles has each one's total.
        totals = self.totals(trace)
        for shown, cost in PROFILES.items():
            wanted = in_units(totals[cost]) if "bytes" in shown else f"{totals[cost]:,}"
            self.assertRegex(text, rf"\t{shown}\t+{re.escape(wanted)}\t")
        # The function that holds most stands first in the sandwich view.
        file = consumers.load(path)
        profile = file["profiles"][0]
        own = {}
        for sample, weight in zip(profile["samples"], profile["weights"]):
            own[sample[-1]] = own.get(sample[-1], 0) + weight
        top = max(own, key=own.get)
        self.assertIn(file["shared"]["frames"][top]["name"][:40].strip(), text)
        self.assertIn("\t" + in_units(own[top]) + " (", text)
        return text

    def test_viewer_of_nothing(self):
        """A program that allocated nothing: it opens, and says that all profiles are of nothing."""
        path = self.export("speedscope", self.folder / "empty.hprof")
        script = self.dir / "empty.js"
        script.write_text(f"speedscope.loadFileFromBase64('empty', '{base64.b64encode(path.read_bytes()).decode()}')")
        page = self.run_browser(f"file://{PAGE}#view=sandwich&localProfilePath={script}")
        text = html.unescape(re.sub(r"<[^>]*>", "\t", page))
        self.assertIn("bytes live at the peak \t(1/8)", text)

    def test_folded(self):
        """The text of flamegraph.pl and inferno, as speedscope imports it; bottom-up it comes to the same."""
        for name in ("plain", "names", "cut", "huge", "many", "nasty"):
            trace = self.nasty() if name == "nasty" else self.folder / f"{name}.hprof"
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
                    page = self.run_browser(f"file://{PAGE}#view=sandwich&localProfilePath={script}")
                    text = html.unescape(re.sub(r"<[^>]*>", "\t", page))
                    own = {}
                    for line in lines:
                        stack, _, value = line.rpartition(" ")
                        last = stack.split(";")[-1]
                        own[last] = own.get(last, 0) + int(value)
                    self.assertIn(f"\t{max(own.values()):,} (", text)

    def run_browser(self, address):
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu",
                               "--allow-file-access-from-files",
                               f"--user-data-dir={self.dir}/browser", "--virtual-time-budget=30000",
                               "--window-size=1400,2000", "--dump-dom", address],
                              capture_output=True, timeout=90, text=True, errors="replace")
        return done.stdout


if __name__ == "__main__":
    harness.skip_unless(PAGE.exists(), "speedscope is not installed (tools/consumers.sh)")
    harness.skip_unless(BROWSER, "speedscope takes chromium")
    harness.main()
