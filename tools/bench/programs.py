"""The real programs that run.py measures, single-threaded and multi-threaded, with some million allocations each.
Their input is generated here and deterministic."""

import os
import shlex
import shutil
import subprocess
import sys
import time

PYTHON = """
import json, re
d = [{'k': str(i), 'v': [i] * (i % 7), 's': 'x' * (i % 700)} for i in range(30000)]
t = json.dumps(d); e = json.loads(t)
print(len(t), sum(len(m) for m in re.findall('[0-9]+', t)))
"""

PYTHON_THREADS = """
import json, threading
def work(seed):
    for i in range(600):
        json.loads(json.dumps([{'k': str(j), 'v': [j] * (j % 5)} for j in range(seed, seed + 60)]))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
"""

PERL = """
my %h;
for my $i (1 .. 900000) { $h{"k" . $i % 9000} .= "v$i,"; delete $h{"k" . ($i * 7) % 9000} if $i % 3 == 0 }
my @words = map { join "", reverse split //, $_ } sort values %h;
print scalar(@words), "\\n";
"""

SQL = """
create table t(a integer primary key, b text);
with recursive n(x) as (select 1 union all select x+1 from n where x<200000)
  insert into t select x, printf('row %d of many', x) from n;
create index i on t(b);
select count(*), max(length(b)) from t where b like '%9%';
select substr(b, 1, 6), count(*), group_concat(a % 10, '') from t group by 1 order by 2 desc limit 3;
"""

JAVASCRIPT = """
const rows = [];
for (let i = 0; i < 60000; i++) rows.push({id: i, name: 'n' + i * 7919 % 1000, tags: ['a' + i % 7, 'b' + i % 3]});
let total = 0;
for (let round = 0; round < 6; round++) {
  total += JSON.parse(JSON.stringify(rows)).length;
  for (let i = 0; i < 40000; i++) total += Buffer.from('x'.repeat(i % 300)).length;
  total += 'many words'.repeat(20000).replace(/w(.)/g, (all, one) => one).length;
}
console.log(total);
"""

REDIS_PORT = 17411


class Program:
    """A command to measure, with its input. `threads`: it has more than one thread."""

    def __init__(self, name, command, stdin=None, threads=False, environment=None):
        self.name = name
        self.command = command
        self.stdin = stdin
        self.threads = threads
        self.environment = environment or {}

    def drive(self, process):
        """Sends input or load while the program runs."""


class Redis(Program):
    def __init__(self, directory):
        super().__init__("redis-server", ["redis-server", "--port", str(REDIS_PORT), "--save", "", "--dir", directory,
                                          "--daemonize", "no"], threads=True)

    def drive(self, process):
        cli = ["redis-cli", "-p", str(REDIS_PORT)]
        for _ in range(200):
            if subprocess.run(cli + ["ping"], capture_output=True, check=False).stdout == b"PONG\n":
                break
            time.sleep(0.05)
        for tests in ("set,lpush,hset,sadd", "lrange_100"):
            subprocess.run(["redis-benchmark", "-p", str(REDIS_PORT), "-q", "-n", "60000", "-P", "16", "-r", "20000",
                            "-d", "64",
                            "-t", tests], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=100,
                           check=False)
        subprocess.run(cli + ["shutdown", "nosave"], capture_output=True, check=False)


def compiler_process(command, mark):
    """The command that a compiler's driver executes, by the `mark` in it."""
    lines = subprocess.run([*command, "-###"], stderr=subprocess.PIPE, text=True, check=True).stderr.split("\n")
    return shlex.split(next(line for line in lines if mark in line and line.startswith(" ")))


def cc1plus(directory):
    """cc1plus, with the arguments of g++."""
    source = os.path.join(directory, "large.cpp")
    with open(source, "w") as file:
        file.write("#include <regex>\n#include <map>\n#include <iostream>\n#include <functional>\n")
        for i in range(20):
            file.write(f"std::map<std::string, std::function<int({'int' if i % 2 else 'long'})>> m{i}() "
                       f"{{ std::regex r(\"a{i}+b\"); return {{{{\"x\", [](auto v) {{ return int(v) + "
                       f"{i}; }}}}}}; }}\n")
    output = os.path.join(directory, "large.s")
    return compiler_process(["g++", "-O1", "-std=c++17", "-S", source, "-o", output], "cc1plus")


def cc1(directory):
    """cc1 of gcc, on generated C."""
    source = os.path.join(directory, "large.c")
    with open(source, "w") as file:
        file.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <math.h>\n")
        for i in range(900):
            file.write(f"struct s{i} {{ int a[{i % 9 + 1}]; double d; char *t; }};\n"
                       f"static double f{i}(struct s{i} *s, int n) {{ double r = 0; for (int i = 0; i < n; i++) {{ "
                       f"if (i % {i % 5 + 2}) r += s[i].d * s->a[i % {i % 9 + 1}]; else r -= strlen(s[i].t) + sqrt(r); "
                       f"}} return r; }}\n"
                       f"double g{i}(void *p, int n) {{ return f{i}(p, n) + n * {i}; }}\n")
    output = os.path.join(directory, "large-c.s")
    return compiler_process(["gcc", "-O2", "-S", source, "-o", output], "/cc1 ")


def clang(directory):
    """The compiler process of clang++."""
    cc1plus(directory)  # writes the source
    output = os.path.join(directory, "large-clang.s")
    return compiler_process(["clang++", "-O1", "-std=c++17", "-S", os.path.join(directory, "large.cpp"), "-o", output],
                            '"-cc1"')


