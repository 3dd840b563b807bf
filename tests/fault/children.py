"""HEAPPROF_CHILDREN=1 with common programs: every process has its own trace, and all of them end."""

import os
import shutil
import subprocess
import sys
import textwrap

import harness


def ends(report):
    return report["integrity"]["ended_by"]


class Children(harness.Case):
    def family(self, *command, how="preload", at_least=2, status=0, timeout=240, **variables):
        """Records `command` and its children. Checks that every trace is complete. Returns {program: reports}."""
        out = self.dir / f"out{self.count}"
        pattern = out / "%e.%p.heapprof"
        if how == "record":
            self.count += 1
            done = subprocess.run([harness.HEAPPROF, "record", "-q", "--children", "-o", pattern, "--",
                                   *map(str, command)],
                                  env=harness.clean_environment(**{k[1:]: v for k, v in variables.items()}),
                                  cwd=self.dir,
                                  capture_output=True, text=True, timeout=timeout)
            self.assertEqual(done.returncode, status, done.stdout[-1000:] + done.stderr[-2000:])
        else:
            self.record(*command, how=how, OUTPUT=pattern, CHILDREN=1, status=status, timeout=timeout, **variables)
        programs = {}
        for path in out.iterdir():
            report = self.report(path)
            integrity = report["integrity"]
            self.assertTrue(integrity["complete"], (path, integrity))
            self.assertEqual(integrity["bytes_damaged"], 0)
            self.assertEqual(report["heap"]["implied_frees"], 0, path)
            programs.setdefault(os.path.basename(report["program"]), []).append(report)
        self.assertGreaterEqual(sum(map(len, programs.values())), at_least, programs.keys())
        return programs

    def test_shell_pipelines(self):
        for how in harness.WAYS:
            with self.subTest(how=how):
                programs = self.family("bash", "-c", "seq 1 2000 | sort -r | head -n 3 | (read x; echo $x | "
                                                     "cat) >/dev/null; "
                                       "for i in 1 2 3; do /bin/true; done", how=how, at_least=8)
                for name in ("sort", "head", "cat"):
                    self.assertIn(name, programs)

    def test_make_with_jobs(self):
        if shutil.which("make") is None:
            self.skipTest("make is not installed")
        (self.dir / "Makefile").write_text("all: 1 2 3 4 5 6 7 8\n1 2 3 4 5 6 7 8:\n\t@sort Makefile | "
                                           "md5sum > $@.out\n")
        programs = self.family("make", "-s", "-j", "4", at_least=17)
        self.assertEqual(len(programs["md5sum"]), 8)
        for number in range(1, 9):
            self.assertEqual(len((self.dir / f"{number}.out").read_text().split()[0]), 32)

    def test_python_multiprocessing(self):
        script = self.dir / "pool.py"
        script.write_text(textwrap.dedent("""
            import multiprocessing, sys
            def square(x): return sum(range(x)) * 0 + x * x
            if __name__ == "__main__":
                multiprocessing.set_start_method(sys.argv[1])
                # The end of the pool terminates its workers. One that did not run before then has no trace.
                workers_run = multiprocessing.Barrier(4)
                with multiprocessing.Pool(3, initializer=workers_run.wait) as pool:
                    workers_run.wait()
                    assert pool.map(square, range(200)) == [x * x for x in range(200)]
        """))
        for method in ("fork", "spawn"):
            with self.subTest(method=method):
                self.family(sys.executable, script, method, at_least=4)

    def test_children_terminated_at_their_start(self):
        """A signal that ends a child while its trace is being created is delivered afterwards: every file has a
        header."""
        wanted, rounds, children = 40, 25, 400
        out = self.dir / "terminated"
        script = self.dir / "terminate.py"
        # Whether a child creates its trace before the signal depends on the load of the machine. The delays of each
        # round cover the start of a child, and get longer until enough children have created a trace.
        script.write_text(textwrap.dedent(f"""
            import os, signal, time
            for round in range(1, {rounds} + 1):
                for i in range({children}):
                    child = os.fork()
                    if child == 0:
                        bytearray(100_000)
                        signal.pause()
                    end = time.monotonic_ns() + i * round * 5_000
                    while time.monotonic_ns() < end: pass
                    os.kill(child, signal.SIGTERM)
                    os.waitpid(child, 0)
                if len(os.listdir({str(out)!r})) > {wanted}:  # one of them is the parent's
                    break
        """))
        self.record(sys.executable, script, OUTPUT=out / "%p.heapprof", CHILDREN=1, timeout=400)
        traces = sorted(out.iterdir())
        self.assertGreater(len(traces), wanted)
        without_header = [path.name for path in traces if path.read_bytes()[:8] == bytes(8)]
        self.assertEqual(without_header, [], f"of {len(traces)}")
        for path in traces[::20]:
            self.assertTrue(self.report(path)["integrity"]["complete"], path)

    def test_ctest(self):
        if shutil.which("cmake") is None or shutil.which("ctest") is None:
            self.skipTest("cmake is not installed")
        (self.dir / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.16)\nproject(p NONE)\nenable_testing()\n"
            "foreach(i RANGE 1 4)\n  add_test(NAME t${i} COMMAND sort "
            "${CMAKE_SOURCE_DIR}/CMakeLists.txt)\nendforeach()\n")
        subprocess.run(["cmake", "-S", self.dir, "-B", self.dir / "build"], check=True, capture_output=True)
        programs = self.family("ctest", "-j2", "--test-dir", self.dir / "build", at_least=5)
        self.assertEqual(len(programs["sort"]), 4)

    def test_cargo_test(self):
        if shutil.which("cargo") is None:
            self.skipTest("cargo is not installed")
        crate = self.dir / "crate"
        (crate / "src").mkdir(parents=True)
        (crate / "Cargo.toml").write_text('[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n')
        (crate / "src" / "lib.rs").write_text("#[test]\nfn adds() { let v: Vec<u32> = (0..1000).collect(); "
                                              "assert_eq!(v.iter().sum::<u32>(), 499500); }\n")
        built = subprocess.run(["cargo", "test", "--offline", "--no-run"], cwd=crate, capture_output=True, text=True)
        if built.returncode != 0:
            self.skipTest("cargo could not build: " + built.stderr[-200:])
        manifest = crate / "Cargo.toml"
        programs = self.family("cargo", "test", "-q", "--offline", "--lib", "--manifest-path", manifest, at_least=2)
        self.assertTrue(any(name.startswith("tiny-") for name in programs), programs.keys())

    def test_executed_with_an_environment_from_before_the_fork(self):
        """As shells do. The recorder of the executed program does not know the forked child's trace."""
        script = textwrap.dedent("""
            import os
            environment = dict(os.environ)
            if os.fork() == 0:
                blocks = [bytearray(5000) for _ in range(10)]
                os.execve("/bin/true", ["true"], environment)
            os.wait()
        """)
        programs = self.family(sys.executable, "-c", script, how="record", at_least=3)
        self.assertEqual(len(programs.pop("true")), 1)
        self.assertEqual(sorted(ends(report) for reports in programs.values() for report in reports),
                         ["exec", "exit"])

    def test_without_it_only_the_started_process_is_recorded(self):
        for how in harness.WAYS:
            with self.subTest(how=how):
                out = self.dir / f"single-{how}"
                pattern = out / "%e.%p.heapprof"
                command = ["bash", "-c", "sort /etc/passwd | head -n 1 >/dev/null; /bin/true; exec sort /etc/passwd"]
                if how == "record":
                    subprocess.run([harness.HEAPPROF, "record", "-q", "-o", pattern, "--", *command], check=True,
                                   stdout=subprocess.DEVNULL, env=harness.clean_environment(), cwd=self.dir,
                                   timeout=60)
                else:
                    self.record(*command, how=how, OUTPUT=pattern)
                reports = [self.report(path) for path in out.iterdir()]
                self.assertEqual(sorted(os.path.basename(report["program"]) for report in reports), ["bash", "sort"])
                self.assertEqual(len({report["pid"] for report in reports}), 1)


if __name__ == "__main__":
    harness.main()
