"""Figures of call sites with 32,768 stacks each, which are sums over all of them, compared with those of the program."""

import csv
import io
import json

import harness


class ManyStacks(harness.Case):
    def setUp(self):
        super().setUp()
        run = self.record_once(harness.program("many_stacks"))
        self.trace = run.trace
        self.truth = json.loads(run.stdout)

    def json(self, *command):
        return json.loads(self.heapprof(*command, "--json"))

    def sites(self, *command):
        """{function: row}."""
        return {harness.plain_name(row["site"]["function"]): row for row in self.json(*command)["sites"]}

    def test_timeline(self):
        sites = {site["label"]: site for site in self.json("timeline", self.trace, "--sites", "100")["sites"]}
        for name in ("keep", "hand_over", "sometimes"):
            self.assertEqual(sites[name]["peak_bytes"], self.truth[name], name)
        self.assertEqual(sites["keep"]["bytes"][-1], self.truth["keep"])
        self.assertEqual(sites["sometimes"]["bytes"][-1], self.truth["sometimes"])
        self.assertEqual(sites["hand_over"]["bytes"][-1], 0)
        # Its blocks are freed at once, so it holds none at the peak.
        self.assertEqual(sites["discard"]["peak_bytes"], 0)
        rows = list(csv.DictReader(io.StringIO(self.heapprof("timeline", self.trace, "--sites", "100", "--format", "csv"))))
        self.assertNotIn("discard", rows[0])

    def test_formats_of_the_timeline(self):
        rows = list(csv.DictReader(io.StringIO(self.heapprof("timeline", self.trace, "--format", "csv"))))
        self.assertEqual(int(rows[-1]["keep"]), self.truth["keep"])
        metrics = self.heapprof("timeline", self.trace, "--format", "openmetrics")
        values = [int(line.split("}")[1].split()[0]) for line in metrics.splitlines()
                  if line.startswith("heapprof_site_live_bytes{") and 'function="keep"' in line]
        self.assertEqual(values[-1], self.truth["keep"])

    def test_timeline_of_a_slice(self):
        """Blocks that are freed in the slice count until then, though their stacks allocate nothing in it."""
        peak = self.json("timeline", self.trace, "--sites", "0")["peak"]
        timeline = self.json("timeline", self.trace, "--sites", "100", "--from", f"{peak['time_ns']}ns")
        site = next(site for site in timeline["sites"] if site["label"] == "hand_over")
        self.assertEqual(site["peak_bytes"], self.truth["hand_over"])
        self.assertEqual(site["bytes"][-1], 0)

    def test_churn(self):
        sites = self.sites("churn", self.trace, "--top", "0")
        stacks = self.truth["stacks"]
        self.assertEqual((sites["discard"]["allocations"], sites["discard"]["temporary"]), (stacks, stacks))
        # Also of the stacks from which no block is freed.
        self.assertEqual(sites["sometimes"]["allocations"], stacks)
        self.assertEqual(sites["sometimes"]["temporary"], stacks - self.truth["sometimes_blocks"])

    def test_reallocs(self):
        grow = self.sites("reallocs", self.trace)["grow"]
        self.assertEqual((grow["steps"], grow["chains"]), (self.truth["stacks"], self.truth["stacks"]))

    def test_threads(self):
        handed_over = self.sites("threads", self.trace)["hand_over"]
        self.assertEqual((handed_over["blocks"], handed_over["bytes"]),
                         (self.truth["stacks"], self.truth["hand_over"]))


if __name__ == "__main__":
    harness.main()
