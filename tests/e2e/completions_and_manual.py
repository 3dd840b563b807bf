"""Completions in the shells themselves, manual pages as man and mandoc read them, and docs/reference.md: all are made
from the same description of the commands as --help, and complete."""

import json
import pathlib
import re
import shutil
import subprocess
import unittest

import harness

HEAPPROF = str(harness.HEAPPROF)


class CompletionsAndManual(harness.Case):
    ACTIONS = {"pause", "resume", "mark", "snapshot", "status"}
    RECORDINGS = ["some.heapprof", "some.hprof"]  # the second is from an older version

    def pages(self):
        return set(self.heapprof("manual", "--list").split())

    def commands(self):
        pages = self.heapprof("manual", "--list").split()[1:]
        return {"export" if page.startswith("heapprof-export-") else page.removeprefix("heapprof-") for page in pages}

    def long_options(self, *command):
        help_text = self.heapprof(*command, "--help")
        return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"(?m)^Usage.*$", "", help_text)))

    def script(self, shell):
        path = self.dir / {"bash": "heapprof", "zsh": "_heapprof", "fish": "heapprof.fish"}[shell]
        if not path.exists():
            path.write_text(self.heapprof("completions", shell))
        return path

    def touch_recordings(self):
        for name in self.RECORDINGS:
            (self.dir / name).touch()

    def run_shell(self, *command):
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=self.dir,
                                env=harness.clean_environment(HOME=self.dir, TERM="dumb"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def in_bash(self, *words):
        quoted = " ".join(f"'{word}'" for word in words)
        return self.run_shell("bash", "--norc", "-c", f"source {self.script('bash')}; COMP_WORDS=({quoted}); "
                              f"COMP_CWORD={len(words) - 1}; _heapprof 2>/dev/null; printf '%s\\n' "
                              f"\"${{COMPREPLY[@]}}\"").split()

    def in_fish(self, line):
        out = self.run_shell("fish", "--no-config", "-c", f"source {self.script('fish')}; complete -C '{line}'")
        return [row.split("\t")[0] for row in out.splitlines()]

    def in_zsh(self, line):
        """What zsh's completion system offers, through a pseudo-terminal."""
        self.script("zsh")
        driver = self.dir / "driver.zsh"
        driver.write_text(f"""
zmodload zsh/zpty
zpty session zsh -f -i
zpty -w session 'PS1=; PS2=; fpath=({self.dir} $fpath); autoload -Uz compinit; compinit -u -D'
zpty -w session 'compadd() {{ if [[ ${{@[1,(i)(-|--)]}} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return; fi
  typeset -a __hits; builtin compadd -A __hits "$@"; print -rl -- START-${{^__hits}}-HIT; builtin compadd "$@" }}'
zpty -w session 'zstyle ":completion:*" list-prompt ""; LISTMAX=0; bindkey "^I" complete-word'
# Printed when the line editor has the terminal. Before that, the terminal itself would take ^U and delete the line.
zpty -w session 'zle-line-init() {{ print REA""DY }}; zle -N zle-line-init'
zpty -r session discard '*READY*'
zpty -n -w session '{line}'$'\\t'$'\\x15''echo DO""NE'$'\\n'
# The keys after the tab are read when the completion is done: they clear the line and print a word.
zpty -r session out '*DONE*'
print -r -- $out
zpty -d session
""")
        seconds = 100
        result = subprocess.run(["timeout", str(seconds), "zsh", "-f", str(driver)], capture_output=True, text=True,
                                errors="replace", timeout=seconds + 20, cwd=self.dir,
                                env=harness.clean_environment(HOME=self.dir, TERM="dumb"))
        self.assertNotEqual(result.returncode, 124, f"zsh has not completed {line!r} within {seconds} s")
        return re.findall(r"START-(\S+?)-HIT", result.stdout)

    @unittest.skipUnless(shutil.which("bash"), "bash is not installed")
    def test_bash(self):
        self.assertEqual(set(self.in_bash("heapprof", "")) - {"--help", "-V", "--version", "--recorder-path"},
                         self.commands())
        for command in ("report", "leaks", "record", "check"):
            self.assertEqual(self.long_options(command) - set(self.in_bash("heapprof", command, "--")), set(),
                             command)
        self.assertEqual(set(self.in_bash("heapprof", "report", "--cost", "a")), {"allocated", "allocations"})
        self.assertEqual(set(self.in_bash("heapprof", "report", "--kind", "=", "m")), {"mmap"})
        self.assertIn("pprof", self.in_bash("heapprof", "export", ""))
        self.assertIn("--rows", self.in_bash("heapprof", "export", "csv", "--r"))
        self.assertEqual(self.in_bash("heapprof", "completions", "z"), ["zsh"])
        self.touch_recordings()
        self.assertIn("some.heapprof", self.in_bash("heapprof", "report", "some"))
        self.assertIn("some.heapprof", self.in_bash("heapprof", "report", "-o", "some"))
        self.assertIn("true", self.in_bash("heapprof", "record", "-o", "x", "tru"))
        self.assertIn("true", self.in_bash("heapprof", "record", "--max-depth", "=", "5", "tru"))
        self.assertEqual(set(self.in_bash("heapprof", "control", "s")), set(self.RECORDINGS))
        for where in (["some.heapprof"], ["--pid", "12"], ["--pid", "=", "12"], ["--wait", "1", "some.heapprof"]):
            self.assertEqual(set(self.in_bash("heapprof", "control", *where, "")), self.ACTIONS, where)
            self.assertEqual(self.in_bash("heapprof", "control", *where, "pause", ""), [], where)
        self.assertEqual(self.pages() - set(self.in_bash("heapprof", "manual", "")), set())
        self.assertEqual(self.in_bash("heapprof", "manual", "rep"), ["report"])
        self.assertEqual(set(self.in_bash("heapprof", "help", "")), self.commands())
        self.assertEqual(self.in_bash("heapprof", "help", "export", "sp"), ["speedscope"])
        self.assertEqual(self.in_bash("heapprof", "some"), self.RECORDINGS)
        self.assertIn("some.heapprof", self.in_bash("heapprof", ""))

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        self.assertEqual({word for word in self.in_fish("heapprof ") if not word.startswith("-")}, self.commands())
        for command in ("report", "leaks", "record", "check"):
            self.assertEqual(self.long_options(command) - set(self.in_fish(f"heapprof {command} --")), set(), command)
        self.assertEqual(set(self.in_fish("heapprof report --cost al")), {"allocated", "allocations"})
        self.assertIn("pprof", self.in_fish("heapprof export p"))
        self.assertIn("--rows", self.in_fish("heapprof export csv --r"))
        self.assertEqual(self.in_fish("heapprof completions z"), ["zsh"])
        self.touch_recordings()
        self.assertEqual(self.in_fish("heapprof control s"), self.RECORDINGS)
        for where in ("some.heapprof", "--pid 12", "--pid=12", "--wait 1 some.heapprof"):
            self.assertEqual(set(self.in_fish(f"heapprof control {where} ")), self.ACTIONS, where)
            self.assertEqual(self.in_fish(f"heapprof control {where} pause "), [], where)
        self.assertEqual(self.pages() - set(self.in_fish("heapprof manual ")), set())
        self.assertEqual(self.in_fish("heapprof manual rep"), ["report"])
        self.assertEqual(self.in_fish("heapprof help rep"), ["report"])
        self.assertEqual(self.in_fish("heapprof help export spe"), ["speedscope"])
        self.assertEqual(self.in_fish("heapprof some"), self.RECORDINGS)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        script = self.script("zsh")
        self.run_shell("zsh", "-f", "-n", str(script))
        self.assertEqual(set(self.in_zsh("heapprof co")), {"compact", "control", "completions"})
        self.assertEqual(set(self.in_zsh("heapprof report --cost al")), {"allocated", "allocations"})
        self.touch_recordings()
        self.assertEqual(set(self.in_zsh("heapprof control some.heapprof ")), self.ACTIONS)
        self.assertEqual(set(self.in_zsh("heapprof control --pid 12 ")), self.ACTIONS)
        self.assertEqual(self.pages() - set(self.in_zsh("heapprof manual heapprof")), set())
        self.assertEqual(set(self.in_zsh("heapprof help export spe")), {"speedscope"})
        self.assertEqual(set(self.in_zsh("heapprof some")), set(self.RECORDINGS))

    def test_manual(self):
        pages = self.heapprof("manual", "--list").split()
        self.heapprof("manual", "--directory", self.dir)
        self.assertEqual({f"{page}.1" for page in pages}, {path.name for path in self.dir.glob("*.1")})
        installed = {path.name for path in (harness.BUILD / "analyzer" / "man1").glob("*.1")}
        if installed:
            self.assertEqual(installed, {f"{page}.1" for page in pages})
        for page in pages:
            text = (self.dir / f"{page}.1").read_text()
            self.assertTrue(text.isascii(), page)
            command = page.removeprefix("heapprof-")
            if command in ("report", "leaks", "record", "check"):
                plain = text.replace("\\-", "-")
                self.assertEqual([option for option in self.long_options(command) if option not in plain], [], page)
        self.heapprof("manual", "nothing", status=2)

    def test_reference(self):
        """docs/reference.md is what the program prints. To update: heapprof manual --markdown >docs/reference.md"""
        reference = self.heapprof("manual", "--markdown")
        path = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference.md"
        self.assertEqual(path.read_text(), reference)
        for command in self.commands() - {"export"}:
            self.assertIn(f"\n### heapprof {command}\n", reference)
        for option in self.long_options("check") | self.long_options("record"):
            self.assertIn(f"`{option}", reference)
        for variable in ("HEAPPROF_OUTPUT", "HEAPPROF_EMBEDDED_ALLOCATORS", "HEAPPROF_MAX_FILE_SIZE"):
            self.assertIn(f"| `{variable}` |", reference)

    def test_reference_has_all_options_of_each_command(self):
        """In the command's table, or in that of a group that many commands share, to which the command links. The
        link says which options of the group the command does not have."""
        reference = self.heapprof("manual", "--markdown")

        def listed(text):
            return {name for line in text.splitlines() if line.startswith("| `")
                    for name in re.findall(r"`(--[\w-]+)", line.split(" | ")[0])}
        sections = dict(re.findall(r"(?ms)^### heapprof ([^\n]+)\n(.*?)(?=^##)", reference))
        groups = dict(re.findall(r"(?ms)^## (Call sites|Selection|Symbols)\n(.*?)(?=^## )", reference))
        self.assertEqual(len(groups), 3)
        self.assertGreater(len(sections), 30)
        for command, text in sections.items():
            options = listed(text)
            for name, group in groups.items():
                if link := re.search(rf"\[{name.lower()}\]\(#[\w-]+\)(?: \(not ([^)]*)\))?", text):
                    options |= listed(group) - set(re.findall(r"`(--[\w-]+)`", link[1] or ""))
            help_text = self.heapprof(*command.split(), "--help")
            shown = {name for names in re.findall(r"(?m)^  (-[^ ,]+(?:, -[^ ,]+)*)", help_text)
                     for name in re.findall(r"--[\w-]+", names)}
            self.assertEqual(options, shown - {"--help"}, command)
        self.assertEqual(reference.count("| `--helper REGEX` |"), 1)

    def test_json_page(self):
        """docs/json.md lists every key that commands write, except the old names of renamed ones."""
        old = {"command_line_cut", "growth", "kept", "released_blocks", "not_released", "released", "crossed",
               "released_by_itself", "released_by_others", "released_of_others", "released_by", "gaps",
               "letter_waiting", "place"}
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "json.md").read_text()
        page = re.sub(r"(?s)```.*?```", "", page)
        listed = {key for code in re.findall(r"`([^`]+)`", page) for key in re.findall(r"[a-z_]+", code)}

        def keys_of(value):
            if isinstance(value, list):
                return set().union(*map(keys_of, value))
            if not isinstance(value, dict):
                return set()
            own = {key for key in value if not key.startswith("HEAPPROF_")}
            return own.union(*map(keys_of, value.values()))

        run = self.record(harness.program("ledger_threads"), 300, 1, 2, 1)
        trace = run.trace
        for command in (["info"], ["report"], ["leaks"], ["pins"], ["histogram"], ["churn"], ["reallocs"],
                        ["threads"], ["frees"], ["timeline"], ["check", "--max-peak", "1G"], ["control", "status"],
                        ["report", "--by", "function", "--columns", "self,over-time"], ["tree"], ["blocks"],
                        ["callers", "main"], ["source"], ["source", "sites.h:1"], ["rss"],
                        ["timeline", "--resident"], ["top", "--once"], ["diff", trace]):
            words = [command[0], trace, *command[1:], "--json"]
            document = json.loads(self.heapprof(*words))
            self.assertEqual(keys_of(document) - listed - old, set(), command)
            self.assertEqual(document["format_version"], 1, command)
        moments = self.heapprof("diff", f"{trace}@20%", f"{trace}@80%", "--survivors", "--json")
        self.assertEqual(keys_of(json.loads(moments)) - listed - old, set())

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc(self):
        self.heapprof("manual", "--directory", self.dir)
        pages = sorted(str(path) for path in self.dir.glob("*.1"))
        result = subprocess.run(["mandoc", "-Tlint", "-W", "warning", *pages], capture_output=True, text=True,
                                timeout=60)
        self.assertEqual(result.stdout + result.stderr, "")

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_man(self):
        self.heapprof("manual", "--directory", self.dir)
        for path in self.dir.glob("*.1"):
            result = subprocess.run(["man", "--warnings", "-l", str(path)], capture_output=True, text=True,
                                    timeout=60,
                                    env=harness.clean_environment(MANWIDTH="80", LC_ALL="C.UTF-8"))
            self.assertEqual((result.returncode, result.stderr), (0, ""), path.name)
            self.assertIn("SYNOPSIS", result.stdout, path.name)
            self.assertEqual([line for line in result.stdout.splitlines() if len(line) > 80], [], path.name)
            # A page lists the exit statuses of its command only.
            status = " ".join(result.stdout.split("EXIT STATUS")[1].split())
            self.assertEqual("A limit of" in status, path.stem in ("heapprof", "heapprof-check"), path.name)
            self.assertEqual("The trace could not" in status, path.stem.removeprefix("heapprof-") not in
                             ("record", "install-secure", "completions", "manual", "control", "help"),
                             path.name)


if __name__ == "__main__":
    harness.main()
