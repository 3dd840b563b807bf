#!/usr/bin/env python3
"""Break rules of the recorder of Python frames, one at a time, and require that a test fails.

usage: tools/campaign/python_rules.py [--only RULE,...] [--build DIR] [--work DIR] [-o FILE.md]

The recorder shows wrong lines, or wrong places of lines, if one of its rules does not hold. This command shows that a
test would notice it. preload/python/broken_rule.h says what each rule is. For each of them:

1. The end-to-end test that judges the rule runs with the recorder of the build directory. It must pass.
2. The recorder is built with the broken rule (-DHEAPPROF_BROKEN_RULE=RULE).
3. The same test runs with this recorder. It must fail.

Both runs use the newest interpreter of the machine that the rule concerns.

--only RULE   names of rules (see below), separated by commas; default: all
--build DIR   build directory with heapprof, the recorder and the tests' programs; default: build/ of this tree
--work DIR    directory in which recorders with a broken rule are built, and kept; default: a temporary one
-o FILE.md    also write the table to this file

Prints a table with the results of both runs. Exit status 1: a test passed although its rule was broken, it failed with
the rule, it did not run, or there is no interpreter for it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests/support"))
OLDEST, NEWEST = (3, 8), (3, 15)


@dataclass(frozen=True)
class Judge:
    file: str  # of tests/e2e
    test: str  # Class.test
    first: tuple = OLDEST  # the versions that the rule concerns
    last: tuple = NEWEST


JUDGES = {
    "kInstruction": Judge("python_objects.py", "LiveObjects.test_live_objects", first=(3, 12)),
    "kCodeVersion": Judge("python_frames.py", "Frames.test_reused_code", first=(3, 12)),
    "kFreedCode": Judge("python_frames.py", "Frames.test_reused_code", first=(3, 10), last=(3, 11)),
    "kPlace": Judge("python_frames.py", "Frames.test_places", first=(3, 10)),
    "kHidden": Judge("python_frames.py", "Frames.test_frames", first=(3, 11)),
    "kForkedChild": Judge("python_hazards.py", "Hazards.test_forks"),
}


def rules_and_judges():
    """For --help."""
    lines = ["rules, the tests that judge them, and the versions of Python that they concern:"]
    for rule, judge in JUDGES.items():
        first, last = (".".join(map(str, version)) for version in (judge.first, judge.last))
        lines.append(f"  {rule:13} {judge.file} {judge.test}, {first} to {last}")
    return "\n".join(lines)


def interpreter_for(judge, interpreters):
    """The newest one that the rule concerns, or None."""
    return max((python for python in interpreters if judge.first <= python.version[:2] <= judge.last),
               key=lambda python: python.version, default=None)


def execute(command, what, **options):
    run = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", **options)
    if run.returncode:
        sys.exit(f"error: {what}\n{run.stdout[-4000:]}")
    return run.stdout


def build_recorder(rule, work):
    """The recorder with a broken rule."""
    directory = work / "build"
    broken = f"-Dcpp_args=-DHEAPPROF_BROKEN_RULE={rule}"
    if (directory / "build.ninja").exists():
        execute(["meson", "configure", directory, broken], "meson configure failed")
    else:
        execute(["meson", "setup", directory, TREE, broken, "-Danalyzer=false", "-Dtests=false"],
                "meson setup failed")
    execute(["ninja", "-C", directory, "preload/libheapprof.so"], f"the recorder does not compile with {rule}")
    return directory / "preload" / "libheapprof.so"


def check_recorder(library, python, heapprof, work):
    """Exits unless the recorder records lines: a judge that fails because nothing is recorded shows nothing."""
    trace = work / "check.heapprof"
    trace.unlink(missing_ok=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HEAPPROF_")}
    execute([python.path, "-c", "bytearray(100000)"], f"{library} ends the interpreter",
            env={**environment, "LD_PRELOAD": str(library), "HEAPPROF_OUTPUT": str(trace)})
    info = json.loads(execute([heapprof, "info", "--json", trace], "the recording cannot be read"))
    if not any(one["frames_recorded"] for one in info["python"]):
        sys.exit(f"error: {library} records no lines of {python}")


def run_judge(judge, python, build, target):
    """("passed" or "failed", and why). `target`: the directory with the recorder."""
    run = subprocess.run([sys.executable, TREE / "tests/e2e" / judge.file, judge.test], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, errors="replace",
                         env={**os.environ, "HEAPPROF_TEST_BUILD": str(build), "HEAPPROF_TEST_TARGET": str(target),
                              "HEAPPROF_TEST_PYTHONS": python.path, "PYTHONPATH": str(TREE / "tests/support"),
                              "PYTHONDONTWRITEBYTECODE": "1"})
    return verdict(judge, run.returncode, run.stdout)


def verdict(judge, status, output):
    """("passed" or "failed", and why) of a run of the judge. It must have run: a skipped one shows nothing."""
    if status == 0 and "skipped case:" not in output and re.search(r"^Ran [1-9]", output, re.M):
        return "passed", ""
    test = judge.test.rpartition(".")[2]
    if status == 1 and re.search(rf"^(FAIL|ERROR): {test}\b", output, re.M):
        why = re.search(r"^[\w.]*(?:Error|Malformed)\b.*", output, re.M)
        return "failed", why.group(0)[:100] if why else ""
    sys.exit(f"error: {judge.file} {judge.test} did not run: exit status {status}\n{output[-4000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog=rules_and_judges(),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="RULE,...", default=",".join(JUDGES),
                        help="names of rules, separated by commas")
    parser.add_argument("--build", metavar="DIR", default=TREE / "build", help="build directory")
    parser.add_argument("--work", metavar="DIR",
                        help="directory for recorders with a broken rule; default: a temporary one")
    parser.add_argument("-o", "--output", metavar="FILE.md", help="also write the table to this file")
    options = parser.parse_args()
    rules = options.only.split(",")
    if unknown := set(rules) - set(JUDGES):
        parser.error(f"unknown rule '{min(unknown)}'; expected {', '.join(JUDGES)}")
    build = Path(options.build).resolve()
    heapprof = build / "analyzer" / "heapprof"
    for path in (heapprof, build / "preload" / "libheapprof.so", build / "tests" / "programs"):
        if not path.exists():
            sys.exit(f"error: {path} does not exist: build it, or set --build")
    os.environ["HEAPPROF_TEST_BUILD"] = str(build)
    import pythons
    lines = ["| broken rule | test | interpreter | with the rule | without it |", "|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    good = True
    with tempfile.TemporaryDirectory(prefix="heapprof-rules-") as folder:
        work = Path(options.work or folder).resolve()
        work.mkdir(parents=True, exist_ok=True)
        # The judges take the recorder from here, and all else from the build directory.
        target = Path(folder) / "target"
        (target / "preload").mkdir(parents=True)
        (target / "tests").symlink_to(build / "tests")
        with_rule = {}
        for rule in rules:
            judge = JUDGES[rule]
            python = interpreter_for(judge, pythons.supported_pythons())
            row = [rule, f"{judge.file} {judge.test}"]
            if python is None:
                good = False
                row += ["**missing**", "", ""]
            else:
                if (judge.test, python) not in with_rule:
                    with_rule[judge.test, python] = run_judge(judge, python, build, build)
                library = build_recorder(rule, work)
                check_recorder(library, python, heapprof, work)
                (target / "preload" / "libheapprof.so").unlink(missing_ok=True)
                (target / "preload" / "libheapprof.so").symlink_to(library)
                results = with_rule[judge.test, python], run_judge(judge, python, build, target)
                good &= [result for result, _ in results] == ["passed", "failed"]
                row += [".".join(map(str, python.version))]
                row += [f"{result}: {why}".replace("|", "\\|") if why else result for result, why in results]
            lines.append(f"| {' | '.join(row)} |")
            print(lines[-1], flush=True)
    if options.output:
        Path(options.output).write_text("\n".join(lines) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
