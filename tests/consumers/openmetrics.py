"""promtool loads the timeline into a Prometheus database, prometheus_client parses it, and prometheus scrapes a
running program: the values equal the report's."""

import json
import re
import shutil
import subprocess
import sys

import consumers
import harness
import nasty
import prometheus

sys.path.insert(0, str(consumers.FOLDER / "python"))
try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None


PROMTOOL = consumers.debian_file("usr/bin/promtool") or shutil.which("promtool")
PROMETHEUS = consumers.debian_file("usr/bin/prometheus") or shutil.which("prometheus")
METRICS = (("heapprof_live_bytes", "leaked_bytes"), ("heapprof_live_blocks", "leaked_blocks"),
           ("heapprof_peak_bytes", "peak_bytes"), ("heapprof_allocations_total", "allocations"),
           ("heapprof_allocated_bytes_total", "allocated_bytes"))


@harness.unittest.skipUnless(PROMTOOL, "promtool: not fetched (tools/consumers.sh)")
class Promtool(consumers.Case):
    def test_totals(self):
        self.each_sample(self.check)

    def check(self, name, trace):
        file = self.dir / "run.om"
        self.heapprof("timeline", trace, "--format", "openmetrics", "-o", file)
        database = self.dir / f"{name}.tsdb"
        self.run_consumer(PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", "-q", file, database)
        (database / "wal").mkdir()  # which `promtool tsdb dump` requires
        last, moments = {}, {}
        for line in self.run_consumer(PROMTOOL, "tsdb", "dump", database,
                                      environment={"HOME": self.dir}).splitlines():
            metric, value, time = re.fullmatch(r'\{__name__="(\w+)".*\} (\S+) (\d+)', line).groups()
            if "site=" not in line:
                last[metric] = float(value)
                moments.setdefault(metric, []).append(int(time))
        totals = self.totals(trace)
        if totals["allocations"]:
            self.assertEqual({metric: last[metric] for metric, _ in METRICS},
                             {metric: totals[cost] for metric, cost in METRICS})
        for times in moments.values():
            self.assertEqual(times, sorted(set(times)))
        if name == "plain":
            # The recording lasts 96 ms, and Prometheus counts milliseconds: at most one sample in each.
            self.assertGreater(len(moments["heapprof_live_bytes"]), 40)


@harness.unittest.skipUnless(text_string_to_metric_families,
                             "prometheus_client is not installed (tools/consumers.sh)")
class Parser(consumers.Case):
    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        """The timeline accepts the selections that report accepts."""
        self.each_selection(self.check, of_mappings=True)

    def check(self, name, trace):
        command = ("timeline", trace, "--format", "openmetrics", *self.options)
        text = self.heapprof(*command)
        self.assertEqual(text, self.heapprof(*command), "two outputs differ")
        series = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                series.setdefault((sample.name, sample.labels.get("site")), []).append(sample)
        totals = self.totals(trace)
        for metric, cost in METRICS:
            # In a time slice, older blocks are live too.
            older = "--from" in self.options and "_live_" in metric
            if totals["allocations"]:
                (self.assertGreaterEqual if older else self.assertEqual)(series[metric, None][-1].value, totals[cost],
                                                                         metric)
        self.assertEqual(totals["peak_bytes"], series["heapprof_peak_bytes", None][-1].value)
        if name == "plain":
            sites = sum(samples[-1].value for (metric, site), samples in series.items() if site)
            self.assertEqual(sites, series["heapprof_live_bytes", None][-1].value)
        if name == "plain" and not self.options:
            self.assertEqual(series["heapprof_resident_bytes", None][0].value, 8 << 20)
            self.assertEqual(series["heapprof_mapped_bytes", None][-1].value, 320 << 10)
        if name == "nasty":
            labels = [samples[0].labels for (metric, site), samples in series.items() if site]
            self.assertEqual(len(labels), 10)
            self.assertEqual({label["module"] for label in labels}, {nasty.clean_program()})
            # The sites with the most bytes; without the text in brackets.
            largest = [nasty.clean(name) for name in nasty.FUNCTIONS[-10:] if not set(b"(<") & set(name)]
            self.check_nasty_names({label["function"] for label in labels}, largest)


@harness.unittest.skipUnless(PROMETHEUS, "prometheus: not fetched (tools/consumers.sh)")
class Server(consumers.Case):
    def test_scrapes_a_running_program(self):
        trace = self.dir / "run.heapprof"
        process = self.popen([harness.program("commanded")], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env=harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace))

        def command(words):
            process.stdin.write(words)
            process.stdin.flush()
            self.assertEqual(process.stdout.read(len(words)), "." * len(words))
        command("aabf")
        served = self.popen([harness.HEAPPROF, "serve", trace, "--no-open"], text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=harness.analyzer_environment())
        with prometheus.Prometheus(PROMETHEUS, self.dir, served.stdout.readline().strip()) as scraper:
            self.check_scraped(scraper, trace, 19)
            metadata = harness.wait_until(lambda: scraper.ask("metadata"), "prometheus has no metadata")
            self.assertEqual({entry["type"] for name, entries in metadata.items() for entry in entries
                              if name.startswith("heapprof_live_")}, {"gauge"})
            before = self.heap(trace)["leaked_bytes"]
            command("a")
            self.check_scraped(scraper, trace, 29)
            samples = scraper.samples("heapprof_live_bytes")
            self.assertEqual(samples, sorted(samples))
            self.assertEqual((samples[0], samples[-1]), (before, before + 10_000))

    def heap(self, trace):
        return json.loads(self.heapprof("report", trace, "--json"))["heap"]

    def check_scraped(self, scraper, trace, blocks):
        """Waits for the figures of the report, and of the program itself: blocks of 1000 bytes in grow_first()."""
        heap = self.heap(trace)
        # /metrics has no peak.
        expected = {metric: [heap[key]] for metric, key in METRICS if metric != "heapprof_peak_bytes"}
        expected['heapprof_site_live_bytes{function="grow_first"}'] = [1000 * blocks]
        expected['heapprof_site_live_bytes{function="grow_second"}'] = [1000]
        expected["up"] = [1]
        try:
            harness.wait_until(lambda: {query: scraper.values(query) for query in expected} == expected,
                               "prometheus does not have the figures of the report")
        except AssertionError as error:
            values = {query: scraper.values(query) for query in expected}
            raise AssertionError(f"{error}\n{values} != {expected}\n{scraper.log()}") from None


if __name__ == "__main__":
    harness.skip_unless(PROMTOOL or PROMETHEUS or text_string_to_metric_families,
                        "none of promtool, prometheus and prometheus_client is installed (tools/consumers.sh)")
    harness.main()
