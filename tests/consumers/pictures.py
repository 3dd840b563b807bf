"""The data in the SVG of flame graph and timeline, in csv and json. The pictures are well-formed, their figures equal
the report's, and two pictures of one selection are equal byte by byte. (In a browser: browsing.py, tests/unit/render;
two pictures of a whole recording: exports.py.)"""

import csv
import io
import json
import re
import xml.etree.ElementTree as xml

import consumers
import harness
import nasty

UNITS = {"peak": "peak_bytes", "leaked": "leaked_bytes", "allocated": "allocated_bytes", "allocations": "allocations",
         "temporary": "temporary"}


class Pictures(consumers.Case):
    def output_of(self, command, trace, *options):
        """Runs the command and returns its output. exports.py checks that two outputs of a whole recording are equal;
        those of selections and of many stacks are compared here."""
        text = self.heapprof(command, trace, *options, *self.options)
        if self.options or trace.stem == "many":
            self.assertEqual(text, self.heapprof(command, trace, *options, *self.options), "two outputs differ")
        return text

    def data_of(self, svg):
        xml.fromstring(svg)
        return json.loads(re.search(r'<script type="application/json">(.*?)</script>', svg, re.DOTALL).group(1))

    def test_flame_graph(self):
        self.each_sample(self.check_flame_graph)
        self.each_selection(self.check_flame_graph, of_mappings=True)

    def check_flame_graph(self, name, trace):
        totals = self.totals(trace)
        for cost in ("leaked",) if name == "many" or self.options else UNITS:
            data = self.data_of(self.output_of("flamegraph", trace, "--cost", cost))
            self.assertEqual(data["total"], totals[UNITS[cost]], cost)
            if name == "nasty" and cost == "leaked":
                self.check_nasty_names({function[0] for function in data["functions"]})
                self.check_nasty_names({file.rpartition("/")[2] for file in data["files"]}, nasty.clean_files())
        bottom_up = self.data_of(self.output_of("flamegraph", trace, "--bottom-up", "--cost", "leaked"))
        self.assertEqual(bottom_up["total"], totals["leaked_bytes"])

    def test_timeline(self):
        self.each_sample(self.check_timeline)
        self.each_selection(self.check_timeline, of_mappings=True)

    def check_timeline(self, name, trace):
        data = json.loads(self.output_of("timeline", trace, "--format", "json"))
        rows = list(csv.DictReader(io.StringIO(self.output_of("timeline", trace, "--format", "csv"))))
        picture = self.data_of(self.output_of("timeline", trace, "--format", "svg"))
        totals = self.totals(trace)
        self.assertEqual(data["peak"]["bytes"], totals["peak_bytes"])
        if name == "plain":
            self.assertEqual(sum(site["peak_bytes"] for site in data["sites"]), totals["peak_bytes"])
        if name == "nasty":
            # The ten largest sites are named, also in the header of the csv.
            self.check_nasty_names({site["module"] for site in data["sites"]}, [nasty.clean_program()])
            self.assertLessEqual({site["label"] for site in data["sites"]}, set(rows[0]))
        if totals["allocations"] and "--from" not in self.options:
            # In a time slice, older blocks are live too.
            self.assertEqual(data["samples"]["live_bytes"][-1], totals["leaked_bytes"])
            if name == "plain":
                self.assertEqual(sum(site["bytes"][-1] for site in data["sites"]), totals["leaked_bytes"])
            self.assertEqual(int(rows[-1]["live_bytes"]), totals["leaked_bytes"])
            self.assertEqual(picture["live"][-1], totals["leaked_bytes"])
        self.assertEqual((picture["from"], picture["to"]), (data["start_ns"], max(data["duration_ns"], 1)))

    def test_unresolved_call_sites(self):
        """The legend has no duplicates: for an unresolved call site it shows the nearest caller with a name."""
        (self.dir / "nameless.c").write_text("""
            #include <stdlib.h>
            void* volatile kept;
            __attribute__((noipa)) static void secret(void) { kept = malloc(1000); }
            __attribute__((noipa)) static void hidden(void) { secret(); kept = 0; }
            __attribute__((noipa)) static void known(void) { hidden(); kept = 0; }
            int main(void) { known(); return 0; }
            """)
        self.run_consumer("cc", "-O1", "-fno-builtin", "nameless.c", "-o", "nameless")
        self.run_consumer("strip", "-N", "secret", "-N", "hidden", "nameless")
        trace = self.record(self.dir / "nameless").trace
        options = ("--function", "^known$")
        (site,) = json.loads(self.heapprof("timeline", trace, "--json", *options))["sites"]
        self.assertRegex(site["label"], r"^nameless\+0x[0-9a-f]+$")
        self.assertEqual((site["detail"], site["module"], site["peak_bytes"]),
                         ("called from known", "nameless", 1000))
        # Without such a caller, only the label is shown.
        for trace, options, details in ((trace, options, ["called from known"]),
                                        (self.folder / "plain.heapprof", (), [])):
            picture = xml.fromstring(self.heapprof("timeline", trace, "--format", "svg", *options))
            texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")
                     if text.get("class") in ("name", "detail")]
            self.assertEqual(len(texts), len(set(texts)), texts)
            self.assertEqual([text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")
                              if text.get("class") == "detail"], details)

    def test_a_slice_fills_the_picture(self):
        trace = self.folder / "plain.heapprof"
        self.options = ("--from", "0.02", "--to", "0.05")
        for form in ("json", "svg"):
            data = self.output_of("timeline", trace, "--format", form)
            if form == "json":
                data = json.loads(data)
                self.assertEqual((data["start_ns"], data["duration_ns"]), (20_000_000, 50_000_000))
                times = data["samples"]["time_ns"]
                self.assertFalse([gap for gap in data["idle"] if gap["from_ns"] < 20_000_000])
            else:
                self.assertEqual(re.findall(r'text-anchor="middle">(\d+) ms<', data),
                                 [str(ms) for ms in range(20, 51, 5)])
                times = self.data_of(data)["time"]
            self.assertGreaterEqual(min(times), 20_000_000)
            self.assertLessEqual(max(times), 50_000_000)


if __name__ == "__main__":
    harness.main()
