"""SIGKILL at random times. The trace contains the events of every call that the ledger shows as done, and possibly
those of the one call that each thread was executing, but no others. The report must equal a replay of these events.
tools/campaign/kill.py does the same ten times as often."""

import random
from concurrent.futures import ProcessPoolExecutor

import harness
from unfinished_calls import compare

RUNS = 100
THREADS = 3


class Kill(harness.Case):
    def test_random_times(self):
        # Different times in each run, unless HEAPPROF_TEST_SEED is set.
        seed = harness.SEED or random.SystemRandom().randrange(1, 1 << 30)
        print(f"HEAPPROF_TEST_SEED={seed}", flush=True)
        generator = random.Random(seed)
        plans = []
        for run in range(RUNS):
            plans.append(dict(
                delay=int(50_000 * 2 ** (7 * generator.random())),  # 0.05 to 6.4 ms, more often short
                seed=generator.randrange(1 << 30),
                # With small blocks, a frame is written every hundred events: the signal often arrives between two.
                block_bytes=4096 if run % 2 else 65536,
                how=("preload", "record", "loader")[run % 3]))
        with ProcessPoolExecutor(2) as pool:
            events = 0
            outcomes = pool.map(self.run_and_kill, plans)
            for run, (plan, (problem, figures, report)) in enumerate(zip(plans, outcomes)):
                where = f"run {run} of seed {seed}: {plan}"
                self.assertIsNone(problem, where)
                self.assert_sound(report, ended_by=("signal",) if plan["how"] == "record" else ("signal", "unknown"))
                for name in ("allocations", "allocated_bytes", "frees", "failed", "leaked_bytes", "leaked_blocks"):
                    self.assertEqual(report["heap"][name], figures[name], f"{name}, {where}")
                events += report["events"]
        self.assertGreater(events, 100 * RUNS, "the programs were killed before they recorded enough events")

    def run_and_kill(self, plan):
        run = self.record(harness.program("ledger_kill"), plan["delay"], plan["seed"], THREADS,
                          how=plan["how"], status=None, BLOCK_BYTES=plan["block_bytes"])
        killed = 137 if plan["how"] == "record" else -9
        if run.status != killed:
            return f"status {run.status}: {run.stderr[-500:]}", None, None
        problem, figures = compare(run.trace, run.ledger_path)
        report = None if problem else self.report(run.trace)
        run.trace.unlink()
        run.ledger_path.unlink()
        if figures:
            figures.pop("live")
        return problem, figures, report

    def __getstate__(self):
        # Workers need the directory for files, but no unittest state.
        return {"dir": self.dir, "count": 0, "_testMethodName": self._testMethodName}

    def __setstate__(self, state):
        import tempfile
        from pathlib import Path
        self.__init__(state["_testMethodName"])
        self.count = 0
        self.dir = Path(tempfile.mkdtemp(dir=state["dir"]))


if __name__ == "__main__":
    harness.main()
