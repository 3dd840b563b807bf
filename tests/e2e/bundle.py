"""`bundle` leaves out the arguments of the program unless asked for them: no byte of the copy has them, in whatever state
the trace is, and everything else that commands print of it is the same."""

import ctypes
import functools
import json
import os
import struct
import subprocess

import harness
import trace_reader

SECRET = "SECRET-argument-4711"
FRAME_MAGIC = struct.pack("<I", trace_reader.FRAME_MAGIC)
EXTENT_MAGIC = struct.pack("<Q", trace_reader.EXTENT_MAGIC)
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
COMMANDS = (("info", "--json"), ("info",), ("report", "--json", "--top", "100"), ("report",), ("report", "--kind", "all"),
            ("leaks", "--json"), ("timeline", "--json"), ("threads", "--json"), ("histogram", "--json"),
            ("export", "csv", "-o", "-"), ("query", "select * from stacks", "--json"))
LEFT_OUT = "no command-line arguments (--command-line includes them)"


def places_of(data, magic):
    at = data.find(magic)
    while at >= 0:
        yield at
        at = data.find(magic, at + 1)


@functools.cache
def zstd():
    library = ctypes.CDLL("libzstd.so.1")
    for name in ("ZSTD_findFrameCompressedSize", "ZSTD_decompress"):
        getattr(library, name).restype = ctypes.c_size_t
    library.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
    return library


def decompressed(data):
    """Whatever in the file can be decompressed: LZ4 blocks behind headers of frames, valid or not, and zstd frames."""
    for at in places_of(data, FRAME_MAGIC):
        header_bytes, codec = struct.unpack_from("<HH", data, at + 4)
        raw, payload = struct.unpack_from("<II", data, at + 56)
        if codec in (2, 3) and raw < 1 << 24:
            out = ctypes.create_string_buffer(raw + 1)
            body = data[at + header_bytes:at + header_bytes + payload]
            trace_reader.decoders()[0](body, out, len(body), raw)
            yield out.raw  # of a damaged block, as far as it goes
    for at in places_of(data, ZSTD_MAGIC):
        rest = data[at:]
        size = zstd().ZSTD_findFrameCompressedSize(rest, ctypes.c_size_t(len(rest)))
        raw = zstd().ZSTD_getFrameContentSize(rest, ctypes.c_size_t(len(rest)))
        if size <= len(rest) and raw < 1 << 30:
            out = ctypes.create_string_buffer(raw)
            zstd().ZSTD_decompress(out, ctypes.c_size_t(raw), rest, ctypes.c_size_t(size))
            yield out.raw


def has_secret(path):
    data = path.read_bytes()
    return any(SECRET.encode() in part for part in (data, *decompressed(data)))


