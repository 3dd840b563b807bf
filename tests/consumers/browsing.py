"""Flame graph and timeline in Chromium: keyboard, mouse, light and dark colours, and ten thousand frames."""

import html
import json
import re
import subprocess

import browser
import consumers
import harness
import nasty

# Processor time. Users notice a delay of more than a tenth of a second.
LONGEST_STEP_MS = 100


class Browsing(consumers.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = browser.Browser(harness.shared_folder())
        cls.addClassCleanup(cls.browser.close)

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])

    def show(self, *command, dark=False):
        picture = self.dir / "picture.svg"
        self.heapprof(*command, "-o", picture)
        self.picture = picture
        self.browser.open(picture.as_uri(), dark=dark)

    def text(self, selector):
        return self.browser.evaluate(f"(document.querySelector({json.dumps(selector)}) || {{}}).textContent")

    def center_of(self, label):
        """The centre of the frame with this label."""
        return self.browser.evaluate(
            "(() => { const text = [...document.querySelectorAll('.chart svg text')].find(text => "
            "text.textContent === "
            f"{json.dumps(label)}); const at = text.previousSibling.getBoundingClientRect();"
            "return [at.left + at.width / 2, at.top + at.height / 2]; })()")

    def labels(self):
        return self.browser.evaluate(
            "[...document.querySelectorAll('.chart svg text')].map(text => text.textContent)")

    def type(self, text):
        self.browser.press(*text)
        # The search starts when typing pauses.
        self.browser.evaluate("new Promise(done => setTimeout(done, 200))")

    def test_keyboard_only(self):
        trace = self.folder / "plain.heapprof"
        self.show("flamegraph", trace, "--cost", "allocated")
        total = self.totals(trace)["allocated_bytes"]
        stacks = self.all_stacks(trace, "allocated")
        wanted = sum(stack["bytes"] for stack in stacks
                     if any("libleaf" in frame["module"] for frame in stack["stack"]))
        self.browser.press("/")
        self.type("libleaf")
        self.assertTrue(self.text(".found").startswith(f"{100 * wanted / total:.1f}% "), self.text(".found"))
        self.browser.press("Enter")
        largest = self.text(".unseen")
        self.assertIn("libleaf", largest)
        self.browser.press("Escape", "Escape")
        self.assertEqual(self.browser.evaluate("document.querySelector('input').value"), "")
        # Tab reaches the frames from anywhere, arrow keys move between them, Enter zooms.
        for _ in range(20):
            if self.browser.evaluate("document.activeElement.getAttribute('role')") == "application":
                break
            self.browser.press("Tab")
        self.browser.press("Home", "ArrowDown", "ArrowDown", "Enter")
        zoomed = self.text(".crumbs [aria-current]")
        self.assertEqual(self.text(".unseen").split(",")[0], zoomed)
        self.assertFalse(self.browser.evaluate("document.querySelector('.bar > button').disabled"))
        self.assertEqual(self.browser.evaluate("getComputedStyle(document.querySelector('.ring')).opacity"), "1")
        self.browser.press("Escape")
        self.assertNotEqual(self.text(".crumbs [aria-current]"), zoomed)
        self.browser.press("Home")
        self.assertTrue(self.browser.evaluate("document.querySelector('.bar > button').disabled"))
        top = self.center_of(zoomed)[1]
        self.browser.press("f")
        self.assertGreater(self.center_of(zoomed)[1], top)

    def test_mouse(self):
        trace = self.folder / "plain.heapprof"
        self.show("flamegraph", trace, "--cost", "allocated")
        everything = self.labels()
        self.browser.move(*self.center_of("demo+0x200"))
        self.assertIn("of total", self.text(".tip"))
        self.browser.click(*self.center_of("demo+0x200"))
        self.assertLess(len(self.labels()), len(everything))
        self.assertEqual(self.text(".crumbs [aria-current]"), "demo+0x200")
        x, y = self.browser.evaluate("(() => { const at = document.querySelector('.bar > "
                                     "button').getBoundingClientRect();"
                                     "return [at.left + 5, at.top + 5]; })()")
        self.browser.click(x, y)
        self.assertEqual(self.labels(), everything)

    def test_bottom_up(self):
        self.show("flamegraph", self.nasty(), "--bottom-up", "--cost", "allocated", "--function", "run_")
        own = {}
        for stack in self.all_stacks(self.nasty(), "allocated", "--function", "run_[0-9]$"):
            own[stack["stack"][0]["function"]] = own.get(stack["stack"][0]["function"], 0) + stack["bytes"]
        first_row = self.browser.evaluate(
            "(() => { const texts = [...document.querySelectorAll('.chart svg text')]; const y = "
            "texts[1].getAttribute('y');"
            "return texts.filter(text => text.getAttribute('y') === y).map(text => text.textContent); })()")
        self.assertEqual(len(first_row), len(nasty.FUNCTIONS))
        self.assertLessEqual({function for function in own if len(function) < 6}, set(first_row))

    def test_comparison(self):
        """Growth is red, shrinkage is blue, no change is grey."""
        large, small = sorted((self.folder / "plain.heapprof", self.nasty()), reverse=True,
                              key=lambda trace: self.totals(trace)["allocated_bytes"])
        for before, after, hue in ((large, small, "blue"), (small, large, "red"), (large, large, "grey")):
            self.show("diff", before, after, "--cost", "allocated", "--format", "svg")
            red, green, blue = map(int, re.findall(r"\d+", self.browser.evaluate(
                "getComputedStyle(document.querySelector('.chart svg rect')).fill"))[:3])
            seen = "grey" if abs(red - blue) < 25 else "red" if red > blue else "blue"
            self.assertEqual(seen, hue, (red, green, blue))

    def test_every_label_can_be_read(self):
        """Each label has WCAG's contrast of 4.5 on its frame, in light and dark colours, highlighted or not."""
        contrast = """(() => {
          const luminance = color => { const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(
            c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
          return Math.min(...[...document.querySelectorAll('.chart svg text')].map(text => {
            const [a, b] = [getComputedStyle(text).fill, getComputedStyle(text.previousSibling).fill].map(luminance);
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); })); })()"""
        for dark in (False, True):
            with self.subTest(dark=dark):
                self.show("flamegraph", self.real(), "--cost", "allocated", dark=dark)
                self.assertGreaterEqual(self.browser.evaluate(contrast), 4.5)
                page = self.browser.evaluate("getComputedStyle(document.querySelector('.hp')).backgroundColor")
                self.assertEqual(max(map(int, re.findall(r"\d+", page)[:3])) < 100, dark, page)
                self.browser.press("/")
                self.type("main")
                self.assertGreaterEqual(self.browser.evaluate(
                    contrast.replace("'.chart svg text'", "'.chart svg rect.lit + text'")), 4.5)

    def test_no_stutter(self):
        """10,000 frames, most of them drawn; and 77,000, of which the file contains 50,000."""
        subprocess.run([harness.BUILD / "tests" / "unit" / "render" / "render_samples", self.dir], check=True,
                       timeout=60)
        self.heapprof("flamegraph", self.folder / "many.heapprof", "--cost", "allocated", "-o", self.dir / "many.svg")
        for name in ("large", "many"):
            with self.subTest(picture=name):
                self.browser.open((self.dir / f"{name}.svg").as_uri())
                self.check_steps(name)

    def check_steps(self, name):
        self.browser.evaluate("window.press = key => document.querySelector('.chart svg').dispatchEvent("
                              "new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true})); 0")
        steps = {"zoom in": "press('Home'); press('ArrowDown'); press('ArrowDown'); press('Enter')",
                 "zoom out": "press('Home')",
                 "turn": "press('f')",
                 "search": "document.querySelector('input').value = 'n'; document.querySelector('.search "
                           "button').click()"}
        taken = {step: min(self.browser.cost_ms(what) for _ in range(3)) for step, what in steps.items()}
        print(f"{name}: " + ", ".join(f"{step} {ms:.0f} ms" for step, ms in taken.items()))
        self.assertLess(max(taken.values()), LONGEST_STEP_MS, taken)

    def test_timeline(self):
        trace = self.folder / "plain.heapprof"
        data = json.loads(self.heapprof("timeline", trace, "--format", "json"))
        for dark in (False, True):
            self.show("timeline", trace, "--format", "svg", dark=dark)
            at_peak = self.text(".when")
            self.assertTrue(at_peak.startswith("At the peak"), at_peak)
            left, top, width, height = self.browser.evaluate(
                "(() => { const at = document.querySelector('#field').getBoundingClientRect();"
                "return [at.left, at.top, at.width, at.height]; })()")
            self.browser.move(left + width / 2, top + height / 2)
            self.assertRegex(self.text(".when"), "^At 4[78](.\\d)? ms")
            self.assertIn("live at", self.text(".bubble"))
            # The legend shows the live bytes at that time, and their total.
            moment = max(i for i, time in enumerate(data["samples"]["time_ns"]) if time <= 48_000_000)
            self.assertIn(f"{data['samples']['live_bytes'][moment] / 1024:.1f} KiB", self.text(".bubble"))
            self.browser.move(left + width / 2, 2)
            self.assertEqual(self.text(".when"), at_peak)
            # By keyboard: Tab to the field, then steps.
            self.browser.press("Tab", "ArrowRight")
            self.assertNotEqual(self.text(".when"), at_peak)
            self.browser.press("End")
            self.assertEqual(self.text(".when"), f"At {data['samples']['time_ns'][-1] / 1e6:.1f} ms")
            self.browser.press("Escape")
            self.assertEqual(self.text(".when"), at_peak)

    def test_every_sample_opens(self):
        """Flame graph, also bottom-up, comparison and timeline of each trace: no error, and the total is shown."""
        self.each_sample(self.check_sample)

    def check_sample(self, name, trace):
        total = self.totals(trace)["peak_bytes"]
        for command in (("flamegraph", trace), ("flamegraph", trace, "--bottom-up"),
                        ("diff", self.folder / "plain.heapprof", trace, "--format", "svg"),
                        ("timeline", trace, "--format", "svg")):
            self.show(*command)
            self.assertEqual(self.browser.errors, [], command)
            if command[0] == "flamegraph" and total:
                self.assertEqual(self.labels()[0], "all: " + self.text(".sum b"))
                self.assertEqual(self.browser.evaluate(
                    "JSON.parse(document.querySelector('script[type=\"application/json\"]').textContent).total"),
                                 total)
                self.assertGreater(len(self.labels()), 1)
            elif command[0] == "flamegraph":
                self.assertIn("Nothing to show", self.text(".empty"))
            elif command[0] == "timeline":
                self.assertEqual(self.browser.evaluate("document.querySelectorAll('.peaklabel').length"),
                                 1 if total else 0)

    def test_nothing_found(self):
        self.show("flamegraph", self.folder / "plain.heapprof")
        self.browser.press("/")
        self.type("no such function")
        self.assertEqual(self.text(".found"), "no match")

    def test_nasty_names(self):
        """The frames' descriptions show the names unchanged, and no name is executed as a script."""
        trace = self.nasty()
        self.show("flamegraph", trace, "--cost", "leaked")
        for name in nasty.clean_functions():
            self.browser.press("/")
            self.browser.evaluate(f"document.querySelector('input').value = {json.dumps(name)};"
                                  "document.querySelector('input').dispatchEvent(new Event('input', "
                                  "{bubbles: true})); 0")
            self.browser.evaluate("new Promise(done => setTimeout(done, 150))")
            for _ in range(len(nasty.FUNCTIONS)):  # other names may contain the same text
                self.browser.press("Enter")
                if self.text(".tip strong").startswith(name[:400]):
                    break
            else:
                self.fail(f"{name[:100]!r} is not shown")
        self.show("timeline", trace, "--format", "svg")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.row').length"), 12)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('script').length"), 2)

    def test_without_script(self):
        """Without scripts (in an <img>, on a code host), the picture contains figures and names as text."""
        trace = self.folder / "plain.heapprof"
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            self.show("flamegraph", trace, "--cost", "allocated")
        finally:
            self.browser.call("Emulation.setScriptExecutionDisabled", value=False)
        drawn = self.picture.read_text().partition('id="drawing"')[2]
        self.assertIn("demo+0x200", html.unescape(drawn))


if __name__ == "__main__":
    harness.skip_unless(browser.PROGRAM, "chromium is not installed")
    harness.main()
