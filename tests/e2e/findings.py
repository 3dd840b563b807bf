"""What `leaks` and `report` name first: call sites above helpers, with the sums of all their stacks, and the functions
that keep what they allocate. The program knows what it lost."""

import json

import harness


def name_of(row):
    return harness.plain_name(row["site"]["function"]) if row["site"] else ""


class KnownLeaks(harness.Case):
    """known_leaks: leaks beside caches that hold more."""

    def record_program(self, *arguments, status=0):
        run = self.recorded_evenly("open_session", harness.program("known_leaks"), *arguments, status=status,
                                   until_end="idle" not in arguments)
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


class FewCallers(harness.Case):
    """few_callers: a helper that has enough callers only in the whole recording. A stack has one call site, whatever
    is selected."""

    SELECTIONS = (("--from", "later"), ("--from", "later", "--cost", "allocated"), ("--thread", "worker"),
                  ("--min-size", "1000"), ("--live-at", "later"), ("--from", "later", "--survivors"),
                  ("--from", "later", "--max-lifetime", "1s"), ("--function", "user_2"),
                  ("--kind", "all", "--from", "later"))

    def sites(self, *arguments):
        return {harness.plain_name(row["name"]) for row in json.loads(self.heapprof(*arguments, "--json"))["rows"]}

    def check(self, trace):
        whole = self.sites("report", trace, "--by", "site")
        self.assertLessEqual({f"user_{n}" for n in range(8)}, whole)
        self.assertNotIn("take", whole)
        for selection in self.SELECTIONS:
            sites = self.sites("report", trace, "--by", "site", *selection)
            self.assertLessEqual(sites, whole, selection)
            self.assertTrue(any(name.startswith("user_") for name in sites), (selection, sites))
        return whole

    def test_one_name_whatever_is_selected(self):
        trace = self.record(harness.program("few_callers")).trace
        whole = self.check(trace)
        slice_of = ("--from", "later")
        def names(*arguments):
            return {name_of(row) for row in json.loads(self.heapprof(*arguments, "--json"))["sites"]}
        for command in ("report", "leaks", "churn"):
            sites = names(command, trace, *slice_of)
            self.assertIn("user_0", sites, command)
            self.assertLessEqual(sites, whole, command)
        diff = json.loads(self.heapprof("diff", f"{trace}@later", f"{trace}@end", "--json"))
        self.assertEqual({row["name"] for row in diff["sites"]}, {"user_0", "user_1"})
        tree = self.heapprof("tree", trace, *slice_of, "--json")
        self.assertNotIn('"take"', tree)
        for answer in (self.heapprof("query", trace, *slice_of, "SELECT name FROM call_sites", "--csv"),
                       self.heapprof("blocks", trace, *slice_of, "--csv")):
            self.assertRegex(answer, r"\buser_0\b")
            self.assertNotRegex(answer, r"(^|,)take\b")
        # The helpers of a part are those of the whole, with their figures.
        def helpers(*options):
            return json.loads(self.heapprof("report", trace, *options, "--json"))["helpers"]
        self.assertEqual(helpers(*slice_of), helpers())
        self.assertEqual(self.sites("report", trace, "--by", "site", "--no-helpers", *slice_of) & {"take", "user_0"},
                         {"take"})

    def test_with_an_index_and_compacted(self):
        trace = self.record(harness.program("few_callers")).trace
        compacted = self.dir / "compacted.heapprof"
        self.heapprof("compact", trace, "-o", compacted)
        self.check(compacted)
        self.heapprof("index", trace)
        self.check(trace)

    def test_several_recordings(self):
        traces = [self.record(harness.program("few_callers")).trace for _ in range(2)]
        sites = self.sites("report", *traces, "--by", "site", "--min-size", "1000")
        self.assertLessEqual({"user_4", "user_5"}, sites)
        self.assertNotIn("take", sites)


if __name__ == "__main__":
    harness.main()
