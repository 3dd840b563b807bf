"""heapprof rss: the lines sum to resident memory, and agree with what the program knows and with /proc/self/smaps."""

import json
import re
import sys

import harness
from pins import preload_is_installed

KIB = 1 << 10
MIB = 1 << 20
LIBRARIES = {"glibc": "", "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
             "mimalloc": "libmimalloc.so.2.0"}


def swapped_bytes(path):
    """Of all mappings, from a copy of smaps."""
    return sum(int(line.split()[1]) * KIB for line in path.read_text().splitlines() if line.startswith("Swap:"))


def read_smaps(path):
    """[(name, access, resident bytes)] of all mappings."""
    mappings = []
    for line in path.read_text().splitlines():
        if match := re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \S+ *(.*)", line):
            mappings.append([match[2], match[1], 0])
        elif line.startswith("Rss:"):
            mappings[-1][2] = int(line.split()[1]) * KIB
    return mappings


class Answer:
    """The document of `rss --json`."""

    def __init__(self, text):
        self.json = json.loads(text)
        self.lines = {line["name"]: line["bytes"] for line in self.json["lines"]}
        self.children = {line["name"]: line.get("children", []) for line in self.json["lines"]}
        self.rss = self.json["rss_bytes"]


class Rss(harness.Case):
    def recorded(self, *arguments, library="", **variables):
        if library:
            if not preload_is_installed(library):
                self.skipTest(f"{library} is not installed")
            variables["_LD_PRELOAD"] = library
        smaps = self.dir / "smaps"
        for _ in range(10):
            # MALLOC_PERTURB_, which meson sets, makes glibc write to every new block.
            run = self.record(harness.program("resident_memory"), smaps, *arguments, how="record", options=["-q"],
                              _MALLOC_PERTURB_=None, **variables)
            snapshots = run.read().snapshots
            # On a busy machine, the last one may have too little time, and pages may be swapped out.
            if not (snapshots and snapshots[-1].had_too_little_time) and swapped_bytes(smaps) == 0:
                break
        run.known = {name: int(size) for name, size in map(str.split, run.stdout.splitlines())}
        run.smaps = read_smaps(smaps)
        return run

    def rss(self, trace, *options):
        answer = Answer(self.heapprof("rss", trace, "--json", *options))
        self.assertEqual(sum(answer.lines.values()), answer.rss)
        for name, children in answer.children.items():
            self.assertLessEqual(sum(child["bytes"] for child in children), answer.lines[name], name)
        return answer

    def check(self, run, answer, allocator):
        """What holds for every allocator."""
        self.assertEqual((answer.json["source"], answer.json["allocator"]), ("snapshot", allocator))
        # The recorder touches a few pages between the program's look at smaps and the snapshot.
        self.assertAlmostEqual(answer.rss, sum(size for _, _, size in run.smaps), delta=256 * KIB)
        self.assertAlmostEqual(answer.rss, answer.json["snapshot"]["statm_bytes"], delta=answer.rss * 0.01)
        self.assertLessEqual(answer.lines["unknown"], max(answer.rss * 0.01, 200_000))

        # All live blocks, the C library's included: resident or not.
        live = self.report(run.trace)["heap"]["leaked_bytes"]
        outside = answer.json["outside"]
        self.assertEqual(outside["swapped_bytes"], 0)
        self.assertEqual(answer.lines["requested"] + outside["not_resident_bytes"], live)
        self.assertGreaterEqual(answer.lines["requested"], run.known["blocks"])
        # libstdc++ has a pool of 72 KB for exceptions that nobody touches.
        self.assertAlmostEqual(outside["not_resident_bytes"], run.known["untouched"], delta=128 * KIB)

        mapped = {}
        for child in answer.children["mmap"]:
            self.assertEqual(child["name"].split("(")[0] if child["stack"] else "", child["name"].split("(")[0])
            for frame in child["stack"]:
                for function in ("map_cache", "map_index"):
                    if function in frame["function"]:
                        mapped[function] = mapped.get(function, 0) + child["bytes"]
        self.assertEqual(mapped, {name: run.known[name] for name in ("map_cache", "map_index")})

        ring = [child for child in answer.children["shared"] if child["name"].startswith("/memfd:ring")]
        self.assertEqual([child["bytes"] for child in ring], [run.known["shared"]])
        stacks = {child["name"]: child["bytes"] for child in answer.children["stacks"]}
        self.assertAlmostEqual(stacks["other threads"], run.known["stack"], delta=64 * KIB)
        main_stack = sum(size for name, _, size in run.smaps if name == "[stack]")
        self.assertAlmostEqual(stacks["main thread"], main_stack, delta=64 * KIB)

        # Files, without the recorder's: those of its library and of its recording.
        files = {}
        for name, access, size in run.smaps:
            if name.startswith("/") and not name.startswith("/memfd:"):
                files[name] = files.get(name, 0) + size
        own = [name for name in files if name.endswith(("libheapprof.so", ".heapprof"))]
        self.assertEqual(len(own), 2)
        for name, size in files.items():
            if name in own or allocator in name:
                continue
            known = sum(child["bytes"] for child in answer.children["files"] if child["name"] == name)
            # Its .bss is of no file in smaps.
            self.assertGreaterEqual(known, size - 64 * KIB, name)
            self.assertLessEqual(known, size + MIB, name)
        self.assertGreaterEqual(answer.json["written_file_bytes"], run.known["file_copies"])

    def test_glibc(self):
        run = self.recorded()
        answer = self.rss(run.trace)
        self.check(run, answer, "glibc")
        # What malloc_trim(0) would return; glibc has returned nothing of it: it is the heap's middle or end.
        self.assertAlmostEqual(answer.lines["returnable"], run.known["freed"], delta=512 * KIB)
        self.assertLess(answer.lines["held_back"], 64 * KIB)

    def test_other_allocators(self):
        for allocator in ("jemalloc", "tcmalloc", "mimalloc"):
            with self.subTest(allocator=allocator):
                run = self.recorded(library=LIBRARIES[allocator])
                self.check(run, self.rss(run.trace), allocator)

    def test_text(self):
        run = self.recorded()
        answer = self.rss(run.trace)
        text = self.heapprof("rss", run.trace)
        for words in ("(snapshot ", "asked for", "returnable", "map_cache", "map_index", "Outside of the sum",
                      "Stacks of the largest mappings", "Snapshots (--at TIME", "heapprof pins ",
                      answer.json["verdict"][:40]):
            self.assertIn(words, text)
        # Every line that is not empty, and their sum, in bytes.
        self.assertEqual(text.count("%  "), len(re.findall(r"^ +\S+ \S+ +[<\d.]+%  ", text, re.M)))

    def test_moments(self):
        run = self.recorded()
        answer = self.rss(run.trace)
        at = answer.json["snapshot"]["begin_ns"]
        self.assertEqual(self.rss(run.trace, "--at", "100%").json["lines"], answer.json["lines"])
        self.assertEqual(self.rss(run.trace, "--at", f"{at}ns").json["snapshot"]["number"],
                         answer.json["snapshot"]["number"])
        result = self.run_heapprof("rss", run.trace, "--at", "1000")
        self.assertEqual(result.returncode, 2)
        self.assertIn("is after the recording's end", result.stderr)
        result = self.run_heapprof("rss", run.trace, "--at", "-x")
        self.assertEqual(result.returncode, 2)
        result = self.run_heapprof("rss", run.trace, "--at", "x")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no snapshot was taken at a mark 'x'", result.stderr)

    def test_equal_marks(self):
        trace = self.dir / "marks.heapprof"
        program = "import time\nwhile True: bytes(100000); time.sleep(0.002)"
        process = self.popen([sys.executable, "-S", "-c", program], env=harness.clean_environment(
            LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace))

        def has_two():
            """Not each mark has a snapshot."""
            self.run_heapprof("control", trace, "mark", "tick")
            return self.run_heapprof("rss", trace, "--at", "none").stderr.count("'tick'") >= 2
        harness.wait_until(has_two, "fewer than two marks have a snapshot")
        process.kill()
        process.wait()
        result = self.run_heapprof("rss", trace, "--at", "tick")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"marks have the text 'tick'; give the time of one: [\d.]+ ?\w+, [\d.]+")

    def test_without_snapshots(self):
        """Estimated from the last sample."""
        run = self.recorded(SNAPSHOTS=0)
        answer = self.rss(run.trace)
        self.assertEqual((answer.json["source"], answer.json["snapshot"]), ("sample", None))
        self.assertGreater(answer.lines["requested"], 0)
        self.assertIn("lines are estimated", self.heapprof("rss", run.trace))

    def test_compacted(self):
        run = self.recorded()
        exact = self.dir / "exact.heapprof"
        self.heapprof("compact", "--exact", run.trace, "-o", exact)
        self.assertEqual(self.rss(exact).json["lines"], self.rss(run.trace).json["lines"])
        rounded = self.dir / "rounded.heapprof"
        self.heapprof("compact", run.trace, "-o", rounded)
        result = self.run_heapprof("rss", rounded)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("use the original recording, or one compacted with --exact", result.stderr)


if __name__ == "__main__":
    harness.main()
