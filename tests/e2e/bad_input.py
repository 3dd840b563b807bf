"""Invalid arguments and damaged files: heapprof prints one message and exits with the documented status. It recovers
every undamaged part of a trace, and counts what is lost."""

import json
import os
import struct
import subprocess

import harness
import trace_reader

COMMANDS = (("info",), ("report",), ("report", "--json"), ("leaks",), ("timeline",), ("timeline", "--format", "svg"),
            ("top", "--once"), ("flamegraph",), ("flamegraph", "--format", "folded"))


class BadInput(harness.Case):
    def run_all_commands(self, path, allowed=(0, 1)):
        """Runs every analysis command on `path`: none may crash or hang. Returns the exit statuses."""
        statuses = []
        for command in COMMANDS:
            result = self.run_heapprof(command[0], path, *command[1:], timeout=60)
            self.assertIn(result.returncode, allowed, f"{command} {path}: {result.stderr[-2000:]}")
            if result.returncode == 1:
                self.assertTrue(result.stderr.strip(), f"{command} printed no message")
            statuses.append(result.returncode)
        result = self.run_heapprof("export", "heaptrack", path, "-o", self.dir / "export.heaptrack", timeout=60)
        self.assertIn(result.returncode, allowed, result.stderr[-2000:])
        statuses.append(result.returncode)
        return statuses

    def refused(self, path, *words, statuses=(1,)):
        """Checks that every command rejects `path` with one line that names the file. If it is a wrong argument (2), a
        second line names the help."""
        for command in COMMANDS + (("export",),):
            arguments = ("export", "heaptrack", path, "-o", self.dir / "e.heaptrack") if command == ("export",) else \
                (command[0], path, *command[1:])
            result = self.run_heapprof(*arguments, timeout=60)
            self.assertIn(result.returncode, statuses, f"{arguments}: {result.stdout}{result.stderr}")
            self.assertEqual(len(result.stderr.strip().splitlines()), result.returncode, result.stderr)
            self.assertIn(os.path.basename(path), result.stderr)
            for word in words:
                self.assertIn(word, result.stderr.lower())
            self.assertEqual(result.stdout, "")

    def test_not_a_trace(self):
        empty = self.dir / "empty.heapprof"
        empty.write_bytes(b"")
        self.refused(empty, "empty")
        text = self.dir / "notes.txt"
        text.write_text("these are notes\n" * 1000)
        self.refused(text, "not a")
        binary = self.dir / "noise.heapprof"
        binary.write_bytes(harness.random_generator("noise").randbytes(100_000))
        self.refused(binary)
        self.refused(self.dir / "missing.heapprof", "no such file")
        folder = self.dir / "folder.heapprof"
        folder.mkdir()
        self.refused(folder, statuses=(1, 2))  # some commands read directories, and this one has no recording
        zeros = self.dir / "zeros.heapprof"
        zeros.write_bytes(bytes(1 << 20))
        self.refused(zeros)
        self.refused("/dev/null")

    def test_newer_version(self):
        """A header whose checksum does not match is damaged, whatever its version: the frames are read. A file with a
        newer version is rejected, because what follows its header is unknown."""
        run = self.record(harness.program("ledger_single"), 100)
        undamaged = self.report(run.trace)
        data = bytearray(run.trace.read_bytes())
        struct.pack_into("<H", data, 8, 99)
        damaged = self.dir / "damaged.heapprof"
        damaged.write_bytes(data)
        report = self.report(damaged, status=1)
        self.assertEqual(report["heap"], undamaged["heap"])
        self.assertEqual(report["integrity"]["bytes_damaged"], 128)
        newer = self.dir / "newer.heapprof"
        newer.write_bytes(data[:4096])
        self.refused(newer, "version", "99", "newer heapprof")

    def test_wrong_command_lines(self):
        run = self.record(harness.program("ledger_single"), 10)
        for arguments in (("frobnicate",), ("diff",), ("report", run.trace, "--no-such-option"),
                          ("report", run.trace, "--cost", "nonsense"), ("report", run.trace, "--top", "many"),
                          ("export", "nonsense", run.trace, "-o", "x"), ("timeline", run.trace, "--format", "gif"),
                          ("record",)):
            with self.subTest(arguments=[str(a) for a in arguments]):
                result = self.run_heapprof(*arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertTrue(result.stderr.strip())

    def test_unwritable_result(self):
        run = self.record(harness.program("ledger_single"), 10)
        for command in (("report", run.trace), ("flamegraph", run.trace), ("timeline", run.trace, "--format", "svg"),
                        ("export", "heaptrack", run.trace)):
            result = self.run_heapprof(*command, "-o", self.dir / "no" / "such" / "folder")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        if os.path.exists("/dev/full"):
            result = self.run_heapprof("report", run.trace, "-o", "/dev/full")
            self.assertEqual(result.returncode, 1, "the full disk was not reported")
            for arguments in (("report", run.trace), ("--recorder-path",), ("--version",), ("--help",),
                              ("help", "report"), ("manual", "report"), ("completions", "bash"), (),
                              ("compact", run.trace, "-o", self.dir / "copy.heapprof"), ("index", run.trace)):
                with self.subTest(arguments=[str(a) for a in arguments]), open("/dev/full", "w") as full:
                    result = subprocess.run([str(harness.HEAPPROF), *map(str, arguments)], stdout=full,
                                            stderr=subprocess.PIPE, text=True, timeout=60, cwd=self.dir,
                                            env=harness.analyzer_environment())
                    self.assertEqual(result.returncode, 1)
                    self.assertEqual(result.stderr,
                                     "heapprof: standard output: cannot be written: No space left on device\n")

    def test_record_refuses(self):
        trace = self.dir / "out.heapprof"

        def refuse(*arguments, words=()):
            result = self.run_heapprof("record", *arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertLessEqual(result.returncode, 127)
            lines = result.stderr.strip().splitlines()
            self.assertEqual(len(lines), 1, result.stderr)
            for word in words:
                self.assertIn(word, lines[0])
            self.assertFalse([path.name for path in self.dir.iterdir() if path.name.startswith("out.heapprof")])

        refuse("-o", trace, "--", "no-such-program-anywhere", words=["no-such-program-anywhere"])
        refuse("-o", trace, "--", self.dir / "no-such-file", words=["no-such-file"])
        refuse("-o", trace, "--", self.dir, words=[str(self.dir)])
        plain = self.dir / "plain.txt"
        plain.write_text("hello\n")
        refuse("-o", trace, "--", plain, words=["plain.txt"])
        refuse("-o", trace, "--", harness.program("static_hello"), words=["static"])
        blocker = self.dir / "blocker"
        blocker.write_text("")
        refuse("-o", blocker / "x.heapprof", "--", "true", words=["x.heapprof"])
        setuid = self.dir / "setuid"
        setuid.write_bytes(open("/bin/true", "rb").read())
        setuid.chmod(0o4755)
        refuse("-o", trace, "--", setuid, words=["setuid"])

    def test_record_does_not_overwrite(self):
        trace = self.dir / "existing"
        trace.write_text("precious")
        result = self.run_heapprof("record", "-o", trace, "--", "true")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("--force", result.stderr)
        self.assertEqual(trace.read_text(), "precious")
        result = self.run_heapprof("record", "--force", "-o", trace, "--", "true")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_sound(self.report(trace))

    def test_truncated_anywhere(self):
        run = self.record(harness.program("ledger_threads"), 1_500, 1, 3, 1, BLOCK_BYTES=4096)
        undamaged = self.report(run.trace)
        data = run.trace.read_bytes()
        generator = harness.random_generator("damage")
        cuts = [0, 1, 7, 8, 100, 511, 512, 4095, 4096, 4097, 4096 + 48, 4096 + 64, 8192] + \
            [generator.randrange(len(data)) for _ in range(40)] + [len(data) - 1]
        path = self.dir / "cut.heapprof"
        for number, cut in enumerate(cuts):
            with self.subTest(cut=cut):
                path.write_bytes(data[:cut])
                if number % 6 == 0:
                    self.run_all_commands(path)
                result = self.run_heapprof("report", path, "--json")
                self.assertIn(result.returncode, (0, 1), result.stderr)
                if cut < 4096:
                    self.assertEqual(result.returncode, 1)
                elif result.stdout.strip():
                    report = json.loads(result.stdout)
                    self.check_form(report)
                    self.assertLessEqual(report["events"], undamaged["events"])
                    if report["events"] < undamaged["events"]:
                        self.assertFalse(report["integrity"]["complete"],
                                         "events are missing, but the trace is reported as complete")
                        self.assertEqual(result.returncode, 1)
                        lost = report["integrity"]["events_lost"]
                        if lost is not None:
                            self.assertLessEqual(report["events"] + lost, undamaged["events"])

    def frames(self, data):
        """(offset, header bytes, payload bytes, events) of every frame of a trace."""
        file_id = struct.unpack_from("<Q", data, 16)[0]
        found = []
        at = 4096
        while at + 80 <= len(data):
            magic, header, _, identity = struct.unpack_from("<IHHQ", data, at)
            if magic == trace_reader.FRAME_MAGIC and identity == file_id:
                events, payload = struct.unpack_from("<I", data, at + 28)[0], struct.unpack_from("<I", data, at +
                                                                                                 60)[0]
                found.append((at, header, payload, events))
                at += (header + payload + 7) // 8 * 8
            else:
                at += 8
        return found

    def test_damaged_frames(self):
        """If one byte of a frame is wrong, exactly that frame is lost, and its events are counted."""
        run = self.record(harness.program("ledger_single"), 6_000, 1, BLOCK_BYTES=4096)
        undamaged = self.report(run.trace)
        data = run.trace.read_bytes()
        frames = self.frames(data)
        self.assertGreater(len(frames), 30)
        generator = harness.random_generator("damaged events")
        path = self.dir / "damaged.heapprof"
        for number in range(40):
            frame, header, payload, events = generator.choice(frames)
            at = frame + generator.randrange(header + payload)
            damaged = bytearray(data)
            damaged[at] ^= 1 << generator.randrange(8)
            path.write_bytes(damaged)
            with self.subTest(frame=frame, at=at - frame):
                if number % 10 == 0:
                    self.run_all_commands(path)
                report = self.report(path, status=1)
                integrity = report["integrity"]
                self.assertFalse(integrity["complete"])
                self.assertGreater(integrity["bytes_damaged"], 0)
                self.assertEqual(integrity["events_lost"], events)
                # If the lost frame contains the end of a realloc, its begin does not count as a free.
                self.assertIn(report["events"] + events, (undamaged["events"], undamaged["events"] - 1))

    def test_damage_at_any_offset(self):
        run = self.record(harness.program("ledger_threads"), 700, 1, 3, 1, BLOCK_BYTES=4096)
        data = run.trace.read_bytes()
        generator = harness.random_generator("lengths")
        path = self.dir / "damaged.heapprof"
        for number in range(60):
            damaged = bytearray(data)
            # Flipped bits, zeros, random bytes, or a part of the file copied to another offset.
            kind = number % 4
            at = generator.randrange(0 if number % 3 else 0, len(data) if number % 2 else 6000)
            size = 1 << generator.randrange(13)
            if kind == 0:
                for _ in range(1 + generator.randrange(20)):
                    damaged[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
            elif kind == 1:
                damaged[at:at + size] = bytes(len(damaged[at:at + size]))
            elif kind == 2:
                damaged[at:at + size] = generator.randbytes(len(damaged[at:at + size]))
            else:
                source = generator.randrange(len(data))
                piece = data[source:source + size]
                damaged[at:at + len(piece)] = piece
            path.write_bytes(damaged[:len(data)])
            with self.subTest(number=number, kind=kind, at=at, size=size):
                self.run_all_commands(path) if number % 12 == 0 else None
                result = self.run_heapprof("report", path, "--json", timeout=60)
                self.assertIn(result.returncode, (0, 1), result.stderr[-2000:])

    def test_trace_of_a_program_without_events(self):
        """A trace without events is not an error."""
        source = self.dir / "idle.c"
        source.write_text("int main(void) { return 0; }\n")
        subprocess.run(["cc", "-o", self.dir / "idle", source], check=True)
        run = self.record(self.dir / "idle", how="record")
        self.assertTrue(run.trace.exists())
        self.assertEqual(set(self.run_all_commands(run.trace)), {0})


if __name__ == "__main__":
    harness.main()
