"""The JavaScript of dh_view, in node with a stub of the page: its tree has the report's totals at the root, and one
leaf for each stack."""

import json
import os
import shutil

import consumers
import harness

VIEWER = next((path for path in ("/usr/libexec/valgrind/dh_view.js", "/usr/lib/valgrind/dh_view.js",
                                 "/usr/lib/x86_64-linux-gnu/valgrind/dh_view.js") if os.path.exists(path)), None)
# A stub of the document that accepts every call.
PAGE = r"""
const element = () => new Proxy(function () {}, {
  get: (target, key) => key === Symbol.toPrimitive ? () => '' : key in target && key !== 'length' && key !== 'name'
    ? target[key] : key === 'childNodes' ? [] : (target[key] = element()),
  set: (target, key, value) => { target[key] = value; return true; },
  apply: () => element(), construct: () => element() });
const fs = require('fs'), vm = require('vm');
const context = vm.createContext({document: element(), window: element(), console, performance, FileReader: element(),
                                  Intl, file: fs.readFileSync(process.argv[3], 'utf8')});
vm.runInContext(fs.readFileSync(process.argv[2], 'utf8') + `
gSelect = {childNodes: gSelectData.map(() => ({})), selectedIndex: 0};
gData = JSON.parse(file);
buildTree();
const leaves = tree => tree._kids ? tree._kids.reduce((sum, kid) => sum + leaves(kid), 0) : 1;
globalThis.result = JSON.stringify({root: gRoot, leaves: leaves(gRoot), command: gData.cmd, frames: gData.ftbl,
    lifetimes: gData.pps.map(p => p.tl)},
                        (key, value) => key === '_kids' || key === '_frames' ? undefined : value);
`, context);
console.log(context.result);
"""


class Dhat(consumers.Case):
    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        """The export accepts the selections that report accepts."""
        self.each_selection(self.check, of_mappings=False)
        self.refuses_mappings("dhat")

    def check(self, name, trace):
        file = self.export("dhat", trace)
        totals = self.totals(trace)
        page = self.dir / "page.js"
        page.write_text(PAGE)
        seen = json.loads(self.run_consumer("node", page, VIEWER, file))
        root = seen["root"]
        for field, cost in (("_totalBytes", "allocated_bytes"), ("_totalBlocks", "allocations"),
                            ("_atTGmaxBytes", "peak_bytes"), ("_atTGmaxBlocks", "peak_blocks"),
                            ("_atTEndBytes", "leaked_bytes"), ("_atTEndBlocks", "leaked_blocks")):
            self.assertEqual(root[field], totals[cost], field)
        if name == "nasty":
            self.check_nasty_names("\n".join(seen["frames"]))
        if name == "many":
            self.assertEqual(seen["leaves"], self.many_stacks)
        if name == "plain" and not self.options:
            # 25 blocks of 1000 bytes were never live at the same time: the stack's maximum is one of them and the
            # other thread's block.
            data = consumers.load(file)
            stack = next(pp for pp in data["pps"] if pp["tbk"] == 26)
            self.assertEqual((stack["tb"], stack["mb"], stack["mbk"]), (32_777, 8_777, 2))
            self.assertEqual(stack["tl"], 74_000)

    def test_lines(self):
        data = consumers.load(self.export("dhat", self.real()))
        self.assertEqual(data["ftbl"][0], "[root]")
        self.assertTrue(any("(ledger_names.cpp:" in frame for frame in data["ftbl"]))


if __name__ == "__main__":
    harness.skip_unless(VIEWER, "dh_view.js is not installed (valgrind)")
    harness.skip_unless(shutil.which("node"), "dh_view.js needs node")
    harness.main()
