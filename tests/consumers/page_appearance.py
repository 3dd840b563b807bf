"""The page in narrow and wide windows, in light and dark colours, and on paper."""

import base64
import re

import pages

# ratioOf(text, rect): the contrast of a label with its rectangle, which may be translucent.
CONTRAST = """const parts = colour => colour.match(/[\\d.]+/g).map(Number).slice(0, 3);
const luminance = colour => colour.map(part => part / 255).map(part => part <= .03928 ? part / 12.92 :
  ((part + .055) / 1.055) ** 2.4).reduce((sum, part, i) => sum + part * [.2126, .7152, .0722][i], 0);
const ratio = (one, other) => (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
const page = parts(getComputedStyle(document.body).backgroundColor);
const ratioOf = (text, rect) => {
  const {fill, fillOpacity, opacity} = getComputedStyle(rect);
  const shown = parts(fill).map((part, i) => part * fillOpacity * opacity + page[i] * (1 - fillOpacity * opacity));
  return ratio(luminance(shown), luminance(parts(getComputedStyle(text).fill))); };"""

# The contrast of the labels of the heat map with their cells, for each grade of bytes.
HEAT_CONTRAST = f"""(() => {{ {CONTRAST}
const cell = document.querySelector('.heat rect'), text = cell.nextElementSibling;
return [0, 1, 2, 3, 4, 5, 6, 7, 8].map(grade => {{
  cell.setAttribute('class', `heat${{grade}}`);
  text.setAttribute('class', `heat-label heat${{grade}}`);
  return ratioOf(text, cell); }}); }})()"""

# The same of a frame of a graph: for each colour of its function, or of its change in a comparison, also if a search
# has found it, and if it is a caller of the zoomed frame.
FRAME_CONTRAST = f"""(() => {{ {CONTRAST}
const text = document.querySelector('.flame svg text.label'), frame = text.previousElementSibling;
const colours = ['own', 'third_party', 'standard', 'runtime', 'unknown', 'merged'].map(origin => `o-${{origin}}`);
for (let grade = 0; grade < 9; ++grade) colours.push(`g${{grade}}`);
return colours.flatMap(colour => ['', ' lit', ' above', ' lit above'].map(state => {{
  frame.setAttribute('class', colour + state);
  return [colour + state, ratioOf(text, frame)]; }})); }})()"""

# The contrast of a text that grew or shrank with the background of a selected row.
CHANGE_CONTRAST = f"""(() => {{ {CONTRAST}
const row = document.querySelector('#view tbody tr[data-index]');
row.className = 'selected';
return ['grew', 'shrank', 'muted'].map(name => {{
  const text = row.cells[0].appendChild(document.createElement('span'));
  text.className = name;
  return ratio(...[getComputedStyle(row).backgroundColor, getComputedStyle(text).color].map(parts).map(luminance));
}}); }})()"""


