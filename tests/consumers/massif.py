"""ms_print reads the massif file: peak and end equal the report's, and its tree has every byte. massif-visualizer
finds the same peak."""

import re
import shutil

import consumers
import harness


class Massif(consumers.Case):
    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        """The export accepts the selections that report accepts."""
        self.each_selection(self.check, of_mappings=True)

    def check(self, name, trace):
        file = self.export("massif", trace)
        totals = self.totals(trace)
        printed = self.run_consumer("ms_print", "--threshold=0", file)
        detailed = re.search(r"Detailed snapshots: \[(.*)\]", printed).group(1)
        peak = int(re.search(r"(\d+) \(peak\)", detailed).group(1))
        rows = {int(row[0]): row for row in re.findall(
            r"^ *(\d+) +([\d.,]+) +([\d,]+) +([\d,]+) +0 +0$", printed, re.M)}
        last = max(rows)
        for number, cost in ((peak, "peak_bytes"), (last, "leaked_bytes")):
            self.assertEqual(int(rows[number][3].replace(",", "")), totals[cost], cost)
        self.assertEqual(max(int(row[3].replace(",", "")) for row in rows.values()), totals["peak_bytes"])
        trees = re.findall(r"^[\d.]+% \(([\d,]+)B\) \(heap allocation functions\)", printed, re.M)
        # Each tree has all bytes of its snapshot.
        numbers = [int(word) for word in re.findall(r"\d+", detailed)]
        self.assertEqual([int(tree.replace(",", "")) for tree in trees],
                         [int(rows[number][3].replace(",", "")) for number in numbers])
        if name in ("plain", "many") and "--from" not in self.options and "--live-at" not in self.options:
            self.assertGreaterEqual(len(numbers), 7)
        self.check_tree(file.read_text())
        if name == "nasty":
            self.check_nasty_names(printed, changed=lambda text: text.replace("#", "\uff03"))
        if name == "real":
            self.assertIn("(ledger_names.cpp:", printed)

    def check_tree(self, text):
        """Children have at most as many bytes as their parent, those of the root exactly as many."""
        path = []
        sums = []
        for line in text.split("\n") + ["end"]:
            node = re.match(r"( *)n(\d+): (\d+) ", line)
            depth = len(node.group(1)) if node else 0
            while len(path) > depth:
                children, size = path.pop()
                below = sums.pop()
                self.assertEqual(children, below[0])
                self.assertLessEqual(below[1], size)
                if not path:
                    self.assertEqual(below[1], size)
            if node:
                if sums:
                    sums[-1][0] += 1
                    sums[-1][1] += int(node.group(3))
                path.append((int(node.group(2)), int(node.group(3))))
                sums.append([0, 0])


@harness.unittest.skipUnless(shutil.which("massif-visualizer") and shutil.which("dbus-daemon"),
                             "massif-visualizer is not installed")
class Visualizer(consumers.Case):
    def test_files_load_with_the_same_peak(self):
        self.each_sample(self.check, leave_out=("empty",))

    def check(self, name, trace):
        output = "\n".join(consumers.window("massif-visualizer", self.export("massif", trace), until="^peak: ",
                                          folder=self.dir))
        self.assertNotRegex(output, "(?i)error|fail|invalid")
        moment = float(re.search(r'^peak: snapshot # \d+ after ([\d.e+]+) "ms"', output, re.M).group(1))
        self.assertAlmostEqual(moment, self.report(trace)["heap"]["peak_time_ns"] / 1e6,
                               delta=max(moment / 1e4, 1e-3))


if __name__ == "__main__":
    harness.skip_unless(shutil.which("ms_print"), "ms_print is not installed (valgrind)")
    harness.main()
