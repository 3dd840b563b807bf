"""flamegraph.pl and inferno-flamegraph read folded stacks, also of comparisons, without a warning; the total of the
picture equals the report's."""

import html
import re

import consumers
import harness

UNITS = {"peak": "peak_bytes", "leaked": "leaked_bytes", "allocated": "allocated_bytes", "allocations": "allocations",
         "temporary": "temporary"}


PERL = consumers.debian_file("usr/share/perl5/Devel/NYTProf/flamegraph.pl")


def written(name):
    """A name in folded text, without the characters that separate frames and values."""
    return re.sub(r" (?=[\d.]+$)", "\u00a0", name.replace(";", ":"))


class FoldedTests:
    def picture(self, folded):
        return self.run_consumer(*self.command, "--countname", "units", folded)

    def total_of(self, picture):
        """The total of the picture's lowest frame."""
        return int(re.search(r"<title>all \(([\d,]+) units, 100%\)", picture).group(1).replace(",", ""))

    def folded(self, command, *arguments):
        path = self.dir / "stacks.folded"
        self.heapprof(command, *arguments, "--format", "folded", "-o", path, *self.options)
        return path

    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        """The flame graph accepts the selections that report accepts."""
        self.each_selection(self.check, of_mappings=True)

    def check(self, name, trace):
        totals = self.totals(trace)
        for cost in ("leaked",) if name == "many" else UNITS:
            folded = self.folded("flamegraph", trace, "--cost", cost)
            if totals[UNITS[cost]] == 0:
                self.assertEqual(folded.read_text(), "")
                continue
            self.assertEqual(self.total_of(self.picture(folded)), totals[UNITS[cost]], cost)

    def test_nasty_names(self):
        for command in (("flamegraph", self.nasty()), ("diff", self.real(), self.nasty())):
            with self.subTest(command=command[0]):
                picture = self.picture(self.folded(*command, "--cost", "leaked"))
                titles = {html.unescape(title)
                          for title in re.findall(r"<title>(.*?) \([\d,]+ units, [^)]*\)", picture)}
                self.check_nasty_names(titles, changed=self.shown)
                if command[0] == "flamegraph":
                    self.assertNotRegex(picture, r"%; [-+\d]", "the program took the text for a comparison")

    def test_names_are_shown(self):
        picture = self.picture(self.folded("flamegraph", self.real(), "--cost", "leaked"))
        function = self.all_stacks(self.real(), "leaked")[0]["stack"][0]["function"]
        self.assertIn(function.split("(")[0].replace("<", "&lt;").replace(">", "&gt;"), picture)

    def test_comparison(self):
        """Frames are as wide as the second trace's values; growth is red, shrinkage is blue."""
        before, after = self.folder / "plain.heapprof", self.real()
        picture = self.picture(self.folded("diff", before, after, "--cost", "allocated"))
        self.assertEqual(self.total_of(picture), self.totals(after)["allocated_bytes"])
        self.assertRegex(picture, r"\+\d")


@harness.unittest.skipUnless(consumers.inferno(), "inferno-flamegraph: not built (tools/consumers.sh)")
class Inferno(FoldedTests, consumers.Case):
    command = (consumers.inferno(), "--deterministic")

    def shown(self, name):
        return written(name).rstrip().removesuffix("_[k]")  # which marks functions of the kernel


@harness.unittest.skipUnless(PERL, "flamegraph.pl: not fetched (tools/consumers.sh)")
class FlameGraphPl(FoldedTests, consumers.Case):
    command = ("perl", PERL)

    def shown(self, name):
        return written(name).replace("<", "(").replace(">", ")")


if __name__ == "__main__":
    harness.skip_unless(consumers.inferno() or PERL,
                        "neither inferno-flamegraph nor flamegraph.pl is installed (tools/consumers.sh)")
    harness.main()
