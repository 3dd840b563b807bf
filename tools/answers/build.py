#!/usr/bin/env python3
"""Fetches and builds the cases of the corpus (see corpus.py).

usage: tools/answers/build.py [--fixed] [--jobs N] [CASE...]

Sources come from the repositories of the projects, by `git clone`. $HEAPPROF_ANSWERS_MIRRORS can name a directory of
bare clones, called OWNER+NAME/repo, which is used instead where it has the repository. Everything goes to the cache
directory ($HEAPPROF_ANSWERS_CACHE). --fixed also builds the commit that mends each case, for judge.py --prove.
Needs on Debian 12: build-essential git cmake autoconf automake libtool pkg-config bison flex libevent-dev
libboost-dev libncurses-dev libssl-dev openssl python3-dev, and for the cases in Rust a cargo that is newer than
Debian's (1.95 was used).
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

import corpus


def clone(repository: str) -> pathlib.Path:
    """A bare clone of the repository: a mirror on this machine, or one in the cache."""
    owner_and_name = "+".join(repository.removesuffix(".git").rstrip("/").split("/")[-2:])
    mirrors = os.environ.get("HEAPPROF_ANSWERS_MIRRORS")
    if mirrors and (pathlib.Path(mirrors) / owner_and_name / "repo").is_dir():
        return pathlib.Path(mirrors) / owner_and_name / "repo"
    path = corpus.cache_directory() / "repositories" / owner_and_name
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        subprocess.run(["git", "clone", "--quiet", "--bare", repository, unfinished], check=True)
        unfinished.rename(path)
    return path


def resolve(repository: pathlib.Path, revision: str) -> str:
    command = ["git", f"--git-dir={repository}", "rev-parse", "--verify", f"{revision}^{{commit}}"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise corpus.CorpusError(f"{repository}: no commit {revision}; fetch the repository again")
    return result.stdout.strip()


def run_logged(command: list, log, **keywords) -> None:
    result = subprocess.run([str(part) for part in command], stdout=log, stderr=subprocess.STDOUT,
                            stdin=subprocess.DEVNULL, **keywords)
    if result.returncode != 0:
        raise corpus.CorpusError(f"'{command[0]}' failed with status {result.returncode}; see {log.name}")


def check_out(repository: pathlib.Path, commit: str, paths: list[str], directory: pathlib.Path) -> None:
    """Write the files of the commit. `git archive` would leave out what .gitattributes excludes from releases."""
    environment = dict(os.environ, GIT_DIR=str(repository), GIT_WORK_TREE=str(directory),
                       GIT_INDEX_FILE=str(directory.with_suffix(".index")))
    names = subprocess.run(["git", "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, "--", *paths],
                           env=environment, capture_output=True, check=True).stdout
    subprocess.run(["git", "read-tree", commit], env=environment, check=True)
    result = subprocess.run(["git", "checkout-index", "-z", "--stdin", "--quiet"], env=environment, input=names,
                            cwd=directory, capture_output=True, text=False)
    directory.with_suffix(".index").unlink()
    if result.returncode != 0:
        raise corpus.CorpusError(f"{repository}: commit {commit} cannot be checked out; is the clone complete? "
                                 f"{result.stderr.decode(errors='replace')[-300:]}")


def build(case: corpus.Case, revision: str, jobs: int) -> pathlib.Path:
    """Build the revision of the case, unless that was done before with the same build.sh. Return what is $OUT."""
    repository = clone(case.repository)
    commit = resolve(repository, revision)
    out = corpus.cache_directory() / "builds" / case.name / commit[:12]
    # A build depends on every file of the case but the description, the load and the input.
    inputs = {path.name: path.read_bytes() for path in case.directory.iterdir()
              if path.is_file() and path.name not in ("case.toml", "load.py", "prepare.py")}
    stamp = repr((case.flags, case.paths, sorted(inputs.items())))
    stamp_file = out / ".stamp"
    if stamp_file.is_file() and stamp_file.read_text() == stamp:
        return out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    source = corpus.cache_directory() / "sources" / case.name / commit[:12]
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    check_out(repository, commit, case.paths, source)
    environment = dict(os.environ, OUT=str(out), CASE=str(case.directory), CFLAGS=case.flags, CXXFLAGS=case.flags,
                       JOBS=str(jobs))
    with (out / "build.log").open("w") as log:
        run_logged(["bash", "-euxo", "pipefail", case.directory / "build.sh"], log, cwd=source, env=environment)
    stamp_file.write_text(stamp)
    return out


def prepare(case: corpus.Case) -> pathlib.Path:
    """Write the input files of the case, unless the same prepare.py has done so. Return what is $INPUT."""
    directory = corpus.cache_directory() / "inputs" / case.name
    script = case.directory / "prepare.py"
    stamp_file = directory / ".stamp"
    stamp = script.read_text() if script.is_file() else ""
    if not stamp_file.is_file() or stamp_file.read_text() != stamp:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        if script.is_file():
            with (directory / "prepare.log").open("w") as log:
                run_logged([sys.executable, script], log, cwd=directory, env=dict(os.environ, INPUT=str(directory)))
        stamp_file.write_text(stamp)
    return directory


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch and build the cases of the corpus.")
    parser.add_argument("--fixed", action="store_true", help="build the commit that mends each case, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compile with this many processes")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="build only these cases")
    options = parser.parse_args()
    failed = 0
    for case in corpus.read_cases(options.cases):
        for revision in [case.built_commit] + ([case.fixed_commit] if options.fixed else []):
            try:
                out = build(case, revision, options.jobs)
                prepare(case)
                print(f"{case.name}: {out}", flush=True)
            except corpus.CorpusError as error:
                failed += 1
                print(f"{case.name}: error: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except corpus.CorpusError as error:
        sys.exit(f"error: {error}")
