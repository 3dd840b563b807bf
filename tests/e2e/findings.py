"""What `leaks` and `report` name first: call sites above helpers, with the sums of all their stacks, and the functions
that keep what they allocate. The program knows what it lost."""

import json

import harness


def name_of(row):
    return harness.plain_name(row["site"]["function"]) if row["site"] else ""


class KnownLeaks(harness.Case):
    """known_leaks: leaks beside caches that hold more."""

    def record_program(self, *arguments, status=0):
        run = self.record(harness.program("known_leaks"), *arguments, status=status)
        self.trace = run.trace
        self.truth = json.loads(run.stdout)

    def leaks(self, *options):
        return json.loads(self.heapprof("leaks", self.trace, "--json", "--top", 0, *options))

    def sums(self, leaks):
        """{function: [bytes, blocks]} of all its lines."""
        sums = {}
        for row in leaks["sites"]:
            of = sums.setdefault(name_of(row), [0, 0])
            of[0] += row["bytes"]
            of[1] += row["blocks"]
        return sums

    def test_call_sites(self):
        self.record_program()
        leaks = self.leaks()
        sums = self.sums(leaks)
        for name in ("open_session", "fill_cache", "turn_over", "grow_table", "descend"):
            self.assertEqual(sums[name], self.truth[name], name)
        # The caches hold ten times as much.
        self.assertEqual(name_of(leaks["sites"][0]), "open_session")
        rows = {name_of(row): row for row in leaks["sites"]}
        self.assertEqual({name: rows[name]["trend"] for name in ("open_session", "fill_cache", "grow_table")},
                         {"open_session": "growing", "fill_cache": "stable", "grow_table": "growing"})
        self.assertLess(rows["fill_cache"]["grew_until_ns"], rows["open_session"]["grew_until_ns"] / 2)
        self.assertEqual(rows["open_session"]["survival"], 1)
        self.assertEqual(rows["grow_table"]["survival"], 1)  # realloc moves the table
        self.assertEqual(rows["open_session"]["origin"], "own")
        # All stacks of a site count, also if their recursion differs, and the largest stack of each site is first.
        self.assertEqual(rows["descend"]["stacks"], 12)
        first = [harness.plain_name(row["stack"][0]["function"]) for row in leaks["top"][:2]]
        self.assertIn("take", first)
        self.assertEqual(sum(row["bytes"] for row in leaks["sites"]) + leaks["suppressed_bytes"],
                         leaks["heap"]["leaked_bytes"])
        path = leaks["common_path"]
        self.assertEqual(harness.plain_name(path["functions"][-1]["function"]), "open_session")
        self.assertEqual([path["bytes"], path["blocks"]], self.truth["open_session"])

    def test_common_paths_on_the_first_screen(self):
        self.record_program()
        blocks = self.truth["open_session"][1]
        def path_below(heading, text):
            lines = text.splitlines()
            at = next((i for i, line in enumerate(lines) if line.startswith(heading)), None)
            self.assertIsNotNone(at, text[:2000])
            self.assertIn(f"in {blocks:,} blocks, allocated by", lines[at])
            return lines[at + 1]
        self.assertRegex(path_below("Look first at", self.heapprof("leaks", self.trace)), r"\bopen_session \(")
        # At the peak the caches hold most, but they do not grow.
        self.assertRegex(path_below("Rose until the peak:", self.heapprof("report", self.trace)),
                         r"\bopen_session \(")

    def test_helpers(self):
        self.record_program()
        helpers = {harness.plain_name(row["function"]): row for row in self.leaks()["helpers"]}
        self.assertEqual(helpers["take"]["reason"], "structure")
        self.assertIn("called by 9 functions", helpers["take"]["explanation"])
        for name in ("main", "one_round", "build_cycle", "use_parts", "open_session"):
            self.assertNotIn(name, helpers)
        all_sites = self.sums(self.leaks("--no-helpers"))
        self.assertEqual(all_sites["take"][1], self.truth["open_session"][1] + self.truth["build_cycle"][1])
        self.assertNotIn("open_session", all_sites)
        mine = self.leaks("--no-helpers", "--helper", "^take$|^open_")
        self.assertEqual({harness.plain_name(row["function"]): row["reason"] for row in mine["helpers"]},
                         {"take": "option", "open_session": "option"})
        self.assertEqual(self.sums(mine)["one_round"], self.truth["open_session"])
        self.assertIn("--helper: invalid regular expression '('",
                      self.run_heapprof("leaks", self.trace, "--helper", "(").stderr)

    def test_keepers(self):
        self.record_program()
        for command in (["leaks"], ["report", "--cost", "leaked"]):
            answer = json.loads(self.heapprof(*command, self.trace, "--json"))
            rows = {harness.plain_name(row["function"]): row for row in answer["keepers"]}
            self.assertEqual([rows["build_cycle"]["bytes"], rows["build_cycle"]["blocks"]], self.truth["build_cycle"])
            self.assertEqual(rows["build_cycle"]["blocks_share"], 1)
            self.assertFalse({"take", "main"} & set(rows))
        peak = json.loads(self.heapprof("report", self.trace, "--json"))
        self.assertIn(name_of(peak["sites"][0]), ("fill_cache", "turn_over"))

    def test_killed(self):
        self.record_program("killed", status=-9)
        self.assertEqual(name_of(self.leaks()["sites"][0]), "open_session")

    def test_after_load(self):
        self.record_program("idle")
        leaks = self.leaks()
        self.assertEqual(name_of(leaks["sites"][0]), "open_session")
        row = leaks["sites"][0]
        self.assertEqual((row["trend"], row["grew_with_load"]), ("stable", True))
        self.assertFalse({name_of(row): row for row in leaks["sites"]}["fill_cache"]["grew_with_load"])


if __name__ == "__main__":
    harness.main()