class Bundle(harness.Case):
    def recorded(self, **options):
        run = self.record(harness.program("ledger_single"), 3000, 1, 0, SECRET, **options)
        self.assertEqual(run.read().command_line[1:], ["3000", "1", "0", SECRET])
        self.assertTrue(has_secret(run.trace))
        return run.trace

    def bundle(self, trace, *options, name="bundled.heapprof", status=0):
        path = self.dir / name
        done = self.run_heapprof("bundle", trace, "-o", path, *options)
        self.assertEqual(done.returncode, status, done.stderr)
        self.messages = done.stderr
        return path

    def answers_of(self, path, commands=COMMANDS):
        """What commands print of a trace, without the command line and the file's name."""
        answers = []
        for command in commands:
            text = self.heapprof(command[0], path, *command[1:], status=(0, 1)) if command[0] != "export" else \
                self.heapprof("export", command[1], path, *command[2:])
            for arguments in (f" 3000 1 0 {SECRET}", " (arguments left out)"):
                text = text.replace(arguments, "")
            if command == ("info", "--json"):
                info = json.loads(text)
                for key in ("command_line", "command_line_truncated", "command_line_cut", "command_line_omitted"):
                    info.pop(key, None)
                text = json.dumps(info)
            for name in (path.name, "1.heapprof"):  # the second: as HEAPPROF_OUTPUT has it
                text = text.replace(name, "NAME")
            answers.append((command, text))
        return answers

    def check_without(self, trace, *options):
        """Bundles a trace. Its copy has no arguments, says so, and gives the same answers."""
        # A compacted trace is padded in a bundle, so its answers name another size.
        of = self.bundle(trace, "--command-line", name="whole.heapprof") if "compacted" in trace.name else trace
        bundled = self.bundle(trace, *options)
        self.assertFalse(has_secret(bundled))
        self.assertIn("it holds " + LEFT_OUT, self.messages)
        info = json.loads(self.heapprof("info", bundled, "--json"))
        program = json.loads(self.heapprof("info", trace, "--json"))["command_line"][:1]
        self.assertEqual(info["command_line"], program)
        self.assertTrue(info["command_line_omitted"])
        for text in (self.heapprof("info", bundled), self.heapprof("report", bundled),
                     self.heapprof("query", bundled, "select command from processes")):
            self.assertIn("ledger_", text)
            self.assertIn("(arguments left out)", " ".join(text.split()))
        database = self.dir / "bundled.sqlite"
        self.heapprof("export", "sqlite", bundled, "-o", database)
        self.assertNotIn(SECRET.encode(), database.read_bytes())
        database.unlink()
        self.compare(of, bundled)
        # Bundling it once more changes nothing.
        self.assertEqual(self.bundle(bundled, *options, name="again.heapprof").read_bytes(), bundled.read_bytes())
        return bundled

    def compare(self, trace, bundled):
        for (command, expected), (_, found) in zip(self.answers_of(trace), self.answers_of(bundled), strict=True):
            self.assertEqual(found, expected, command)

    def test_arguments_are_left_out_unless_asked_for(self):
        trace = self.recorded()
        bundled = self.check_without(trace)
        self.assertIn("it holds no source text (--sources includes it)", self.messages)
        copy = trace_reader.Trace(self.without_symbols(bundled))
        original = trace_reader.Trace(trace)
        self.assertEqual(copy.command_line, original.command_line[:1])
        self.assertEqual([thread.events for thread in copy.threads()], [thread.events for thread in original.threads()])
        self.assertEqual((copy.settings, copy.program, copy.directory, copy.host),
                         (original.settings, original.program, original.directory, original.host))
        whole = self.bundle(trace, "--command-line", name="whole.heapprof")
        self.assertIn("it holds the arguments of the program", self.messages)
        self.assertEqual(whole.read_bytes()[:trace.stat().st_size], trace.read_bytes())
        info = json.loads(self.heapprof("info", whole, "--json"))
        self.assertEqual(info["command_line"], original.command_line)
        self.assertFalse(info["command_line_omitted"])
        # What is left out stays left out, and nobody claims otherwise.
        again = self.bundle(bundled, "--command-line", name="again.heapprof")
        self.assertEqual(again.read_bytes(), bundled.read_bytes())
        self.assertIn("it holds no command-line arguments (the recording has none: they were left out)", self.messages)

    def without_symbols(self, bundled):
        """The independent reader does not know them."""
        data = bundled.read_bytes()
        path = self.dir / "recording.heapprof"
        path.write_bytes(data[:struct.unpack_from("<Q", data, len(data) - 24)[0]])
        return path

    def test_sources(self):
        bundled = self.check_without(self.recorded(), "--sources")
        self.assertIn("it holds the text of source files", self.messages)
        self.assertIn(" source files, ", self.messages)
        self.assertTrue(self.heapprof("source", bundled, "ledger_single.cpp"))

    def test_long_arguments(self):
        """They are truncated in the recording."""
        run = self.record(harness.program("ledger_single"), 3000, 1, 0, *[f"{SECRET}-{i:09}" for i in range(1000)])
        bundled = self.bundle(run.trace)
        self.assertFalse(has_secret(bundled))
        info = json.loads(self.heapprof("info", bundled, "--json"))
        self.assertEqual((len(info["command_line"]), info["command_line_omitted"]), (1, True))
        self.assertEqual(self.report(bundled)["heap"], self.report(run.trace)["heap"])

    def test_a_program_without_arguments(self):
        trace = self.record(harness.program("hello")).trace
        bundled = self.bundle(trace)
        self.assertEqual(bundled.read_bytes()[:trace.stat().st_size], trace.read_bytes())
        info = json.loads(self.heapprof("info", bundled, "--json"))
        self.assertEqual((len(info["command_line"]), info["command_line_omitted"]), (1, False))

    def test_killed_programs(self):
        """The command line is in the staging block, or in a frame and, from before, in the block."""
        for delay_ns, block_bytes in ((100_000, 65536), (6_000_000, 65536), (3_000_000, 16384)):
            run = self.record(harness.program("ledger_kill"), delay_ns, 1, 3, "kill", SECRET, status=-9,
                              BLOCK_BYTES=block_bytes)
            self.assertTrue(has_secret(run.trace))
            bundled = self.bundle(run.trace)
            self.assertFalse(has_secret(bundled))
            copy = trace_reader.Trace(self.without_symbols(bundled))
            original = trace_reader.Trace(run.trace)
            self.assertEqual(copy.command_line, original.command_line[:1])
            self.assertEqual([thread.events for thread in copy.threads()],
                             [thread.events for thread in original.threads()])
            self.assertEqual(self.report(bundled)["heap"], self.report(run.trace)["heap"])

    def test_compacted_traces(self):
        trace = self.recorded()
        for options in ((), ("--exact",), ("--exact", "--level", "19")):
            compacted = self.dir / "compacted.heapprof"
            self.heapprof("compact", trace, "-o", compacted, *options)
            self.assertTrue(has_secret(compacted))
            bundled = self.check_without(compacted)
            whole = self.bundle(compacted, "--command-line", name="whole.heapprof")
            self.assertEqual(whole.read_bytes()[:compacted.stat().st_size], compacted.read_bytes())
            self.assertEqual(json.loads(self.heapprof("info", whole, "--json"))["command_line"][-1], SECRET)
        # The other order.
        bundled = self.bundle(trace)
        self.heapprof("compact", bundled, "-o", compacted)
        self.assertFalse(has_secret(compacted))
        self.assertTrue(json.loads(self.heapprof("info", compacted, "--json"))["command_line_omitted"])
        # Cut within a chunk.
        self.heapprof("compact", trace, "-o", compacted)
        data = compacted.read_bytes()
        compacted.write_bytes(data[:len(data) * 3 // 4 // 4096 * 4096])
        self.check_damaged(compacted)

    def test_html(self):
        bundled = self.bundle(self.recorded())
        done = self.run_heapprof("html", bundled, "-o", self.dir / "page.html", "--command-line", "--max-size", "500K")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(SECRET, (self.dir / "page.html").read_text())
        self.assertIn("it holds no command-line arguments (the recording has none: they were left out)", done.stderr)

    def test_damaged_traces(self):
        """Whatever part is damaged, the copy has no trace of the arguments, and the same damage."""
        trace = self.recorded(BLOCK_BYTES=16384)
        data = trace.read_bytes()
        frames = [at for at in places_of(data, FRAME_MAGIC) if at % 8 == 0]
        extents = [at for at in places_of(data, EXTENT_MAGIC) if at % 4096 == 0]
        staging = extents[0]
        self.assertGreater(len(frames), 5)
        damages = {"payload": (frames[0] + 80 + 300, b"\x55" * 8), "frame header": (frames[0] + 24, b"\xff" * 4),
                   "unfinished frame": (frames[0], bytes(4)), "frame magic": (frames[0], b"HFRX"),
                   "extent of frames": (extents[1] + 20, b"\x77"), "staging header": (staging + 20, b"\x77"),
                   "unfinished extent": (staging, bytes(8)), "commit word": (staging + 48, b"\xff" * 8),
                   "file header": (16, b"\x01\x02"), "slot": (staging + 64 + 32 + 16, b"\xee"),
                   "last frame": (frames[-1] + 100, b"\x55" * 8)}
        for what, (at, replaced) in damages.items():
            with self.subTest(what):
                damaged = self.dir / "damaged.heapprof"
                damaged.write_bytes(data[:at] + replaced + data[at + len(replaced):])
                self.check_damaged(damaged)
        generator = harness.random_generator("bundle")
        for _ in range(20):
            changed = bytearray(data[:4096 * generator.randrange(2, len(data) // 4096 + 8)])
            for _ in range(generator.randrange(4)):
                changed[generator.randrange(4096, len(changed))] ^= 1 << generator.randrange(8)
            damaged = self.dir / "damaged.heapprof"
            damaged.write_bytes(changed)
            self.check_damaged(damaged)

    def check_damaged(self, damaged):
        bundled = self.bundle(damaged, status=self.run_heapprof("info", damaged).returncode)
        expected = self.answers_of(damaged, COMMANDS[:3])
        self.assertFalse(has_secret(bundled))
        for (command, before), (_, found) in zip(expected, self.answers_of(bundled, COMMANDS[:3]), strict=True):
            self.assertEqual(found, before, command)

    def test_a_copy_is_recognized(self):
        trace = self.recorded()
        self.bundle(trace, name="2.heapprof")
        done = self.run_heapprof("report", self.dir)
        self.assertIn("is a copy of", done.stderr)

    def test_indexes(self):
        """The index of the original is not taken for one of the bundle, which can have its own."""
        trace = self.recorded()
        self.heapprof("index", trace)
        bundled = self.bundle(trace)
        before = self.heapprof("report", bundled, "--json")
        os.rename(f"{trace}.idx", f"{bundled}.idx")
        self.assertEqual(self.heapprof("report", bundled, "--json"), before)
        self.assertNotIn(SECRET, self.heapprof("info", bundled))
        os.remove(f"{bundled}.idx")
        self.heapprof("index", bundled)
        self.assertEqual(self.heapprof("report", bundled, "--json"), before)
        self.assertIn("(arguments left out)", " ".join(self.heapprof("info", bundled).split()))
        self.assertNotIn(SECRET, self.heapprof("info", bundled, "--json"))


if __name__ == "__main__":
    harness.main()
