"""The programs: a function for each, which runs it and collects facts. Add one with @program.

A fact must not depend on time, process ids or addresses; `normalise` removes these from outputs.
"""

import re
import os
import shutil
import signal
import socket
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
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
    main: tuple | None  # names of the executables whose figures count; None: all
    witness: bool
    user: str | None
    tolerated: float  # allowed share of frees without a known allocation

    def missing(self, path):
        return [name for name in self.needs if shutil.which(name, path=path) is None and not Path(name).exists()]


def program(name, description, needs, main=None, witness=True, user=None, tolerated=0.0):
    def add(function):
        ALL.append(Program(name, description, function, tuple(needs), tuple(main) if main else None, witness, user,
                           tolerated))
        return function
    return add


def without_times(text):
    return re.sub(r" *\d+(\.\d+)? ?(ms|s|us|seconds|secs?|wallclock secs|usr|sys|cusr|csys|CPU)\b", "N s",
                  re.sub(r"0x[0-9a-f]{6,}", "0x...", text))


@program("perl", "hashes, regular expressions, sort, pipes, fork", ["perl"], main=["perl"])
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
    run("prove", "-e", "perl", "-", name="prove", input="print qq(1..0 # skip none\\n)",
        normalise=lambda text: re.sub(r"(?m)^Files=.*", "Files=", text))


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
    quiet = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_DATE": "@1600000000 +0000",
             "GIT_COMMITTER_DATE": "@1600000000 +0000"}
    repository = run.dir / "repository"
    run.quiet("git", "init", "-q", "-b", "main", repository)
    for key, value in (("user.name", "t"), ("user.email", "t@example.org"), ("gc.auto", "0")):
        run.quiet("git", "-C", repository, "config", key, value)
    lines = []
    for commit in range(400):
        lines.append(f"commit refs/heads/main\ncommitter t <t@example.org> {1500000000 + commit * 60} "
                     f"+0000\ndata 8\n{commit:8}\n")
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


@program("g++", "compiles and links a program of templates, and runs it", ["g++"],
         main=["cc1plus", "as", "ld", "collect2"])
def gxx(run):
    compile_with(run, "g++")


@program("clang", "the same with clang", ["clang++"], main=["clang++", "clang-14", "clang", "ld"])
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
    (run.dir / "wrong.cpp").write_text("#include <vector>\nint main() { std::vector<int> v = \"text\"; "
                                       "return v.nothing; }\n")
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
    run("sh", "-c", "tar --sort=name --mtime=@0 -cf - file* | tee all.tar | sha256sum; xz -T2 -k -6 all.tar; zstd -q "
                    "-T2 -k -9 all.tar; "
        "gzip -kn all.tar; bzip2 -k all.tar; sha256sum all.tar.*")
    run("sh", "-c", "xz -dc all.tar.xz | cmp - all.tar && zstd -dc all.tar.zst | cmp - all.tar && mkdir out && tar "
                    "-C out -xzf all.tar.gz && "
        "diff -r file007 out/file007; sort --parallel=2 -S 1M file* | uniq -c | sort -rn | head; find out -name "
        "'file1*' | sort | xargs wc -l")


# Hangs, even without the recorder, in a virtual machine whose host does not respond on vsock.
WAITS = "test.test_socket.ThreadedVSOCKSocketStreamTest*"


def python_verdicts(run, module, timeout, recorded=True, only=()):
    """Runs one module of CPython's own tests, or only some of its tests: (exit status, [verdict of each test],
    output)."""
    result = run.dir / f"{module}.xml"
    result.unlink(missing_ok=True)
    status, out, err = run.execute(["/usr/bin/python3", "-m", "test", "--junit-xml", result, "-q", "-i", WAITS,
                                    *(option for name in only for option in ("-m", name)), module], recorded, None,
                                   timeout, None, None,
                                   {"PYTHONHASHSEED": "0"})
    verdicts = []
    if result.exists():
        for case in ElementTree.parse(result).getroot().iter("testcase"):
            kinds = [child.tag for child in case if child.tag in ("error", "failure", "skipped")]
            verdicts.append(f"{case.get('name')}: {case.get('result', '')} {' '.join(kinds)}")
    return status, sorted(verdicts), out + err


def python_tests(run, *modules, timeout=1500):
    """Facts: the result of each test."""
    for module in modules:
        status, verdicts, output = python_verdicts(run, module, timeout)
        run.fact(f"{module}: status", status)
        run.fact(f"{module}: verdicts", "\n".join(verdicts))
        run.total = getattr(run, "total", 0) + len(verdicts)
        if not verdicts:
            run.fact(f"{module}: output", output[-2000:])
    run.fact("verdicts", run.total)


PYTHON_QUICK = ("test_json", "test_re", "test_list", "test_dict", "test_unicode", "test_generators",
                "test_exceptions", "test_ctypes",
                "test_pickle", "test_zlib")


