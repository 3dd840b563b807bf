"""Libraries that bypass the recorder's hooks by the rules of symbol lookup: loaded with RTLD_DEEPBIND, loaded into
another namespace (dlmopen), or defining malloc and linked with -Bsymbolic. Their allocations are recorded exactly,
with complete stacks, also if other code frees the blocks."""

import os
from collections import defaultdict

import harness

harness.skip_unless(os.uname().machine == "x86_64", "functions are patched on x86-64 only")
# The call sites of bypass_plugin in one round: blocks and bytes.
ROUND = {"site_bypass_malloc": (2, 1000 + 70), "site_bypass_realloc": (2, 300_000 + 5000),
         "site_bypass_calloc": (1, 200),
         "site_bypass_aligned": (1, 320)}


class Bypass(harness.Case):
    def check(self, how, rounds, threads, program="bypass", plugin="bypass_plugin.so", **variables):
        run = self.record(harness.program(program), how, harness.program(plugin), rounds, threads, **variables)
        self.assertEqual(run.stderr, "")
        report = self.report(run.trace)
        self.assert_sound(report)
        self.assertEqual(report["heap"]["failed"], rounds)
        expected = {site: (blocks * rounds, size * rounds) for site, (blocks, size) in ROUND.items()}
        taken = int(run.stdout.split()[-1])
        expected["site_program"] = (taken, taken * 100)
        sums = defaultdict(lambda: (0, 0))
        for cost, only in (("allocated", None), ("leaked", "site_bypass_aligned")):
            for row in self.all_stacks(run.trace, cost):
                functions = [frame["function"] for frame in row["stack"]]
                site = harness.site_of(row["stack"])
                if site is None:
                    continue
                self.assertTrue(only is None or site == only, row)
                # The site called the allocator: there is no frame of the recorder or the allocator in between.
                self.assertEqual(functions[0].split("(")[0], site, functions)
                self.assertIsNone(row["truncated"], row)
                self.assertTrue({"main", "start_thread"} & set(functions), functions)
                if only is None:
                    sums[site] = tuple(map(sum, zip(sums[site], (row["blocks"], row["bytes"]))))
                else:
                    self.assertEqual((row["blocks"], row["bytes"]), expected[site])
        self.assertEqual(dict(sums), expected)
        return report

    def each(self, how, *rest, **more):
        report = None
        for rounds, threads in ((1, 0), (10, 8)):
            for shadow in ("1", "0"):
                with self.subTest(rounds=rounds, threads=threads, shadow=shadow):
                    report = self.check(how, rounds, threads, *rest, SHADOW_STACK=shadow, **more)
        return report

    def test_deepbind(self):
        for how in ("deepbind", "lazy"):
            report = self.each(how)
            self.assertEqual(report["integrity"]["notes"], [])

    def test_namespace(self):
        report = self.each("dlmopen")
        self.assertTrue([note for note in report["integrity"]["notes"]
                         if note.startswith("embedded allocator: the libc of another namespace in ")],
                        report["integrity"])

    def test_symbolic(self):
        for kind in ("-Bsymbolic", "-Bsymbolic-functions"):
            self.each("linked", f"bypass_linked{kind}", f"libbypass{kind}.so")


if __name__ == "__main__":
    harness.main()
