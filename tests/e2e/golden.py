"""Traces of every version of the format stay readable, with the same figures.

tests/golden/VERSION.heapprof (1.0.hprof: the ending was another then) is a small recording, and
tests/golden/VERSION.json has its figures. A new version adds a pair:

    HEAPPROF_TEST_BUILD=build PYTHONPATH=tests/support python3 tests/e2e/golden.py make tests/golden/VERSION

records one on a host named "golden" in a new folder, so that it contains nothing about the machine. An existing pair
is never replaced: a change that would require it is a new version.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import harness
import trace_reader

FOLDER = Path(__file__).resolve().parent.parent / "golden"
FIGURES = ("allocations", "allocated_bytes", "frees", "failed", "peak_bytes", "peak_blocks", "leaked_bytes",
           "leaked_blocks", "unmatched_frees", "implied_frees")


def summary(path):
    """The figures of a golden trace, from trace_reader."""
    trace = trace_reader.Trace(path)
    figures = trace_reader.replay(trace_reader.merged(trace))
    return {
        "version": f"{trace.major}.{trace.minor}", "program": trace.program, "pid": trace.pid,
        "ended_by": trace.ended_by, "threads": [[thread.tid, thread.name] for thread in trace.threads()],
        "modules": sorted(os.path.basename(module.path) for module in trace.modules.values()),
        "streams": {str(number): len(records) for number, records in trace.streams.items()},
        "heap": {name: figures[name] for name in FIGURES},
    }


def make(prefix):
    work = Path("/tmp/golden")
    work.mkdir()
    try:
        shutil.copy(harness.program("ledger_threads"), work)
        environment = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(work / "libheapprof.so"),
                       "HEAPPROF_OUTPUT": str(work / "golden.heapprof"), "HEAPPROF_BLOCK_BYTES": "4096"}
        shutil.copy(harness.LIBRARY, work)
        assignments = " ".join(f"{key}={value}" for key, value in environment.items())
        subprocess.run(["unshare", "--uts", "sh", "-c",
                        f"hostname golden && cd {work} && exec env -i {assignments} ./ledger_threads 120 1 2 2"],
                       check=True)
        shutil.copy(work / "golden.heapprof", f"{prefix}.heapprof")
        Path(f"{prefix}.json").write_text(json.dumps(summary(f"{prefix}.heapprof"), indent=1) + "\n")
    finally:
        shutil.rmtree(work)


class Golden(harness.Case):
    def test_every_version(self):
        traces = sorted(path for path in FOLDER.iterdir() if path.suffix in (".heapprof", ".hprof"))
        self.assertTrue(traces)
        for path in traces:
            with self.subTest(path.name):
                truth = json.loads(path.with_suffix(".json").read_text())
                self.assertEqual(json.loads(json.dumps(summary(path))), truth)
                report = self.report(path, "--no-symbols")
                self.assertTrue(report["integrity"]["complete"], report["integrity"])
                self.assertEqual(report["integrity"]["ended_by"], truth["ended_by"])
                self.assertEqual((report["program"], report["pid"]), (truth["program"], truth["pid"]))
                self.assertEqual({name: report["heap"][name] for name in FIGURES}, truth["heap"])
                # Their order differs if a thread continues the stream of another one that has ended.
                self.assertCountEqual([[thread["tid"], thread["name"]] for thread in report["threads"]],
                                      truth["threads"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make(sys.argv[2])
    else:
        harness.main()
