"""prometheus_client's parser of OpenMetrics takes the timeline, and its values are the report's."""

import sys

import consumers
import harness

sys.path.insert(0, str(consumers.FOLDER / "python"))
try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None


class OpenMetrics(consumers.Case):
    def test_totals(self):
        self.each_sample(self.check)

    def check(self, name, trace):
        text = self.heapprof("timeline", trace, "--format", "openmetrics")
        self.assertEqual(text, self.heapprof("timeline", trace, "--format", "openmetrics"))
        series = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                series.setdefault((sample.name, sample.labels.get("site")), []).append(sample)
        totals = self.totals(trace)
        heap = self.report(trace)["heap"]
        for metric, wanted in (("heapprof_live_bytes", totals["leaked_bytes"]),
                               ("heapprof_live_blocks", totals["leaked_blocks"]),
                               ("heapprof_peak_bytes", totals["peak_bytes"]),
                               ("heapprof_allocations_total", totals["allocations"]),
                               ("heapprof_allocated_bytes_total", totals["allocated_bytes"])):
            if totals["allocations"]:
                self.assertEqual(series[metric, None][-1].value, wanted, metric)
        self.assertEqual(heap["peak_bytes"], series["heapprof_peak_bytes", None][-1].value)
        if name == "plain":
            self.assertEqual(series["heapprof_resident_bytes", None][0].value, 8 << 20)
            sites = sum(samples[-1].value for (metric, site), samples in series.items() if site)
            self.assertEqual(sites, totals["leaked_bytes"])


if __name__ == "__main__":
    harness.skip_unless(text_string_to_metric_families, "prometheus_client is not installed (tools/consumers.sh)")
    harness.main()