class Appearance(pages.PageCase):
    def test_every_sample_opens(self):
        """Views of traces that are not ordinary show figures or say why they are empty, in light and dark colours."""
        # These traces have neither snapshots nor samples of resident memory.
        of_heap = [view for view in pages.VIEWS if view != "resident"]
        first = pages.VIEWS[:3]
        for name, dark, views in (("empty", False, of_heap), ("truncated", True, of_heap), ("names", False, first),
                                  ("huge", True, first)):
            self.open(self.folder / f"{name}.heapprof", dark=dark)
            for view in views:
                with self.subTest(trace=name, view=view):
                    self.select(view=view)
                    self.assertNotIn("error", self.browser.evaluate("document.querySelector('#view').innerHTML"))
                    self.assertTrue(self.texts("#view tbody tr[data-index], #view .empty, #view .distribution"))

    def test_widths(self):
        """No view is wider than the window, and names keep their place beside the figures."""
        self.addCleanup(self.browser.call, "Emulation.setDeviceMetricsOverride", **self.browser.size)
        for width in (390, 900, 600):
            self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                              mobile=False)
            if width == 390:
                self.open(self.folder / "plain.heapprof")
            for view in ("summary", "flame", "table", "blocks", "lifetimes"):
                with self.subTest(width=width, view=view):
                    self.select(view=view)
                    self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
                    names = self.browser.evaluate(
                        "[...document.querySelectorAll('#view tr[data-index] th')].map(name => name.clientWidth)")
                    self.assertGreaterEqual(min(names, default=150), 150)
                    cut = self.browser.evaluate(
                        "[...document.querySelectorAll('#view thead th')].filter(head => "
                        "head.scrollWidth > head.clientWidth).map(head => head.textContent)")
                    self.assertEqual(cut, [])
        for width in (360, 1000, 1400, 2560):
            self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                              mobile=False)
            self.browser.settle()
            # A label that is outside the picture, or a picture wider than its place, is cut.
            cut = self.browser.evaluate(
                "(() => { const place = document.querySelector('.chart-host').getBoundingClientRect();"
                "const area = document.querySelector('.heat').getBoundingClientRect();"
                "const isIn = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1 && "
                "inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;"
                "return [area, ...[...document.querySelectorAll('.heat text')].map(text => "
                "text.getBoundingClientRect())].filter((part, i) => !isIn(part, i ? area : place)).length; })()")
            self.assertEqual(cut, 0, f"heat map at {width}")

    def test_narrow_window(self):
        """In a window of 360 pixels, the line about the recording, the timeline's legend, the form of a filter, and
        long words in messages and details can be read without scrolling sideways."""
        self.addCleanup(self.browser.call, "Emulation.setDeviceMetricsOverride", **self.browser.size)
        self.browser.call("Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1,
                          mobile=False)
        self.open(self.real(), view="table")

        def check_wide(*selectors):
            for selector in selectors:
                with self.subTest(selector):
                    shown, needed = self.browser.evaluate(
                        f"(({{clientWidth, scrollWidth}}) => [clientWidth, scrollWidth])"
                        f"(document.querySelector('{selector}'))")
                    self.assertGreater(shown, 100)
                    self.assertLessEqual(needed, shown)
        check_wide("#about", "html")
        with self.subTest("legend"):
            hidden = self.browser.evaluate(
                "(() => { const edge = document.querySelector('.legend').getBoundingClientRect().bottom; "
                "return [...document.querySelectorAll('.legend .entry')].map(entry => "
                "entry.getBoundingClientRect().bottom > edge + 1); })()")
            self.assertGreater(len(hidden), 6)
            self.assertNotIn(True, hidden)
        self.click("#add-filter")
        with self.subTest("form of a filter"):
            right, width = self.browser.evaluate(
                "[document.querySelector('.filter-form').getBoundingClientRect().right, "
                "document.querySelector('#selection').clientWidth]")
            self.assertLessEqual(right, width - 15)  # the padding of the bar
        long = "x" * 200
        self.browser.evaluate("detailsPanel.showStack({title: 'Row', frames: null, entries: "
                              f"[['note', '{long}']]}}); 0")
        self.settled()
        self.assertEqual(self.texts("#details dd"), [long])
        check_wide("#details")
        self.select(view="table", function=f"({long}")
        self.assertIn(long, self.text("#view .error"))
        check_wide("#view-panel", "html")
        self.browser.errors.clear()  # the browser reports answers that are errors

    def test_print(self):
        """A printed summary has one page."""
        self.open(self.real(), view="summary")
        for size in ({"paperWidth": 8.27, "paperHeight": 11.69}, {"paperWidth": 8.5, "paperHeight": 11}):
            document = base64.b64decode(self.browser.call("Page.printToPDF", **size)["data"])
            self.assertEqual(len(re.findall(rb"/Type\s*/Page\b(?!s)", document)), 1)

    def test_print_of_dark_colours(self):
        """Paper is white: what is printed has the light colours, also if dark ones are chosen for the screen."""
        self.open(self.folder / "plain.heapprof", dark=True, view="summary")
        colours = "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"
        dark = [{"name": "prefers-color-scheme", "value": "dark"}]
        self.addCleanup(self.browser.call, "Emulation.setEmulatedMedia", media="", features=dark)
        for theme in ("", "dark"):
            with self.subTest(theme=theme):
                self.browser.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
                self.browser.call("Emulation.setEmulatedMedia", media="", features=dark)
                self.assertEqual(self.browser.evaluate(colours), ["rgb(228, 233, 240)", "rgb(20, 24, 30)"])
                self.browser.call("Emulation.setEmulatedMedia", media="print", features=dark)
                self.assertEqual(self.browser.evaluate(colours), ["rgb(27, 36, 48)", "rgb(255, 255, 255)"])

    def test_contrast(self):
        """The labels of the heat map, whose colours depend on the figures, can be read in each cell."""
        self.open(self.real(), view="lifetimes")
        for dark in (False, True):
            self.browser.set_dark(dark)
            ratios = self.browser.evaluate(HEAT_CONTRAST)
            self.assertEqual(len(ratios), 9)
            self.assertGreaterEqual(min(ratios), 4.5, ratios)

    def test_contrast_of_frames(self):
        """The label of a frame can be read, whatever its colour is."""
        self.open(self.real(), view="flame", metric="allocated")
        for dark in (False, True):
            self.browser.set_dark(dark)
            with self.subTest(dark=dark):
                ratios = self.browser.evaluate(FRAME_CONTRAST)
                self.assertEqual(len(ratios), 15 * 4)
                self.assertEqual([(style, ratio) for style, ratio in ratios if ratio < 4.5], [])

    def test_contrast_of_changes(self):
        """Figures that grew or shrank can be read in a selected row."""
        self.open(self.folder / "plain.heapprof", view="compare", before="20%", after="80%")
        for dark in (False, True):
            self.browser.set_dark(dark)
            with self.subTest(dark=dark):
                self.assertGreaterEqual(min(self.browser.evaluate(CHANGE_CONTRAST)), 4.5)

    def test_what_scrolls_is_opaque(self):
        """Else the browser draws all rows again for each frame, and 60 frames a second are too many."""
        self.open(self.real(), view="summary")
        seen = set()
        for dark in (False, True):
            self.browser.set_dark(dark)
            for view in pages.VIEWS:
                self.select(view=view)
                for name, colour in self.browser.evaluate(
                        "[...document.querySelectorAll('body *')].filter(element => element.clientHeight && /auto|scroll/"
                        ".test(getComputedStyle(element).overflowY)).map(element => [element.id || element.className, "
                        "getComputedStyle(element).backgroundColor])"):
                    seen.add(name)
                    self.assertRegex(colour, r"^rgb\(", (name, view))
        self.assertLessEqual({"scroller", "scrolled", "view-panel"}, seen)


if __name__ == "__main__":
    pages.main()
