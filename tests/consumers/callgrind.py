"""callgrind_annotate: each event's total and the sums per function equal the report's, and it prints no warning.
KCachegrind loads every file without a warning."""

import re
import shutil

import consumers
import harness

EVENTS = {"PeakBytes": "peak_bytes", "PeakBlocks": "peak_blocks", "LeakedBytes": "leaked_bytes",
          "LeakedBlocks": "leaked_blocks", "AllocatedBytes": "allocated_bytes", "Allocations": "allocations",
          "Temporary": "temporary"}


def figures(text):
    return [0 if word == "." else int(word.replace(",", "")) for word in re.sub(r"\([^)]*\)", "", text).split()]


class Callgrind(consumers.Case):
    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        """The export accepts the selections that report accepts."""
        self.each_selection(self.check, of_mappings=True)

    def rows(self, printed):
        """{name: figures} of the printed lines, including PROGRAM TOTALS."""
        number = r"(?:[\d,]+|\.)(?: \([ \d.]+%\))?"
        found = {}
        for line in printed.splitlines():
            match = re.match(rf"^ *({number}(?: +{number}){{6}}) +(\S.*)$", line)
            if match:
                found.setdefault(match.group(2), []).append(figures(match.group(1)))
        return found

    def check(self, name, trace):
        file = self.export("callgrind", trace)
        totals = self.totals(trace)
        wanted = [totals[cost] for cost in EVENTS.values()]
        printed = self.run_consumer("callgrind_annotate", "--auto=no", "--threshold=100", "--show-percs=no", file)
        self.assertRegex(printed, r"Events recorded: +" + " ".join(EVENTS))
        rows = self.rows(printed)
        # "(calculated)" if all figures are 0.
        totals_row = next(place for place in rows if place.startswith("PROGRAM TOTALS"))
        self.assertEqual(rows.pop(totals_row), [wanted])
        own = [sum(column) for column in zip(*(row for several in rows.values()
                                               for row in several))] or [0] * len(wanted)
        self.assertEqual(own, wanted)
        if totals["allocations"]:
            inclusive = self.rows(self.run_consumer("callgrind_annotate", "--auto=no", "--threshold=100",
                                                    "--inclusive=yes",
                                                    "--show-percs=no", "--tree=both", file))
            if name == "plain":  # parse is recursive; main calls almost everything
                main = [row for place, several in inclusive.items() if "demo+0x100" in place for row in several]
                self.assertIn(wanted, main)
        if name == "nasty":
            # It strips blanks around a name.
            self.check_nasty_names(printed, changed=str.strip)
        if name == "real":
            self.assertIn("ledger_names.cpp:", printed)


@harness.unittest.skipUnless(shutil.which("kcachegrind") and shutil.which("dbus-daemon"),
                             "KCachegrind is not installed")
class KCachegrind(consumers.Case):
    def test_files_load_without_a_warning(self):
        self.each_sample(self.check)

    def check(self, name, trace):
        # After loading it shows the tip of the day.
        messages = consumers.window("kcachegrind", self.export("callgrind", trace), until=r"support raise\(\)",
                                folder=self.dir)
        self.assertEqual([line for line in messages if not line.startswith("Selected ")], [])


if __name__ == "__main__":
    harness.skip_unless(shutil.which("callgrind_annotate"), "callgrind_annotate is not installed (valgrind)")
    harness.main()
