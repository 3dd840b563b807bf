"""The programs: one function each, which runs it and notes facts. Add yours with @program.

A fact must not depend on time, process ids or addresses; `normalise` takes such things out of outputs.
"""

import re
import shutil
import socket
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

ALL = []


@dataclass
class Program:
    name: str
    description: str
    function: Callable
    needs: tuple
    main: tuple | None  # names of the executables that count for the figures; None: all
    witness: bool
    user: str | None

    def missing(self, path):
        return [name for name in self.needs if shutil.which(name, path=path) is None and not Path(name).exists()]


def program(name, description, needs, main=None, witness=True, user=None):
    def add(function):
        ALL.append(Program(name, description, function, tuple(needs), tuple(main) if main else None, witness, user))
        return function
    return add


def without_times(text):
    return re.sub(r" *\d+(\.\d+)? ?(ms|s|us|seconds|secs?|wallclock secs|usr|sys|cusr|csys|CPU)\b", "N s", re.sub(r"0x[0-9a-f]{6,}", "0x...", text))


@program("perl", "hashes, regular expressions, sort, threads of data through pipes", ["perl"], main=["perl"])
def perl(run):
    run("perl", "-e", r"""
my %h; $h{$_ % 9973} .= chr(65 + $_ % 26) x 30 for 1..100000;
print length(join ',', map { $h{$_} } sort keys %h), "\n";
my $text = join ' ', map { "word$_" } 1..50000; my $n = () = $text =~ /(\w+7)\b/g; print "$n\n";
my @sorted = sort { $b <=> $a } map { ($_ * 7919) % 100003 } 1..50000; print "@sorted[0..5]\n";
open(my $p, '-|', 'sort', '/etc/passwd') or die; my @l = <$p>; close $p; print scalar(@l), "\n";
my $pid = fork; if (!$pid) { my @x = map { [$_] } 1..1000; exit 7 } waitpid $pid, 0; print $? >> 8, "\n";
eval { die { code => 5 } }; print $@->{code}, "\n"; exit 9;
""")
    run("perldoc", "-T", "-o", "text", "-f", "sprintf", name="perldoc")
    run("pod2man", "/usr/bin/pod2man", name="pod2man")
    run("prove", "-e", "perl", "-", name="prove", input="print qq(1..0 # skip none\\n)", normalise=without_times)


@program("sqlite", "a database of 20,000 rows: indexes, joins, full text, vacuum", ["sqlite3"], main=["sqlite3"])
def sqlite(run):
    script = """
create table t(a integer primary key, b, c);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 20000)
insert into t select x, hex(x * x), x % 97 from n;
create index i on t(b); create index j on t(c);
select count(*), max(b) from t where b like '%7%';
select c, count(*), sum(a) from t group by c order by 2 desc, 1 limit 10;
select count(*) from t x join t y on x.a = y.a + 1 where x.c = 5;
create virtual table f using fts5(body);
insert into f select 'word' || a || ' common ' || b from t where a < 5000;
select count(*) from f where f match 'common AND word1234';
select json_group_array(json_object('a', a)) from (select a from t limit 5);
delete from t where c < 40; vacuum; analyze; pragma integrity_check;
select count(*) from t; select nosuch from t;
"""
    run("sqlite3", "base.db", input=script)
    run("sqlite3", "base.db", ".dump", name="dump")
    run("sqlite3", ":memory:", input=script, name="in memory")


@program("git", "a repository of 4,000 files and 400 commits: everyday commands, gc, clone", ["git"], main=["git"])
def git(run):
    quiet = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_DATE": "@1600000000 +0000", "GIT_COMMITTER_DATE": "@1600000000 +0000"}
    repository = run.dir / "repository"
    run.quiet("git", "init", "-q", "-b", "main", repository)
    for key, value in (("user.name", "t"), ("user.email", "t@example.org"), ("gc.auto", "0")):
        run.quiet("git", "-C", repository, "config", key, value)
    lines = []
    for commit in range(400):
        lines.append(f"commit refs/heads/main\ncommitter t <t@example.org> {1500000000 + commit * 60} +0000\ndata 8\n{commit:8}\n")
        for n in range(10):
            number = commit * 10 + n if commit % 2 else (commit * 7 + n) % (commit * 10 + 10)
            body = "".join(f"line {i * number % 1009} of {commit}\n" for i in range(20))
            lines.append(f"M 644 inline d{number % 40}/f{number}.txt\ndata {len(body)}\n{body}\n")
    run("git", "-C", repository, "fast-import", "--quiet", name="fast-import", input="".join(lines), **quiet)
    def go(*command, **more):
        run("git", "-C", repository, *command, name=" ".join(command), **quiet, **more)
    go("reset", "--hard", "-q")
    go("status", "--short")
    go("log", "--stat", "-n", "100")
    go("log", "-p", "-n", "60", "--no-color")
    go("log", "--oneline", "--graph", "--", "d7")
    go("blame", "d0/f0.txt")
    go("grep", "-c", "line 77 of")
    go("diff", "HEAD~300", "--stat")
    go("repack", "-a", "-d", "-q")
    go("gc", "-q")
    go("fsck", "--full", "--no-progress")
    go("checkout", "-q", "-b", "side", "HEAD~100")
    (repository / "new.txt").write_text("new\n" * 100)
    go("add", ".")
    go("commit", "-q", "-m", "side")
    go("merge", "-q", "-m", "merged", "main")
    go("rebase", "main")
    run("git", "clone", "-q", f"file://{repository}", "copy", name="clone", **quiet)
    go("rev-parse", "HEAD^{tree}")