@program("python", "CPython's own tests: ten quick modules, test by test",
         ["/usr/bin/python3", "/usr/lib/python3.11/test/regrtest.py"],
         main=["python3.11", "python3"])
def python(run):
    python_tests(run, *PYTHON_QUICK)


@program("redis", "a server under redis-benchmark, a snapshot by fork, a replica, an append-only file",
         ["redis-server", "redis-benchmark"],
         main=["redis-server"], witness=False)
def redis(run):
    sockets = [run.dir / "s0", run.dir / "s1"]
    def ask(number, *command):
        return run.quiet("redis-cli", "-s", sockets[number], *command, timeout=60, check=False).strip()
    port = free_port()
    servers = []
    for number, more in enumerate((["--port", port], ["--port", "0", "--replicaof", "127.0.0.1", port])):
        directory = run.dir / f"data{number}"
        directory.mkdir()
        servers.append(run.start("redis-server", "--unixsocket", sockets[number], "--dir", directory, "--save", "",
                                 "--appendonly",
                                 "yes" if number == 0 else "no", *more))
        run.wait_for(lambda: ask(number, "ping") == "PONG", what="a redis that answers")
    run.quiet("redis-benchmark", "-s", sockets[0], "-q", "-n", "8000", "-r", "1000", "-t",
              "set,get,lpush,sadd,zadd,hset", timeout=300)
    run.quiet("redis-cli", "-s", sockets[0], input="".join(f"set key{i} {'v' * (i % 300)}\n" for i in range(5000)),
              timeout=120)
    run.fact("bgsave", ask(0, "bgsave"))
    run.wait_for(lambda: "rdb_bgsave_in_progress:0" in ask(0, "info", "persistence"), what="the snapshot")
    run.fact("bgsave status", re.findall(r"rdb_last_bgsave_status:\w+", ask(0, "info", "persistence")))
    run.fact("rewrite", ask(0, "bgrewriteaof"))
    run.wait_for(lambda: "aof_rewrite_in_progress:0" in ask(0, "info", "persistence"), what="the rewrite")
    run.wait_for(lambda: ask(1, "get", "key4999") == "v" * (4999 % 300), what="the replica")
    run.fact("values", [len(ask(1, "get", f"key{i}")) for i in (0, 1, 299, 300, 4998)])
    run.fact("lua", ask(0, "eval", "local n = 0 for i = 1, 20000 do n = n + #tostring(i) end return n", "0"))
    for number in (1, 0):
        ask(number, "shutdown", "save")
        run.stop(servers[number], name=f"redis {number}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@program("postgresql", "initdb, pgbench, a backend killed (crash recovery), the postmaster killed, restart",
         ["/usr/lib/postgresql/15/bin/initdb"],
         main=["postgres", "initdb", "pgbench", "psql"], witness=False, user="postgres")
def postgresql(run):
    bin = Path("/usr/lib/postgresql/15/bin")
    data = run.dir / "data"
    options = dict(user="postgres", PGHOST=run.dir / "tmp", PGUSER="postgres", PGDATABASE="postgres")
    run(bin / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", name="initdb", output=False,
        **options)
    def start():
        server = run.start(bin / "postgres", "-D", data, "-k", run.dir / "tmp", "-c", "listen_addresses=", "-c",
                           "fsync=off", user="postgres")
        run.wait_for(lambda: run.execute([bin / "pg_isready", "-q"], False, None, 20, None, "postgres",
                                         {"PGHOST": run.dir / "tmp"})[0] == 0, 120, "a postgres that answers")
        return server
    def sql(text, name):
        return run(bin / "psql", "-qAtX", "-c", text, name=name, **options)
    server = start()
    run(bin / "pgbench", "-i", "-q", "-s", "1", name="pgbench -i", output=False, errors=False, **options)
    # The order of several clients varies; one client with a seed is deterministic.
    run(bin / "pgbench", "-n", "-c", "4", "-j", "2", "-t", "50", "-S", name="pgbench, four clients", output=False,
        errors=False, **options)
    run(bin / "pgbench", "-n", "-c", "1", "-t", "200", "--random-seed=7", name="pgbench", output=False, errors=False,
        **options)
    sql("select count(*), sum(abalance) = (select sum(bbalance) from pgbench_branches) from pgbench_accounts",
        "consistent")
    sql("select count(*) from pgbench_history", "history")
    sql("create table t as select g, md5(g::text) m from generate_series(1, 20000) g; create index on t(m); "
        "select count(*), min(m) from t where m > 'f'; select t1.m from t t1 join t t2 on t1.g = t2.g + 1 "
        "order by 1 limit 3", "queries")
    sql("select regexp_replace(repeat('abc', 300), 'b', 'x', 'g') = repeat('axc', 300), jsonb_agg(g) from "
        "generate_series(1,5) g", "functions")
    # A crash of a backend ends all others, and the server recovers.
    backend = run.start(bin / "psql", "-qAtX", "-c", "select pg_sleep(100)", **options)
    find = "select pid from pg_stat_activity where query like 'select pg_sleep%'"
    run.wait_for(lambda: run.quiet(bin / "psql", "-qAtX", "-c", find, **options).strip(), what="a busy backend")
    run.quiet("kill", "-KILL", run.quiet(bin / "psql", "-qAtX", "-c", find, **options).strip(), user="postgres")
    run.fact("client of the killed backend", backend.wait(60))
    run.wait_for(lambda: run.execute([bin / "psql", "-qAtX", "-c", "select 1"], False, None, 20, None, "postgres",
                                     {key: str(value) for key, value in options.items() if key != "user"})[0] == 0,
                 120, "recovery")
    sql("select count(*), min(m) from t", "after recovery")
    run.stop(server, signal.SIGKILL, name="killed postmaster")
    time.sleep(1)
    (data / "postmaster.pid").unlink(missing_ok=True)
    server = start()
    sql("select count(*), min(m) from t", "after the second recovery")
    run(bin / "pg_dump", "-T", "pgbench_history", name="pg_dump",
        normalise=lambda text: re.sub(r"(?m)^\\(un)?restrict .*$", "", text), **options)
    run.stop(server, signal.SIGINT, name="postgres")