def compile_c(directory, name, sources, arguments):
    """A program of mimalloc-bench, in the C of its time."""
    path = os.path.join(directory, name)
    subprocess.run(["gcc", "-O2", "-w", "-std=gnu89", *arguments, *sources, "-o", path, "-lm"], check=True)
    return path


def of_mimalloc_bench(directory, sources):
    """espresso and cfrac of a checkout of mimalloc-bench."""
    def files(name, left_out=()):
        folder = os.path.join(sources, "bench", name)
        return [os.path.join(folder, file) for file in sorted(os.listdir(folder))
                if file.endswith(".c") and file not in left_out]
    espresso = compile_c(directory, "espresso", files("espresso"), [])
    yield Program("espresso", [espresso, os.path.join(sources, "bench/espresso/largest.espresso")])
    cfrac = compile_c(directory, "cfrac", files("cfrac", ("getopt.c", "ltop.c", "pfactor.c", "ptob.c")), ["-DNOMEMOPT=1"])
    yield Program("cfrac", [cfrac, "17545186520507317056371138836327483792789528"])


def xmalloc_test(directory, sources):
    """xmalloc-test of mimalloc-bench, with one thread that allocates and one that frees, for a second."""
    path = compile_c(directory, "xmalloc-test", [os.path.join(sources, "bench/xmalloc-test/xmalloc-test.c")],
                     ["-std=gnu99", "-pthread"])
    return Program("xmalloc-test", [path, "-w", "1", "-t", "1", "-s", "64"], threads=True)


def script(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def json_text(directory):
    path = os.path.join(directory, "in.json")
    with open(path, "w") as file:
        file.write("[" + ",".join(f'{{"id": {i}, "name": "n{i * 7919 % 1000}", "tags": ["a{i % 7}", "b{i % 3}"], '
                                  f'"x": {{"y": {i}}}}}'
                                  for i in range(60000)) + "]")
    return path


def repository(directory):
    path = os.path.join(directory, "repository")
    subprocess.run(["git", "init", "-q", "-b", "main", path], check=True)
    stream = []
    for i in range(1500):
        text = "".join(f"line {j} {(i if j % 97 == i % 97 else j) * 7919 % 10007}\n" for j in range(300))
        stream.append(f"commit refs/heads/main\ncommitter A <a@b> {1700000000 + i} +0000\ndata 2\nc{i % 10}\n"
                      f"M 100644 inline f{i % 40}.txt\ndata {len(text)}\n{text}\n")
    subprocess.run(["git", "-C", path, "fast-import", "--quiet"], input="".join(stream).encode(), check=True)
    return path


def svg(directory):
    path = os.path.join(directory, "in.svg")
    with open(path, "w") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" width="1000" height="1000">' + "".join(
            f'<g transform="translate({i % 100 * 10},{i // 100 * 10})"><rect width="9" height="9" rx="2" '
            f'fill="#{i * 7919 % 4096:03x}"/>'
            f'<text x="1" y="8" font-size="5">{i}</text></g>' for i in range(4000)) + "</svg>")
    return path


def programs(directory, mimalloc_bench=None):
    """The programs that are installed. `mimalloc_bench`: a checkout of it, for espresso and cfrac."""
    everything = [
        lambda: Program("cc1plus", cc1plus(directory)),
        # Python's own pools would hide most allocations.
        lambda: Program("python3", [sys.executable, script(directory, "in.py", PYTHON)],
                        environment={"PYTHONMALLOC": "malloc"}),
        lambda: Program("perl", ["perl", script(directory, "in.pl", PERL)]),
        lambda: Program("sqlite3", ["sqlite3", ":memory:"], stdin=script(directory, "in.sql", SQL)),
        lambda: Program("jq", ["jq", "-c", "group_by(.name) | map({n: .[0].name, s: map(.id) | add, t: "
                                           "map(.tags[]) | unique})",
                               json_text(directory)]),
        lambda: Program("git", ["git", "--no-pager", "-C", repository(directory), "log", "-p", "--stat",
                                "--no-color"]),
        lambda: Program("rsvg-convert", ["rsvg-convert", svg(directory), "-o", os.path.join(directory, "out.png")]),
        lambda: Redis(directory),
        lambda: Program("python3-threads", [sys.executable, script(directory, "threads.py", PYTHON_THREADS)],
                        threads=True,
                        environment={"PYTHONMALLOC": "malloc"}),
        lambda: Program("larson", [os.path.join(directory, "larson"), "2", "10"], threads=True),
        lambda: Program("cc1", cc1(directory)),
        lambda: Program("clang", clang(directory)),
        lambda: Program("node", ["node", script(directory, "in.js", JAVASCRIPT)], threads=True),
        lambda: Program("mix", [os.path.join(directory, "mix"), "1", "200000"]),
        lambda: Program("mix-threads", [os.path.join(directory, "mix"), "2", "100000"], threads=True),
    ]
    needs = {"cc1plus": "g++", "python3-threads": "python3", "cc1": "gcc", "clang": "clang++"}
    names = ["cc1plus", "python3", "perl", "sqlite3", "jq", "git", "rsvg-convert", "redis-server", "python3-threads",
             "larson", "cc1", "clang", "node", "mix", "mix-threads"]
    own = {"larson", "mix", "mix-threads"}
    for name, make in zip(names, everything):
        if name in own or shutil.which(needs.get(name, name)):
            yield make()
        else:
            print(f"{name}: not installed, skipped")
    if mimalloc_bench:
        yield from of_mimalloc_bench(directory, mimalloc_bench)
    else:
        print("espresso, cfrac: no --mimalloc-bench, skipped")
