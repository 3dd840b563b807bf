"""The timeline: every point of the picture is a row of the table, and live bytes do not change while the program is
idle."""

import csv
import io
import json
import re
import xml.etree.ElementTree as xml

import harness

SVG = "{http://www.w3.org/2000/svg}"
PIXEL = 0.06  # coordinates have one decimal


def points_of(path):
    """[[(x, y), ...], ...]: a list for each connected part of a path."""
    parts = []
    for move in re.findall(r"M([^M]*)", path):
        numbers = re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"h0|Z", "", move))
        parts.append([(float(x), float(y)) for x, y in zip(numbers[::2], numbers[1::2])])
    return parts


class Timeline(harness.Case):
    def setUp(self):
        super().setUp()
        run = self.record_once(harness.program("idle_times"))
        self.trace = run.trace
        self.truth = json.loads(run.stdout)

    def timeline(self, *options):
        return self.call_once(self.heapprof, "timeline", self.trace, *options)

    def json(self, *options):
        return json.loads(self.timeline("--json", *options))

    def idle_times(self, timeline):
        """[(before, begin, end, after), ...]: the last event before an idle time is between `before` and `begin`, the
        first one afterwards between `end` and `after`. How long these take depends on the scheduler."""
        marks = {mark["text"]: mark["time_ns"] for mark in timeline["marks"]}
        count = len(self.truth["live"])
        return [(marks[f"freeing {i}"], marks[f"idle {i}"], marks[f"busy {i}"],
                 marks.get(f"freeing {i + 1}", timeline["samples"]["time_ns"][-1])) for i in range(count)]

    def test_idle_times_have_no_events(self):
        timeline = self.json("--function", "hold")
        samples = timeline["samples"]
        moments = list(zip(samples["time_ns"], samples["live_bytes"], samples["highest_bytes"]))
        width = moments[1][0] - moments[0][0]
        idle = self.idle_times(timeline)
        self.assertEqual(timeline["peak"]["bytes"], self.truth["peak"])
        for (before, begin, end, after), live in zip(idle, self.truth["live"]):
            # A bucket has the value at its end; the first one may contain the end of the busy time before.
            inside = [moment for moment in moments if begin + width < moment[0] <= end]
            self.assertTrue(inside)
            self.assertEqual({bytes_ for _, bytes_, _ in inside}, {live})
            gaps = [(gap["from_ns"], gap["to_ns"]) for gap in timeline["idle"]
                    if gap["from_ns"] < end and gap["to_ns"] > begin]
            self.assertEqual(len(gaps), 1, (begin, end, timeline["idle"]))
            self.assertLess(before - 2 * width, gaps[0][0])
            self.assertLess(gaps[0][0], begin + 2 * width)
            self.assertLess(end - 2 * width, gaps[0][1])
            self.assertLess(gaps[0][1], after + 2 * width)
        # Live bytes do not change during a gap.
        for gap in timeline["idle"]:
            inside = [moment for moment in moments if gap["from_ns"] < moment[0] <= gap["to_ns"]]
            self.assertEqual(len({value for _, *values in inside for value in values}), 1, gap)

    def test_every_point_of_the_picture_is_in_the_table(self):
        rows = list(csv.DictReader(io.StringIO(self.timeline("--format", "csv"))))
        timeline = self.json()
        root = xml.fromstring(self.timeline("--format", "svg"))
        data = json.loads(next(s.text for s in root.iter(SVG + "script") if s.get("type") == "application/json"))
        peak = (timeline["peak"]["time_ns"], timeline["peak"]["bytes"])
        live = {(int(row["time_ns"]), int(row["live_bytes"])) for row in rows} | {peak}
        highest = {(int(row["time_ns"]), int(row["highest_bytes"])) for row in rows} | {peak}
        resident = {(int(row["time_ns"]), int(row["rss_bytes"])) for row in rows if row["rss_bytes"]}

        self.assertLessEqual(set(zip(data["time"], data["live"])), live)
        self.assertLessEqual(set(zip(data["rssTime"], data["rss"])), resident)

        def pixels(time, value):
            share = (time - data["from"]) / (data["to"] - data["from"])
            return (data["left"] + (data["right"] - data["left"]) * share,
                    data["lower"] - (data["lower"] - data["upper"]) * value / data["top"])

        def check(points, truth, what):
            drawn = [pixels(time, value) for time, value in truth]
            for x, y in points:
                self.assertTrue(any(abs(x - at) < PIXEL and abs(y - height) < PIXEL for at, height in drawn),
                                f"{what}: nothing in the table is at {x}, {y}")

        paths = {}
        for path in root.iter(SVG + "path"):
            paths.setdefault(path.get("class"), points_of(path.get("d")))  # those of the legend are last
        (total,) = paths["total"]
        check(total, highest, "line")
        # The upper edge of the uppermost area is the live bytes.
        (other,) = paths["other"]
        check(other[:len(other) // 2], live, "area")
        check([point for part in paths["resident"] for point in part], resident, "resident memory")

    def test_idle_times_do_not_cover_the_chart(self):
        """Idle times are marked without covering the chart."""
        root = xml.fromstring(self.timeline("--format", "svg"))
        data = json.loads(next(s.text for s in root.iter(SVG + "script") if s.get("type") == "application/json"))
        marked = [rect for rect in root.iter(SVG + "rect")
                  if rect.get("class") == "idle" and float(rect.get("x")) < data["right"]]
        for _, begin, end, _ in self.idle_times(self.json()):
            middle = (begin + end) / 2
            x = data["left"] + (data["right"] - data["left"]) * (middle - data["from"]) / (data["to"] - data["from"])
            self.assertTrue(any(float(rect.get("x")) <= x <= float(rect.get("x")) + float(rect.get("width"))
                                for rect in marked), x)
        for rect in marked:
            self.assertGreaterEqual(float(rect.get("y")), data["lower"])
            self.assertLessEqual(float(rect.get("height")), 6)
        words = [text.text for text in root.iter(SVG + "text")]
        self.assertEqual([text for text in words if text and "no events" in text],
                         ["idle (no events)"])

    def test_resident_memory_is_not_drawn_where_it_is_unknown(self):
        """No line crosses an idle time. (On the terminal: tests/unit/render.)"""
        root = xml.fromstring(self.timeline("--format", "svg"))
        data = json.loads(next(s.text for s in root.iter(SVG + "script") if s.get("type") == "application/json"))
        ns_per_pixel = (data["to"] - data["from"]) / (data["right"] - data["left"])
        path = next(path for path in root.iter(SVG + "path") if path.get("class") == "resident")
        for part in points_of(path.get("d")):
            for (x, _), (later, _) in zip(part, part[1:]):
                self.assertLess((later - x) * ns_per_pixel, 150_000_000)


if __name__ == "__main__":
    harness.main()