@program("g++", "compiles and links a program of templates, and runs it", ["g++"], main=["cc1plus", "as", "ld", "collect2"])
def gxx(run):
    compile_with(run, "g++")


@program("clang", "the same with clang", ["clang++"], main=["clang-14", "clang", "ld"])
def clang(run):
    compile_with(run, "clang++")


def compile_with(run, compiler):
    (run.dir / "unit.cpp").write_text("""
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
template <int N> struct Sum { static constexpr long value = N + Sum<N - 1>::value; };
template <> struct Sum<0> { static constexpr long value = 0; };
int main() {
  std::map<std::string, std::vector<int>> m;
  for (int i = 0; i < 1000; ++i) m[std::to_string(i % 37)].push_back(i);
  std::unordered_map<int, std::string> u{{1, "a"}};
  std::cout << m.size() << ' ' << Sum<500>::value << ' ' << std::regex_match("aab", std::regex("a+b")) << u[1] << '\\n';
}
""")
    (run.dir / "wrong.cpp").write_text("#include <vector>\nint main() { std::vector<int> v = \"text\"; return v.nothing; }\n")
    run(compiler, "-std=c++17", "-O2", "-g", "-c", "unit.cpp", "-o", "unit.o")
    run(compiler, "unit.o", "-o", "unit")
    run.fact("object", (run.dir / "unit.o").read_bytes().hex())
    run("./unit")
    run(compiler, "-std=c++17", "wrong.cpp")


@program("bash", "loops, arrays, substitution, pipelines, traps, jobs", ["bash", "sed", "awk"], main=["bash"])
def bash(run):
    run("bash", "-c", r"""
declare -A seen; for i in {1..20000}; do seen[$((i % 501))]+=x; done; echo ${#seen[@]} ${#seen[7]}
text=$(printf 'line %d\n' {1..5000}); echo "${text//line/row}" | sed 's/row 1/R/' | awk '{ n += length($0) } END { print n }'
trap 'echo usr1' USR1; kill -USR1 $$; (exit 3); echo $?
for j in 1 2 3 4; do (sleep 0.01; exit $j) & done; for p in $(jobs -p); do wait $p; echo $?; done
while read -r a b; do echo "$b $a"; done < <(printf '%s\n' 'x y' 'z w'); mapfile -t lines < /etc/passwd; echo ${#lines[@]}
f() { local n=$1; ((n > 0)) && f $((n - 1)) || echo deep; }; f 50; exec sh -c 'echo replaced; exit 5'
""")


@program("archives", "tar, gzip, xz, zstd, sort, diff over a tree of files", ["tar", "xz", "zstd", "sort"])
def archives(run):
    for i in range(300):
        (run.dir / f"file{i:03}").write_text("".join(f"{j * i % 977} text\n" for j in range(400)))
    run("sh", "-c", "tar --sort=name --mtime=@0 -cf - file* | tee all.tar | sha256sum; xz -T2 -k -6 all.tar; zstd -q -T2 -k -9 all.tar; "
        "gzip -kn all.tar; bzip2 -k all.tar; sha256sum all.tar.*")
    run("sh", "-c", "xz -dc all.tar.xz | cmp - all.tar && zstd -dc all.tar.zst | cmp - all.tar && mkdir out && tar -C out -xzf all.tar.gz && "
        "diff -r file007 out/file007; sort --parallel=2 -S 1M file* | uniq -c | sort -rn | head; find out -name 'file1*' | sort | xargs wc -l")


def python_tests(run, *modules, timeout=1500):
    """Runs modules of CPython's own tests; facts: each test's verdict."""
    for module in modules:
        result = run.dir / f"{module}.xml"
        status, out, err = run.execute(["/usr/bin/python3", "-m", "test", "--junit-xml", result, "-q", module], True, None, timeout,
                                       None, None, {"PYTHONHASHSEED": "0"})
        verdicts = []
        if result.exists():
            for case in ElementTree.parse(result).getroot().iter("testcase"):
                kinds = [child.tag for child in case if child.tag in ("error", "failure", "skipped")]
                verdicts.append(f"{case.get('name')}: {case.get('result', '')} {' '.join(kinds)}")
        run.fact(f"{module}: status", status)
        run.fact(f"{module}: verdicts", "\n".join(sorted(verdicts)))
        run.total = getattr(run, "total", 0) + len(verdicts)
        if not verdicts:
            run.fact(f"{module}: said", (out + err)[-2000:])
    run.fact("verdicts", run.total)


PYTHON_QUICK = ("test_json", "test_re", "test_list", "test_dict", "test_unicode", "test_generators", "test_exceptions", "test_ctypes",
                "test_pickle", "test_zlib")


@program("python", "CPython's own tests: ten quick modules, test by test", ["/usr/bin/python3", "/usr/lib/python3.11/test/regrtest.py"],
         main=["python3.11", "python3"])
def python(run):
    python_tests(run, *PYTHON_QUICK)