def children_of(pid):
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


@program("nginx", "a master and two workers serving files, gzip and errors to ab; reload under way",
         ["nginx", "ab", "curl"], main=["nginx"],
         witness=False)
def nginx(run):
    port = free_port()
    (run.dir / "www").mkdir()
    for size in (10, 5000, 300000):
        (run.dir / "www" / f"{size}.txt").write_text("text " * (size // 5))
    (run.dir / "nginx.conf").write_text(f"""
daemon off; worker_processes 2; pid {run.dir}/nginx.pid; error_log {run.dir}/tmp/error.log;
events {{ worker_connections 256; }}
http {{ access_log off; gzip on; gzip_types text/plain; client_body_temp_path {run.dir}/tmp/b; proxy_temp_path {run.dir}/tmp/p;
  fastcgi_temp_path {run.dir}/tmp/f; uwsgi_temp_path {run.dir}/tmp/u; scgi_temp_path {run.dir}/tmp/s;
  server {{ listen 127.0.0.1:{port}; root {run.dir}/www; location /move {{ return 302 /10.txt; }} }} }}
user root;
""")
    server = run.start("nginx", "-p", run.dir, "-c", run.dir / "nginx.conf")
    base = f"http://127.0.0.1:{port}"
    run.wait_for(lambda: run.execute(["curl", "-s", base], False, None, 10, None, None, {})[0] == 0, what="nginx")
    for path in ("10.txt", "5000.txt", "300000.txt", "none", "move"):
        run.fact(path, run.quiet("curl", "-s", "-o", run.dir / "got", "-w",
                                 "%{http_code} %{size_download} %{redirect_url}", "-H",
                                 "Accept-Encoding: gzip", f"{base}/{path}").replace(base, ""))
        run.fact(f"{path} bytes", (run.dir / "got").read_bytes()[12:40].hex())
    run.quiet("ab", "-q", "-n", "3000", "-c", "20", f"{base}/5000.txt")
    # Workers that end at the reload close their connections, even those with requests. How many requests fail then
    # depends on timing, so failures are only counted after the reload.
    workers = children_of(server.pid)
    server.send_signal(signal.SIGHUP)
    run.quiet("ab", "-q", "-r", "-k", "-n", "2000", "-c", "20", "-H", "Accept-Encoding: gzip", f"{base}/5000.txt")
    run.wait_for(lambda: children_of(server.pid) and not children_of(server.pid) & workers, what="the reload")
    out = run.quiet("ab", "-q", "-k", "-n", "5000", "-c", "20", "-H", "Accept-Encoding: gzip", f"{base}/300000.txt")
    run.fact("under load", re.findall(r"(Complete requests|Failed requests|Non-2xx responses): *(\d+)", out))
    run.stop(server, signal.SIGQUIT, name="nginx")


@program("node", "JSON, buffers, compression, workers, child processes, modules", ["node"], main=["node"],
         witness=False)
def node(run):
    run("node", "-e", """
const zlib = require('zlib'), crypto = require('crypto'), {Worker, isMainThread} = require('worker_threads'), cp = require('child_process');
const data = Array.from({length: 20000}, (_, i) => ({i, s: 'x'.repeat(i % 50)}));
const text = JSON.stringify(data); console.log(text.length, JSON.parse(text).length);
console.log(crypto.createHash('sha256').update(zlib.gunzipSync(zlib.gzipSync(text))).digest('hex'));
console.log(cp.execFileSync('sh', ['-c', 'echo child; exit 0']).toString());
let left = 3; for (let n = 0; n < 3; n++) { const w = new Worker(
  `const {parentPort} = require('worker_threads'); let s = 0; for (let i = 0; i < 2e6; i++) s += i % 7; parentPort.postMessage(s)`, {eval: true});
  w.on('message', m => console.log('worker', m)); w.on('exit', c => { if (--left == 0) { console.log('done'); process.exit(4); } }); }
""")


@program("jvm", "compiles a class and runs it: threads, collections, strings, a heap under pressure",
         ["java", "javac"], main=["java", "javac"],
         witness=False)
def jvm(run):
    (run.dir / "Main.java").write_text("""
import java.util.*; import java.util.stream.*; import java.util.zip.*;
public class Main {
  public static void main(String[] a) throws Exception {
    Map<String, Integer> m = new TreeMap<>(); for (int i = 0; i < 200000; i++) m.merge("k" + i % 997, i, Integer::sum);
    System.out.println(m.hashCode() + " " + IntStream.range(0, 1000000).parallel().filter(i -> i % 3 == 0).count());
    Thread[] t = new Thread[6]; long[] r = new long[6];
    for (int n = 0; n < 6; n++) { final int k = n; t[n] = new Thread(() -> { StringBuilder b = new StringBuilder();
      for (int i = 0; i < 50000; i++) b.append(i * k); r[k] = b.toString().hashCode(); }); t[n].start(); }
    for (Thread x : t) x.join(); System.out.println(Arrays.toString(r));
    Deflater d = new Deflater(); d.setInput(new byte[100000]); d.finish(); System.out.println(d.deflate(new byte[1000]));
    List<byte[]> l = new ArrayList<>(); for (int i = 0; i < 400; i++) { l.add(new byte[100000]); if (l.size() > 50) l.remove(0); }
    try { int[] none = new int[0]; none[3] = 1; } catch (ArrayIndexOutOfBoundsException e) { System.out.println(e.getMessage()); }
    System.exit(6); } }
""")
    run("javac", "Main.java", timeout=900)
    run("java", "-Xmx128m", "Main", timeout=900)


@program("chromium", "headless, its sandbox off as root: renders a page with script and canvas, prints its DOM",
         ["chromium"], main=["chromium"],
         witness=False, tolerated=0.05)
def chromium(run):
    (run.dir / "page.html").write_text("""<!DOCTYPE html><title>t</title><body><canvas id=c width=200 height=200></canvas><table id=t></table><script>
const c = document.getElementById('c').getContext('2d'); for (let i = 0; i < 100; i++) { c.fillStyle = `hsl(${i * 3} 80% 50%)`; c.fillRect(i, i, 90, 90); }
for (let i = 0; i < 300; i++) document.getElementById('t').insertRow().insertCell().textContent = 'row ' + i;
document.title = c.getImageData(50, 50, 1, 1).data.join(); </script>""")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    run("chromium", "--headless", *sandbox, "--disable-gpu", "--disable-dev-shm-usage",
        "--user-data-dir=" + str(run.dir / "profile"),
        "--dump-dom", f"file://{run.dir}/page.html", errors=False, timeout=400)


@program("imagemagick", "draws, blurs, resizes, converts between formats", ["/usr/bin/convert-im6.q16"],
         main=["convert-im6.q16", "identify-im6.q16"])
def imagemagick(run):
    convert = "/usr/bin/convert-im6.q16"
    run(convert, "-size", "320x240", "gradient:red-blue", "-fill", "white", "-draw", "circle 160,120 160,40", "-blur",
        "0x3", "a.png")
    run(convert, "a.png", "-resize", "50%", "-rotate", "30", "-colors", "64", "b.gif")
    run(convert, "a.png", "-quality", "80", "c.jpg")
    run("/usr/bin/identify-im6.q16", "-format", "%m %w %h %k %#\\n", "a.png", "b.gif", "c.jpg", name="identify")
    run(convert, "missing.png", "d.png", name="no such file")


@program("ffmpeg", "encodes a test picture and tone with several threads, and decodes it", ["ffmpeg"],
         main=["ffmpeg"])
def ffmpeg(run):
    common = ["-hide_banner", "-loglevel", "error", "-nostdin", "-y", "-threads", "2"]
    run("ffmpeg", *common, "-f", "lavfi", "-i", "testsrc=size=160x120:rate=10:duration=2", "-f", "lavfi", "-i",
        "sine=duration=2", "-c:v", "mpeg4",
        "-c:a", "aac", "-bitexact", "out.mkv", name="encode")
    run("ffmpeg", *common, "-i", "out.mkv", "-f", "framemd5", "-", name="decode")


@program("gstreamer", "a pipeline of six threads: two sources, filters, encoders, a muxer", ["gst-launch-1.0"],
         main=["gst-launch-1.0"], witness=False)
def gstreamer(run):
    run("gst-launch-1.0", "-q", "videotestsrc", "num-buffers=30", "!", "video/x-raw,width=160,height=120", "!",
        "queue", "!", "videoconvert", "!",
        "theoraenc", "!", "queue", "!", "oggmux", "name=m", "!", "filesink", "location=out.ogg", "audiotestsrc",
        "num-buffers=40", "!", "queue", "!",
        "audioconvert", "!", "vorbisenc", "!", "queue", "!", "m.", timeout=300)
    run("gst-launch-1.0", "-q", "filesrc", "location=out.ogg", "!", "oggdemux", "!", "theoradec", "!", "fakesink",
        name="decode", timeout=300)
    run("gst-inspect-1.0", "playbin", name="inspect", errors=False)


@program("gtk", "gtk3-demo's list store example under Xvfb", ["gtk3-demo", "xvfb-run"], main=["gtk3-demo"],
         witness=False)
def gtk(run):
    for example in ("list_store", "textview", "builder"):
        run("xvfb-run", "-a", "gtk3-demo", f"--run={example}", "--autoquit", name=example, errors=False, timeout=300,
            NO_AT_BRIDGE="1",
            LIBGL_ALWAYS_SOFTWARE="1")


@program("qt", "heaptrack_gui shows a profile under Xvfb until it is terminated", ["heaptrack_gui", "xvfb-run"],
         main=["heaptrack_gui"],
         witness=False)
def qt(run):
    shutil.copy("/bin/true", run.dir / "true")
    run.quiet("heaptrack", "-o", run.dir / "profile", run.dir / "true", timeout=300)
    profile = next(run.dir.glob("profile*"))
    run("xvfb-run", "-a", "timeout", "20", "heaptrack_gui", profile, name="heaptrack_gui", errors=False, timeout=300,
        LIBGL_ALWAYS_SOFTWARE="1")


@program("rust", "rustc compiles a program of threads and maps, which then runs; ripgrep searches a tree", ["rg"],
         main=["rustc", "main", "rg"])
def rust(run):
    if shutil.which("rustc", path="/usr/bin"):
        (run.dir / "main.rs").write_text("""
use std::collections::HashMap; use std::thread;
fn main() { let t: Vec<_> = (0..4).map(|k| thread::spawn(move || { let mut m: HashMap<u64, String> = HashMap::new();
  for i in 0..20000u64 { m.insert(i * 7 % 1009, format!("{}-{}", i, k)); } m.values().map(|s| s.len()).sum::<usize>() })).collect();
  for x in t { println!("{}", x.join().unwrap()); } let v: Vec<Box<[u8]>> = (1..500).map(|n| vec![1u8; n].into_boxed_slice()).collect();
  println!("{}", v.iter().map(|b| b.len()).sum::<usize>()); let r = std::panic::catch_unwind(|| { panic!("meant") }); println!("{}", r.is_err());
  std::process::exit(3) }
""")
        run("/usr/bin/rustc", "-O", "-g", "main.rs", timeout=600)
        run("./main", normalise=without_times)
    for i in range(200):
        (run.dir / f"f{i:03}.txt").write_text("".join(f"line {j * i % 991} needle{j % 37}\n" for j in range(300)))
    run("rg", "--sort", "path", "-c", r"needle1\b.*|line 77 ", ".", name="rg")
    run("rg", "-j4", "--count-matches", "--no-filename", "needle36", ".", name="rg -j4",
        normalise=lambda text: "".join(sorted(text.splitlines(True))))


@program("go", "a program of goroutines and C memory by cgo: the C side is recorded; the compiler itself",
         ["/usr/bin/go", "gcc"],
         main=["main"])
def go(run):
    (run.dir / "main.go").write_text("""package main
// #include <stdlib.h>
// #include <string.h>
import "C"
import ("fmt"; "os"; "sync"; "unsafe")
func main() {
  var wait sync.WaitGroup; sums := make([]int, 8)
  for g := 0; g < 8; g++ { wait.Add(1); go func(g int) { defer wait.Done()
    for i := 0; i < 3000; i++ { p := C.malloc(C.size_t(i%500 + 1)); C.memset(p, 1, 1); b := make([]byte, i%1000); sums[g] += len(b) + int(*(*byte)(p))
      if i%3 != 0 { C.free(p) } else { p = C.realloc(p, 2000); C.free(unsafe.Pointer(p)) } } }(g) }
  wait.Wait(); fmt.Println(sums); os.Exit(2) }
""")
    environment = dict(GOCACHE=run.dir / "cache", GOPATH=run.dir / "path", GO111MODULE="off", GOFLAGS="-p=2")
    run.quiet("/usr/bin/go", "build", "-o", "main", "main.go", timeout=900, **environment)
    run("./main")


@program("ruby", "strings, hashes, threads, fork, garbage collection", ["ruby"], main=["ruby", "ruby3.1"])
def ruby(run):
    run("ruby", "-e", """
h = Hash.new(0); 100_000.times { |i| h["k#{i % 997}"] += i }; puts h.size, h.values.sum
puts (1..4).map { |k| Thread.new { (1..20_000).map { |i| (i * k).to_s }.join.size } }.map(&:value).inspect
pid = fork { exit 3 }; Process.wait pid; puts $?.exitstatus
puts `echo shell`; GC.start; puts 'x'.gsub(/x/) { 'y' * 5 }; puts (2**2000).to_s.size; raise ArgumentError, 'meant' rescue puts $!.message; exit 8
""")


@program("make", "make -j3 of a tree of 13 C files, twice, then clean", ["make", "gcc"], main=["make", "cc1"])
def make(run):
    names = [f"unit{i}" for i in range(12)]
    for i, name in enumerate(names):
        (run.dir / f"{name}.c").write_text(f"#include <stdio.h>\n#include <stdlib.h>\nint {name}(int n) {{ return n "
                                           f"* {i} + (int)strtol(\"{i}\", 0, 10); }}\n")
    (run.dir / "main.c").write_text("".join(f"int {name}(int);\n" for name in names) +
                                    "#include <stdio.h>\nint main(void) { int s = 0;" +
                                    "".join(f" s += {name}(s);" for name in names) +
                                    ' printf("%d\\n", s); return 0; }\n')
    (run.dir / "Makefile").write_text("SOURCES := $(wildcard *.c)\nOBJECTS := $(SOURCES:.c=.o)\nCFLAGS := -O2 "
                                      "-g\nall: program\n"
                                      "program: $(OBJECTS)\n\t$(CC) -o $@ $(sort $^)\nclean:\n\trm -f program "
                                      "*.o\n.PHONY: all clean\n")
    run("make", "-j3", "CC=gcc", normalise=lambda text: "".join(sorted(text.splitlines(True))))
    run("./program")
    run("make", "CC=gcc", name="make again")
    run("make", "clean")


@program("php", "arrays, strings, regular expressions, exceptions", ["php"], main=["php8.2", "php"])
def php(run):
    run("php", "-n", "-r", "for ($i = 0; $i < 100000; $i++) $a['k' . $i % 997][] = $i; echo count($a), ' ', "
                           "strlen(serialize($a)), ' ', "
        "preg_match_all('/7/', json_encode($a)), PHP_EOL; try { intdiv(1, 0); } catch (DivisionByZeroError $e) { "
        "echo $e->getMessage(); } exit(5);")


@program("lua", "tables, strings, coroutines", ["lua5.4"], main=["lua5.4"])
def lua(run):
    run("lua5.4", "-e", "local t = {} for i = 1, 200000 do t[i % 997] = (t[i % 997] or '') .. i % 10 end local n = 0 "
                        "for _, v in pairs(t) do n = n + #v end print(n) "
        "local c = coroutine.wrap(function() for i = 1, 1000 do coroutine.yield({i}) end end) for i = 1, 1000 do c() "
        "end print(select('#', table.unpack({1, 2, 3}))) "
        "print(pcall(error, 'meant')) os.exit(4, true)")


@program("editors", "vim and emacs in batch: substitution, sorting, folding of a file", ["vim.basic", "emacs"],
         main=["vim.basic", "emacs-nox"])
def editors(run):
    (run.dir / "text").write_text("".join(f"line {i * 7919 % 1009} alpha beta\n" for i in range(5000)))
    run("vim.basic", "-u", "NONE", "-es", "-N", "-c", "%s/alpha/ALPHA/g", "-c", "sort n", "-c", "g/line 7/d", "-c",
        "w out", "-c", "q!", "text")
    run.fact("vim's file", (run.dir / "out").read_text() if (run.dir / "out").exists() else "none")
    run("emacs", "--batch", "--quick", "text", "--eval", "(progn (goto-char 1) (while (re-search-forward \"beta\" "
                                                         "nil t) (replace-match \"BETA\")) "
        "(sort-lines nil (point-min) (point-max)) (princ (buffer-size)) (princ (sha1 (buffer-string))))")


@program("neovim", "substitution, sorting, Lua, undo of a file in batch", ["nvim"], main=["nvim"])
def neovim(run):
    (run.dir / "text").write_text("".join(f"line {i * 7919 % 1009} alpha beta\n" for i in range(5000)))
    run("nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-es", "text", "-c", "%s/alpha/ALPHA/g", "-c",
        "sort n", "-c",
        "lua local t = {} for i = 1, 50000 do t[i % 997] = tostring(i) .. (t[i % 499] or ''):sub(1, 9) end print(#t)",
        "-c", "undo", "-c", "g/line 7/d",
        "-c", "%p", "-c", "q!", name="nvim")


@program("memcached", "four worker threads, four clients, values that come, go and expire", ["memcached"],
         main=["memcached"], witness=False)
def memcached(run):
    path = run.dir / "socket"
    server = run.start("memcached", "-u", "root", "-s", path, "-t", "4", "-m", "16")
    run.wait_for(path.exists, what="memcached's socket")
    clients = [socket.socket(socket.AF_UNIX) for _ in range(4)]
    counts = Counter()
    for client in clients:
        client.connect(str(path))
    files = [client.makefile("rwb") for client in clients]
    for i in range(6000):
        file = files[i % 4]
        value = b"x" * (i * 7 % 900)
        for command in (b"set k%d 0 0 %d\r\n%s\r\n" % (i % 1500, len(value), value),
                        b"append k%d 0 0 2\r\nyy\r\n" % (i % 1500),
                        b"delete k%d\r\n" % (i * 3 % 1500)):
            file.write(command)
            file.flush()
            counts[file.readline()] += 1
    for client, file in zip(clients, files):
        file.close()
        client.close()
    run.fact("answers", sorted(counts.items()))
    run.stop(server, name="memcached")


@program("mariadb", "a new database, a server of many threads under four clients, its crash and recovery",
         ["mariadbd", "mariadb", "mariadb-install-db"],
         main=["mariadbd", "mariadb"], witness=False, user="mysql")
def mariadb(run):
    data, path = run.dir / "data", run.dir / "tmp" / "socket"
    options = dict(user="mysql")
    run.quiet("mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal",
              timeout=300, **options)
    def ask(text, name):
        return run("mariadb", "--no-defaults", "-S", path, "-u", "root", "-N", "-e", text, name=name, **options)
    def start():
        server = run.start("mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={path}", "--skip-networking",
                           f"--pid-file={run.dir}/tmp/pid",
                           "--innodb-buffer-pool-size=16M", **options)
        run.wait_for(lambda: run.execute(["mariadb-admin", "--no-defaults", "-S", path, "-u", "root", "ping"], False,
                                         None, 20, None, "mysql", {})[0] == 0,
                     120, "a mariadb that answers")
        return server
    server = start()
    ask("create database d; create table d.t (a int primary key, b varchar(90), c int, key (c)); "
        "insert into d.t select seq, hex(seq * seq), seq % 97 from d.seq_1_to_20000; "
        "select c, count(*), sum(a), max(b) from d.t group by c order by 2 desc, 1 limit 5", "tables")
    ask("create procedure d.p() begin declare i int default 0; while i < 2000 do update d.t set b = concat(b, i) "
        "where a = i; set i = i + 1; end while; end",
        "procedure")
    clients = [run.popen(["mariadb", "--no-defaults", "-S", path, "-u", "root", "-N", "-e",
                          f"select sum(length(x.b)) from d.t x join d.t y on x.a = y.a + {n} where x.c < 40"], True,
                         None, "mysql", {},
                         stdout=subprocess.PIPE) for n in range(4)]
    run.fact("clients", [client.communicate(timeout=120)[0] for client in clients])
    ask("call d.p(); select sum(length(b)) from d.t; select json_arrayagg(a) from (select a from d.t limit 4) s; "
        "select nosuch from d.t", "call")
    run.stop(server, signal.SIGKILL, name="killed mariadbd")
    server = start()
    ask("check table d.t; select count(*), sum(length(b)) from d.t", "after recovery")
    run.stop(server, name="mariadbd")


@program("libreoffice", "converts a page to PDF and a table of 2,000 rows to a spreadsheet", ["soffice"],
         main=["soffice.bin"], witness=False)
def libreoffice(run):
    (run.dir / "page.html").write_text("<html><body><h1>Title</h1><table><tr><td>a</td><td>b</td></tr></table>" +
                                       "<p>text of a paragraph</p>" * 200)
    (run.dir / "table.csv").write_text("".join(f"{i},{i * 7 % 1009},text {i},=A{i + 1}*2\n" for i in range(2000)))
    office = ["soffice", f"-env:UserInstallation=file://{run.dir}/profile", "--headless", "--convert-to"]
    run(*office, "pdf", "--outdir", "out", "page.html", name="to pdf")
    run(*office, "ods", "--outdir", "out", "table.csv", name="to ods")
    run(*office, "csv", "--outdir", "out", "out/table.ods", name="and back")
    run.fact("table", (run.dir / "out" / "table.csv").read_text())


@program("tmux", "a server with two panes, one of which scrolls", ["tmux"], main=["tmux"], witness=False)
def tmux(run):
    tmux = ["tmux", "-f", "/dev/null", "-S", run.dir / "socket"]
    run(*tmux, "new-session", "-d", "-s", "s", "-x", "80", "-y", "24",
        "for i in $(seq 4000); do echo line $i; done; exec sleep 100", name="new-session")
    run(*tmux, "split-window", "-t", "s", "exec sleep 100", name="split-window")
    run.wait_for(lambda: "line 4000" in run.quiet(*tmux, "capture-pane", "-p", "-t", "s:0.0"), what="the last line")
    run(*tmux, "list-panes", "-t", "s", "-F", "#{pane_index} #{pane_width} #{pane_height}", name="list-panes")
    run(*tmux, "capture-pane", "-p", "-S", "-3000", "-t", "s:0.0", name="capture-pane")
    run(*tmux, "kill-server", name="kill-server")


@program("gdb", "a program is stopped, looked at and continued; symbols by several threads", ["gdb", "gcc"],
         main=["gdb"])
def gdb(run):
    (run.dir / "p.c").write_text("#include <stdlib.h>\nstruct S { int a; struct S* next; };\n"
                                 "int f(struct S* s, int n) { return n ? f(s->next, n - 1) + s->a : s->a; }\n"
                                 "int main() { struct S s = {7, &s}; return f(&s, 5) + atoi(\"1\"); }\n")
    run.quiet("gcc", "-g", "-O0", "-o", "p", "p.c")
    run("gdb", "-q", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "break f if n == 0", "-ex", "run",
        "-ex", "bt", "-ex", "ptype s", "-ex", "p *s",
        "-ex", "python print(sum(range(100)), gdb.selected_frame().name())", "-ex", "info functions ^main$", "-ex",
        "continue", "./p", name="gdb",
        normalise=lambda text: re.sub(r"process \d+|Thread 0x\w+ \(LWP \d+\)|0x7f[0-9a-f]+", "N", text))


@program("ghostscript", "renders a page of text and curves to pictures, and to PDF", ["gs"], main=["gs"])
def ghostscript(run):
    (run.dir / "page.ps").write_text("%!\n/Times-Roman findfont 24 scalefont setfont 0 1 30 { dup 20 mul 72 exch "
                                     "moveto (Line of text ) show 9 string cvs show } for\n"
                                     "0 1 200 { dup 100 div setlinewidth dup 2 mul exch 3 mul moveto 300 400 100 200 "
                                     "500 700 curveto stroke } for showpage\n")
    run("gs", "-q", "-dBATCH", "-dNOPAUSE", "-dSAFER", "-sDEVICE=png16m", "-r72", "-sOutputFile=page.png", "page.ps",
        name="png")
    run("gs", "-q", "-dBATCH", "-dNOPAUSE", "-dSAFER", "-sDEVICE=pdfwrite", "-sOutputFile=page.pdf", "page.ps",
        name="pdf")
    run("gs", "-q", "-dBATCH", "-dNOPAUSE", "-dSAFER", "-sDEVICE=txtwrite", "-sOutputFile=-", "page.pdf", name="text")
    run.fact("picture", (run.dir / "page.png").read_bytes().hex())


@program("r", "a linear model, strings, sorting, closures", ["R"], main=["R"])
def r(run):
    run("R", "--vanilla", "-q", "-e", "set.seed(1); x <- rnorm(1e5); print(summary(x)); m <- lm(y ~ x, data.frame(x "
                                      "= 1:1000, y = (1:1000) * 2 + sin(1:1000))); "
        "print(coef(m)); l <- lapply(1:20000, function(i) paste0('k', i)); print(sum(sapply(l, nchar))); "
        "print(head(sort(table(x > 0)))); "
        "r <- try(stop('meant'), silent = TRUE); print(class(r)); gc(); quit(status = 3)", name="R",
        normalise=lambda text: re.sub(r"(?m)^(N|V)cells.*$|^ +used.*$", "", text))


@program("erlang", "processes, messages, tables, the compiler: a just-in-time compiler with allocators of its own",
         ["erl"], main=["beam.smp"], witness=False,
         tolerated=0.001)
def erlang(run):
    (run.dir / "m.erl").write_text("-module(m).\n-export([f/1]).\nf(0) -> [];\nf(N) -> [{N, integer_to_binary(N * "
                                   "N)} | f(N - 1)].\n")
    run("erl", "-noshell", "-eval", "{ok, m} = compile:file(m), L = m:f(100000), io:format(\"~p~n\", "
                                    "[erlang:phash2(L)]), T = ets:new(t, [set]), ets:insert(T, L), "
        "io:format(\"~p~n\", [ets:info(T, size)]), P = [spawn_monitor(fun() -> exit(length(m:f(1000 + N))) end) || N "
        "<- lists:seq(1, 50)], "
        "io:format(\"~p~n\", [lists:sum([receive {_, _, _, Q, R} -> R end || {Q, _} <- P])]), catch "
        "error(meant), halt(3).", name="erl", TZ="UTC")


@program("cargo", "builds and tests a crate, which fails one of its tests", ["/usr/bin/cargo", "/usr/bin/rustc"],
         main=["cargo", "rustc"], witness=False)
def cargo(run):
    (run.dir / "src").mkdir()
    (run.dir / "Cargo.toml").write_text('[package]\nname = "crate"\nversion = "0.1.0"\nedition = "2021"\n')
    (run.dir / "src" / "lib.rs").write_text("pub fn twice(n: u64) -> String { format!(\"{}\", n * 2) }\n#[cfg(test)] "
                                            "mod tests { use super::*;\n"
                                            "#[test] fn right() { for n in 0..5000 { "
                                            "assert_eq!(twice(n).parse::<u64>().unwrap(), n * 2); } }\n"
                                            "#[test] fn wrong() { assert_eq!(twice(2), \"5\"); }\n#[test] fn "
                                            "vectors() { assert_eq!(vec![1u8; 70000].len(), 70000); } }\n")
    run("/usr/bin/cargo", "test", "--offline", "--", "--test-threads=1", name="cargo test", timeout=600,
        CARGO_TERM_COLOR="never", CARGO_BUILD_JOBS="1",
        normalise=without_times)
