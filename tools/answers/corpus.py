"""Cases of the corpus: what leaks in which commit of which project, and the lines that answer the question.

Each directory of `cases/` is one case. Its `case.toml` has these keys:

project, repository   name and URL of the project
fix                   commit that mends the leak
built                 commit that is built and recorded (default: the first parent of `fix`)
fixed                 commit with the fix, for the proof (default: `fix`)
kind                  "leak": memory that nothing frees; "bloat": memory that is held for longer than it is used
language              of the code that leaks
traits                what makes the case hard, as a list of short phrases
what                  what leaks, and why, by reading the fix
answer                regular expressions; a line that matches one of them names a right function
answer_why            why these functions, and not others, are the answer
paths                 parts of the sources that the build needs (default: all)
flags                 compiler flags (default "-O2 -g"); build.sh gets them as CFLAGS
program               command that is recorded; $OUT (what build.sh installed), $INPUT (what prepare.py wrote), $RUN
                      (an empty directory for each run) and $CASE (the directory of the case) are replaced
environment           variables for it
freed_at_end          true: the program frees the memory before it ends, so that no leak is left to be found there
load                  true: load.py generates load while the program runs; the program is a server

`build.sh` builds the sources, which are its working directory, and installs into $OUT. `prepare.py` writes input
files into $INPUT once.
"""
import dataclasses
import os
import pathlib
import re
import tomllib

# Of a name that is cut short.
MIN_LETTERS = 10

CASES = pathlib.Path(__file__).resolve().parent / "cases"


class CorpusError(Exception):
    """A case is wrong, or cannot be built or run here; the message says why and what to do."""


@dataclasses.dataclass
class Case:
    name: str
    project: str
    repository: str
    fix: str
    kind: str
    language: str
    what: str
    answer: list[str]
    answer_why: str
    program: list[str]
    traits: list[str] = dataclasses.field(default_factory=list)
    built: str = ""
    fixed: str = ""
    paths: list[str] = dataclasses.field(default_factory=list)
    flags: str = "-O2 -g"
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    freed_at_end: bool = False
    load: bool = False

    @property
    def directory(self) -> pathlib.Path:
        return CASES / self.name

    @property
    def built_commit(self) -> str:
        return self.built or f"{self.fix}^"

    @property
    def fixed_commit(self) -> str:
        return self.fixed or self.fix

    def answers(self, line: str) -> bool:
        """Whether the line names a right function. A name that is cut short by an ellipsis counts, too."""
        if any(re.search(pattern, line) for pattern in self.answer):
            return True
        beginnings = re.findall(rf"\b(\w{{{MIN_LETTERS},}})…", line)
        names = [name for pattern in self.answer
                 for name in re.findall(rf"\w{{{MIN_LETTERS},}}", pattern.replace(r"\b", " "))]
        return any(name.startswith(beginning) for beginning in beginnings for name in names)


def cache_directory() -> pathlib.Path:
    """Where sources, builds and traces are kept: $HEAPPROF_ANSWERS_CACHE, or heapprof-answers in the user's cache."""
    chosen = os.environ.get("HEAPPROF_ANSWERS_CACHE")
    if chosen:
        return pathlib.Path(chosen).resolve()
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "heapprof-answers"


def read_case(directory: pathlib.Path) -> Case:
    path = directory / "case.toml"
    with path.open("rb") as file:
        values = tomllib.load(file)
    try:
        case = Case(name=directory.name, **values)
    except TypeError as error:
        raise CorpusError(f"{path}: {error}") from None
    if case.kind not in ("leak", "bloat"):
        raise CorpusError(f"{path}: invalid kind '{case.kind}'; expected leak or bloat")
    if not re.fullmatch("[0-9a-f]{40}", case.fix):
        raise CorpusError(f"{path}: invalid fix '{case.fix}'; expected the 40 digits of a commit")
    return case


def read_cases(names: list[str]) -> list[Case]:
    """The cases of these names, or all."""
    directories = sorted(path.parent for path in CASES.glob("*/case.toml"))
    unknown = set(names) - {directory.name for directory in directories}
    if unknown:
        known = ", ".join(directory.name for directory in directories)
        raise CorpusError(f"unknown case '{sorted(unknown)[0]}'; expected one of {known}")
    return [read_case(directory) for directory in directories if not names or directory.name in names]
