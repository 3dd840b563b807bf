"""Three ways to load the recorder; and programs that execute another program, fork, or crash."""

import json
import os
import signal
import subprocess

import harness


class Loading(harness.Case):
    def traces(self):
        """(path, report) of every trace below the test's directory, sorted by program and pid."""
        found = []
        for path in sorted(self.dir.rglob("*")):
            if path.is_file() and ".heapprof" in path.name:
                found.append((path, self.report(path)))
        return found

    def run_and_collect(self, *command, how="preload", status=0, **variables):
        """Like record(), with a pattern that gives each process its own trace."""
        pattern = self.dir / "out" / "%e.%p.heapprof"
        if how == "record":
            environment = harness.clean_environment()
            options = ["-o", str(pattern)]
            if variables.pop("CHILDREN", None):
                options.append("--children")
            result = subprocess.run([str(harness.HEAPPROF), "record", *options, "--", *command], env=environment,
                                    capture_output=True, text=True, timeout=120, cwd=self.dir)
            self.assertEqual(result.returncode, status, result.stderr)
        else:
            self.record(*command, how=how, status=status, OUTPUT=pattern, **variables)
        return self.traces()

    def test_all_ways_of_loading_give_the_same_figures(self):
        heaps = []
        for how in harness.WAYS:
            run = self.record(harness.program("ledger_single"), 3_000, 1, how=how)
            report = self.report(run.trace)
            self.assert_sound(report)
            self.assertEqual(report["program"], harness.program("ledger_single"))
            heap = report["heap"]
            heap.pop("peak_time_ns")
            heaps.append(heap)
        self.assertEqual(heaps[0], heaps[1])
        self.assertEqual(heaps[0], heaps[2])

    def test_path_of_the_recorder(self):
        """As in LD_PRELOAD=$(heapprof --recorder-path)."""
        path = self.heapprof("--recorder-path")
        self.assertEqual(path, f"{os.path.realpath(harness.LIBRARY)}\n")
        self.assertIn("--recorder-path", self.heapprof("--help"))
        done = self.run_heapprof("--recorder-path", "more")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("unexpected argument 'more'", done.stderr)

    def test_exec(self):
        for how in harness.WAYS:
            with self.subTest(how=how):
                found = self.run_and_collect(harness.program("exec_chain"), "exec", harness.program("ledger_names"),
                                             how=how)
                by_program = {os.path.basename(report["program"]): report for _, report in found}
                self.assertEqual(set(by_program), {"exec_chain", "ledger_names"})
                self.assertEqual(by_program["exec_chain"]["integrity"]["ended_by"], "exec")
                self.assertEqual(by_program["ledger_names"]["integrity"]["ended_by"], "exit")
                for report in by_program.values():
                    self.assertTrue(report["integrity"]["complete"])
                for path, _ in found:
                    path.unlink()

    def test_called_by_another_name(self):
        """The program and its frames have the executed name, a link to the file; never that of a descriptor."""
        program = harness.program("ledger_single")
        link = self.dir / "called" / "server"
        link.parent.mkdir()
        link.symlink_to(program)
        by_descriptor = (f"import os; fd = os.open({program!r}, os.O_RDONLY); os.set_inheritable(fd, True); "
                         "os.execve(fd, ['x', '3000', '1'], os.environ)")
        for name, command, wanted in (
                ("path", [str(link), "3000", "1"], str(link)),
                ("relative path", ["sh", "-c", "cd called && exec ./server 3000 1"], str(link)),
                ("relative path above", ["sh", "-c", "cd called && exec ../called/server 3000 1"],
                 f"{link.parent}/../called/server"),
                ("descriptor", ["/usr/bin/python3", "-c", by_descriptor], program)):
            with self.subTest(name):
                found = self.run_and_collect(*command)
                path, report = max(found, key=lambda pair: pair[0].stat().st_mtime_ns)
                self.assertEqual(report["program"], wanted)
                frames = [frame for row in self.all_stacks(path, "allocated") for frame in row["stack"]]
                own = [frame for frame in frames if frame["function"] == "main"]
                self.assertTrue(own, "functions are named through the link")
                self.assertEqual({frame["module"] for frame in own}, {wanted})
                for path, _ in found:
                    path.unlink()

    def test_forked_children_are_not_recorded(self):
        for how in harness.WAYS:
            for mode in ("child", "fork", "vfork"):
                with self.subTest(how=how, mode=mode):
                    status = 5 if mode == "child" else 0
                    found = self.run_and_collect(harness.program("exec_chain"), mode,
                                                 harness.program("ledger_names"), how=how, status=status)
                    self.assertEqual(len(found), 1, [path for path, _ in found])
                    path, report = found[0]
                    self.assert_sound(report)
                    self.assertEqual(os.path.basename(report["program"]), "exec_chain")
                    self.assertNotIn(77_000, [row["bytes"] for row in self.all_stacks(path, "allocated")])
                    path.unlink()

    def test_children_option(self):
        for how in harness.WAYS:
            with self.subTest(how=how, mode="child"):
                found = self.run_and_collect(harness.program("exec_chain"), "child", how=how, status=5, CHILDREN=1)
                self.assertEqual(len(found), 2)
                self.assertEqual(len({report["pid"] for _, report in found}), 2)
                in_child = [path for path, _ in found
                            if (77_000, 1000) in [(row["bytes"], row["blocks"])
                                                  for row in self.all_stacks(path, "allocated")]]
                self.assertEqual(len(in_child), 1)
                for path, report in found:
                    self.assertTrue(report["integrity"]["complete"])
                    path.unlink()
            with self.subTest(how=how, mode="fork"):
                found = self.run_and_collect(harness.program("exec_chain"), "fork", harness.program("ledger_names"),
                                             how=how, CHILDREN=1)
                self.assertEqual(sorted(os.path.basename(report["program"]) for _, report in found),
                                 ["exec_chain", "exec_chain", "ledger_names"])
                for path, _ in found:
                    path.unlink()

    def test_endings(self):
        for how in harness.WAYS:
            for mode, status, endings in (("_exit", 7, ("exit", "unknown")),
                                          ("abort", -signal.SIGABRT, ("signal", "unknown"))):
                with self.subTest(how=how, mode=mode):
                    if how == "record":
                        status = status if status >= 0 else 128 - status
                        endings = endings[:1]
                    run = self.record(harness.program("exec_chain"), mode, how=how, status=status)
                    report = self.report(run.trace)
                    self.assertTrue(report["integrity"]["complete"])
                    self.assertIn(report["integrity"]["ended_by"], endings)
                    self.assertIn((5_500, 100),
                                  [(row["bytes"], row["blocks"]) for row in self.all_stacks(run.trace, "leaked")])

    def test_record_preserves_status_arguments_and_streams(self):
        """Exit status, arguments, standard streams; a summary on standard error, and none with -q."""
        run = self.record("sh", "-c", "cat; echo out; echo err >&2; exit 42", how="record", status=42)
        self.assertEqual(run.stdout, "out\n")
        self.assertIn("err\n", run.stderr)
        self.assertIn(str(run.trace), run.stderr)
        run = self.record("sh", "-c", "exit 3", how="record", status=3, options=("-q",))
        self.assertEqual(run.stderr, "")
        arguments = ["a b", "", "*", "--help", "-o", "\u00e4"]
        run = self.record("printf", "[%s]", *arguments, how="record")
        self.assertEqual(run.stdout, "".join(f"[{argument}]" for argument in arguments))

    def test_exit_status_is_recorded_if_known(self):
        # Destructors do not get the status: only the launcher knows it.
        for how, status in (("preload", None), ("loader", None), ("record", 3)):
            with self.subTest(how=how):
                run = self.record("perl", "-e", "exit 3", how=how, status=3)
                integrity = json.loads(self.heapprof("info", run.trace, "--json"))["integrity"]
                self.assertEqual((integrity["ended_by"], integrity["end_status"]), ("exit", status))

    def test_record_forwards_signals(self):
        process = self.popen([str(harness.HEAPPROF), "record", "-o", str(self.dir / "s.heapprof"), "--",
                              harness.program("steady"), "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env=harness.clean_environment())
        self.assertEqual(process.stdout.readline(), "up\n")
        process.send_signal(signal.SIGTERM)  # steady catches it and exits with 0
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        self.assert_sound(self.report(self.dir / "s.heapprof"))


if __name__ == "__main__":
    harness.main()
