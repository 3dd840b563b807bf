"""Snapshots of resident pages in hosts that are hard for them: very many mappings, forks, a process that is not
dumpable, seccomp, a killed process."""

import os
import resource
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

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

    def in_time(self, record):
        """What record() returns: a trace, whose last snapshot did not have too little time, and more."""
        for _ in range(10):
            trace, more = record()
            if not trace.snapshots[-1].had_too_little_time:
                break
        return trace, more

    def recorded_in_time(self, *arguments):
        """The trace and what the program printed."""
        def record():
            run = self.recorded(*arguments)
            return run.read(), run.stdout
        return self.in_time(record)

    def test_65000_mappings(self):
        limit_ns = 80_000_000
        for _ in range(10):
            try:
                run = self.recorded("many", 65_000)
            except AssertionError:
                limit = int(open("/proc/sys/vm/max_map_count", encoding="ascii").read())
                if limit < 66_000:
                    self.skipTest(f"vm.max_map_count is {limit}")
                raise
            last = run.read().snapshots[-1]
            # A virtual machine can count the time for which its processor stood still.
            if last.spent_ns < limit_ns:
                break
        _, address, pages, _, _ = run.stdout.split()
        begin, end = int(address, 16), int(address, 16) + int(pages) * 4096
        self.assertEqual(last.reason, "exit")
        # A snapshot takes at most 50 ms, but for its last system call; at exit it is not continued later.
        self.assertLess(last.spent_ns, limit_ns)
        if last.complete:
            inside = [mapping for mapping in last.mappings if begin <= mapping[0] < end]
            self.assertEqual(len(inside), 65_000)
            self.assertEqual({frozenset(last.state(address)) for address in range(begin, end, 4096)},
                             {frozenset({"present"})})

    def test_forks(self):
        """The parent's snapshots do not have the child's pages, and a child that records has its own."""
        for _ in range(10):
            run = self.recorded("forks", CHILDREN=1)
            traces = {path: trace_reader.Trace(path) for path in sorted(self.dir.glob(f"{run.trace.name}*"))}
            if not any(trace.snapshots and trace.snapshots[-1].had_too_little_time for trace in traces.values()):
                break
        _, address, pages, step, _ = run.stdout.split()
        self.assertEqual(len(traces), 2)
        for path, trace in traces.items():
            step_there = int(step) if path == run.trace else 1
            # The one at the mark may exceed the budget of short programs; the one at the exit has 50 ms.
            complete = [one for one in trace.snapshots if one.reason in ("mark", "exit") and one.complete]
            self.assertTrue(complete, path)
            for snapshot in complete:
                present = [page for page in range(int(pages))
                           if "present" in snapshot.state(int(address, 16) + page * 4096)]
                self.assertEqual(present, list(range(0, int(pages), step_there)), (path, snapshot.reason))
            self.assertTrue(any(one.reason == "exit" for one in trace.snapshots))

    def have_swap_space(self):
        """Adds 32 MiB until the end of the test if the machine has none."""
        # Another run that removes its swap space reads the pages of this one again.
        self.addCleanup(os.close, harness.lock_folder("/etc"))
        if len(Path("/proc/swaps").read_text(encoding="ascii").splitlines()) > 1:
            return
        if os.geteuid() != 0 or not shutil.which("mkswap", path="/sbin:/usr/sbin"):
            self.skipTest("no swap space, and no permission to add some")
        file = self.dir / "swap"
        file.touch(0o600)
        file.write_bytes(bytes(32 << 20))
        for command in ("mkswap", "swapon"):
            done = subprocess.run([f"/sbin/{command}", file], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                self.skipTest(f"no swap space: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["/sbin/swapoff", file], check=True)

    def test_swapped_pages(self):
        self.have_swap_space()
        trace, output = self.recorded_in_time("swapped")
        # The kernel may have swapped more pages out meanwhile; it reads none again that nobody uses.
        snapshot = trace.snapshots[-1]
        self.assertTrue(snapshot.complete)
        swapped = 0
        for line in output.splitlines():
            _, address, pages, _, state = line.split()
            for page in range(int(pages)):
                found = snapshot.state(int(address, 16) + page * 4096)
                self.assertIn(found, [{"swapped"}] if state == "swapped" else [{"present"}, {"swapped"}], line)
                swapped += found == {"swapped"}
        self.assertGreater(swapped, 100)

    def test_the_program_closes_all_descriptors(self):
        """The recorder opens its files again: samples still have resident memory, so its growth causes a snapshot."""
        for _ in range(10):
            trace = self.recorded("closes").read()
            # One that was held up has used up the time of the next one.
            if all(one.end_ns - one.begin_ns < 5_000_000 for one in trace.snapshots):
                break
        self.assertEqual(trace.notes, [])
        snapshots = trace.snapshots[next(i for i, one in enumerate(trace.snapshots) if one.reason == "mark"):]
        self.assertGreater(max((one.resident for one in snapshots if one.reason == "residency"), default=0), 64 << 20)
        self.assertGreater(snapshots[-1].resident, 64 << 20)

    def test_vfork_children_that_close_all_descriptors(self):
        """The descriptors of the child are not those of the parent, although both have one memory."""
        trace, output = self.recorded_in_time("vfork_closes")
        _, before, after = output.split()
        self.assertEqual(before, after)
        self.assertEqual(trace.notes, [])
        self.assertTrue(trace.snapshots[-1].complete)

    def recorded_with_files(self, limit):
        """A recording of a process that may have `limit` files open, and the numbers of its descriptors."""
        self.count += 1
        trace = self.dir / f"limit{limit}.{self.count}.heapprof"
        process = self.popen([harness.program("residency"), "waits", "1"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace),
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
        self.assertEqual(process.stdout.readline(), "ready\n")
        numbers = {int(number) for number in os.listdir(f"/proc/{process.pid}/fd")}
        self.assertEqual(process.communicate("", timeout=60), ("", ""))
        return trace_reader.Trace(trace), numbers

    def test_few_files_may_be_open(self):
        for limit in (64, 100, 102):
            with self.subTest(limit=limit):
                trace, numbers = self.in_time(lambda: self.recorded_with_files(limit))
                self.assertEqual(trace.notes, [])
                self.assertEqual((trace.snapshots[-1].reason, trace.snapshots[-1].complete), ("exit", True))
                self.assertGreater(trace.snapshots[-1].resident, 1 << 20)
                # The trace, statm, maps and pagemap leave the lower numbers to the program.
                self.assertEqual({number for number in numbers if number < limit - limit // 4}, {0, 1, 2})

    def test_very_few_files_may_be_open(self):
        """The program may need all of them: there is no snapshot, and a note."""
        trace, numbers = self.recorded_with_files(20)
        self.assertEqual(trace.notes, [(1, "resident pages are not recorded: /proc/self/maps could not be opened "
                                           "(Too many open files)")])
        self.assertEqual(trace.snapshots, [])
        self.assertEqual(len(numbers), 4)

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

    def test_ends_without_exit_handlers(self):
        """The last snapshot is taken there, too, before the program executes another one."""
        for how in ("_exit", "_Exit", "quick_exit", "execve", "execv", "execvp", "execvpe", "execl",
                    "execlp", "execle", "fexecve"):
            with self.subTest(how=how):
                trace, output = self.recorded_in_time("ends", how)
                _, address, pages, step, _ = output.split()
                last = trace.snapshots[-1]
                self.assertEqual((last.reason, last.complete), ("exit", True))
                present = [page for page in range(int(pages))
                           if "present" in last.state(int(address, 16) + page * 4096)]
                self.assertEqual(present, list(range(0, int(pages), int(step))))

    def test_ends_of_others(self):
        """A file that cannot be executed, and children without a trace of their own, cost no snapshot."""
        for how in ("failed_exec", "children"):
            with self.subTest(how=how):
                run = self.record(harness.program("residency"), "ends", how, status=-signal.SIGKILL)
                self.assertNotIn("exit", [one.reason for one in run.read().snapshots])

    def test_children_that_record(self):
        """They take a last snapshot when they call _exit; a child without events has no trace."""
        self.record(harness.program("residency"), "ends", "children", CHILDREN=1, status=-signal.SIGKILL)
        self.assertEqual(len(list(self.dir.glob("1.heapprof*"))), 3)  # the program, and /bin/true twice
        run = self.record(harness.program("exec_chain"), "child_exit", CHILDREN=1, status=5)
        (path,) = set(self.dir.glob("2.heapprof*")) - {run.trace}
        self.assertEqual(trace_reader.Trace(path).snapshots[-1].reason, "exit")

    def test_killed_at_any_time(self):
        for delay in range(12):
            trace = self.dir / f"killed{delay}.heapprof"
            environment = harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace)
            process = self.popen([harness.program("residency"), "waits", "32"], env=environment,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.assertEqual(process.stdout.readline(), "ready\n")
            sender = self.popen([harness.HEAPPROF, "control", trace, "snapshot"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env=harness.analyzer_environment())
            try:
                process.wait(timeout=0.002 * delay)
            except subprocess.TimeoutExpired:
                pass
            process.send_signal(signal.SIGKILL)
            process.wait(60)
            sender.wait(60)
            snapshots = trace_reader.Trace(trace).snapshots
            # Only the last one may have no end. One for which the scheduler left too little time is continued later, or
            # ended as incomplete because another one is requested.
            for one in snapshots[:-1]:
                self.assertNotEqual(one.end_ns, 0)
                self.assertTrue(one.complete or one.reason == "residency", one.reason)
            for one in snapshots:
                if one.complete and one.reason == "request":
                    self.assertGreaterEqual(one.resident_bytes(), 32 << 20)
            self.assertTrue(self.report(trace)["integrity"]["complete"])


if __name__ == "__main__":
    harness.main()
