"""Snapshots of resident pages in hosts that are hard for them: very many mappings, forks, a process that is not
dumpable, seccomp, a killed process."""

import os
import signal
import subprocess
import unittest

import harness
import trace_reader

REFUSED = 3  # the program's status if the kernel forbids what the test needs


class Residency(harness.Case):
    def recorded(self, *arguments, **options):
        run = self.record(harness.program("residency"), *arguments, status=None, **options)
        if run.status == REFUSED:
            self.skipTest(f"not permitted here: {arguments}")
        self.assertEqual(run.status, 0, run.stderr)
        self.assertEqual(run.stderr, "")
        return run

    def test_65000_mappings(self):
        try:
            run = self.recorded("many", 65_000)
        except AssertionError:
            limit = int(open("/proc/sys/vm/max_map_count", encoding="ascii").read())
            if limit < 66_000:
                self.skipTest(f"vm.max_map_count is {limit}")
            raise
        trace = run.read()
        _, address, pages, _, _ = run.stdout.split()
        begin, end = int(address, 16), int(address, 16) + int(pages) * 4096
        last = trace.snapshots[-1]
        self.assertEqual(last.reason, "exit")
        # A snapshot takes at most 50 ms, but for its last system call; at exit it is not continued later.
        self.assertLess(last.spent_ns, 80_000_000)
        if last.complete:
            inside = [mapping for mapping in last.mappings if begin <= mapping[0] < end]
            self.assertEqual(len(inside), 65_000)
            self.assertEqual({frozenset(last.state(address)) for address in range(begin, end, 4096)},
                             {frozenset({"present"})})

    def test_forks(self):
        """The parent's snapshots do not have the child's pages, and a child that records has its own."""
        run = self.recorded("forks", CHILDREN=1)
        _, address, pages, step, _ = run.stdout.split()
        traces = sorted(self.dir.glob("1.heapprof*"))
        self.assertEqual(len(traces), 2)
        for path in traces:
            trace = trace_reader.Trace(path)
            step_there = int(step) if path == run.trace else 1
            for snapshot in trace.snapshots:
                if snapshot.reason not in ("mark", "exit") or not snapshot.complete:
                    continue
                present = [page for page in range(int(pages))
                           if "present" in snapshot.state(int(address, 16) + page * 4096)]
                self.assertEqual(present, list(range(0, int(pages), step_there)), (path, snapshot.reason))
            self.assertTrue(any(one.reason == "exit" for one in trace.snapshots))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_not_dumpable(self):
        """The files were opened before the process became another user; a child cannot open its own, and says so."""
        self.dir.chmod(0o777)
        run = self.recorded("other_user", CHILDREN=1)
        parent = run.read()
        self.assertEqual(parent.notes, [])
        self.assertIn("exit", [one.reason for one in parent.snapshots])
        (path,) = set(self.dir.glob("1.heapprof*")) - {run.trace}
        child = trace_reader.Trace(path)
        self.assertEqual(child.snapshots, [])
        self.assertEqual(child.notes, [(1, "resident pages are not recorded: /proc/self/pagemap could not be opened "
                                           "(Permission denied)")])

    @unittest.skipUnless(os.uname().machine == "x86_64", "needs a system call that the recorder does not see")
    def test_a_filter_that_refuses_the_call(self):
        trace = self.recorded("refuses").read()
        self.assertEqual(trace.notes, [(1, "resident pages are not recorded: /proc/self/pagemap could not be read "
                                           "(Operation not permitted)")])
        last = trace.snapshots[-1]
        self.assertFalse(last.complete)

    def test_seccomp_that_the_recorder_sees(self):
        """From then on there are no system calls, so no snapshots, and nothing else changes."""
        run = self.record(harness.program("hosts"), "filter", status=None)
        if run.status == REFUSED:
            self.skipTest("not permitted here: seccomp")
        self.assertEqual((run.status, run.stderr), (0, ""))
        self.assertNotIn("exit", [one.reason for one in run.read().snapshots])

    def test_killed_at_any_time(self):
        for delay in range(12):
            trace = self.dir / f"killed{delay}.heapprof"
            environment = harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace)
            process = self.popen([harness.program("residency"), "waits", "32"], env=environment,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.assertEqual(process.stdout.readline(), "ready\n")
            sender = subprocess.Popen([harness.HEAPPROF, "control", trace, "snapshot"], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
            try:
                process.wait(timeout=0.002 * delay)
            except subprocess.TimeoutExpired:
                pass
            process.send_signal(signal.SIGKILL)
            process.wait()
            sender.wait()
            snapshots = trace_reader.Trace(trace).snapshots
            # Only the last one may be unfinished.
            self.assertTrue(all(one.complete for one in snapshots[:-1]))
            self.assertTrue(self.report(trace)["integrity"]["complete"])


if __name__ == "__main__":
    harness.main()
