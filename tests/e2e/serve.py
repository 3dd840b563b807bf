"""`serve`: its answers are those of the command line; who is answered; clients that send nothing, too much or garbage;
recordings that are damaged, replaced or still written; how it starts and ends."""

import base64
import concurrent.futures
import contextlib
import gzip
import hashlib
import http.client
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse
from pathlib import Path

import harness
import large_recording
import ports


def encoded(parameters):
    return urllib.parse.urlencode(parameters, quote_via=urllib.parse.quote)


def varints(data):
    """The numbers in a packed field of a protocol buffer."""
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def fields(data):
    """(number, bytes) of each field that has a length, in a message of a protocol buffer without fixed-size numbers."""
    at = 0

    def varint():
        nonlocal at
        end = next(i for i in range(at, len(data)) if data[i] < 128) + 1
        number, = varints(data[at:end])
        at = end
        return number
    while at < len(data):
        tag = varint()
        length = varint()
        if tag & 7 == 2:
            yield tag >> 3, data[at:at + length]
            at += length


class Serve(harness.Case):
    def copy_of(self, recording):
        """Its path. A test may replace its own copy, and look at what is beside it."""
        return shutil.copy(recording.trace, self.dir / "trace.heapprof")

    def start(self, *arguments, preexec_fn=None, **variables):
        """Starts a server; its port and token are in self.port and self.token."""
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
            variables.setdefault(name, "")
        self.server = self.popen([str(harness.HEAPPROF), "serve", *map(str, arguments)], text=True, cwd=self.dir,
                                 env=harness.analyzer_environment(**variables),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 preexec_fn=preexec_fn)
        self.url = self.server.stdout.readline().strip()
        if not self.url:
            self.fail(self.server.stderr.read())
        address = urllib.parse.urlsplit(self.url)
        self.port = address.port
        self.token = urllib.parse.parse_qs(address.query)["token"][0]
        return self.server

    def request(self, path, method="GET", token=True, headers=None, port=None):
        """Status, headers and text of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=60)
        with contextlib.closing(connection):
            own = {"Authorization": f"Bearer {self.token}"} if token else {}
            connection.request(method, path, headers=own | (headers or {}))
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read().decode()

    def ask(self, command, parameters=(), status=200):
        """The text of an answer."""
        given, headers, text = self.request(f"/api/{command}?{encoded(parameters)}")
        self.assertEqual(given, status, f"{command} {parameters}: {text[:500]}")
        return text

    def error_of(self, command, parameters=(), status=400):
        return json.loads(self.ask(command, parameters, status))["error"]

    def children(self):
        """The processes of answers. Not the copies of the server that are to become one: stopped at that moment, they
        could not notice the end of the server."""
        def words(process):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                return Path(f"/proc/{process}/cmdline").read_bytes()
            return b""
        children = Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children").read_text().split()
        return [child for child in children if words(child) != words(self.server.pid)]

    def stopped_answer(self, command, parameters=()):
        """Sends a question, and stops the process that computes the answer. Returns the connection and the process."""
        others = self.children()
        for _ in range(50):
            self.number = getattr(self, "number", 0) + 1  # equal questions are answered once
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            connection.request("GET", f"/api/{command}?{encoded([*parameters, ('function', f'none{self.number}')])}",
                               headers={"Authorization": f"Bearer {self.token}"})
            # Without a pause: an answer may take less than 5 ms.
            deadline = time.monotonic() + 60
            while not (started := [one for one in self.children() if one not in others]):
                if select.select([connection.sock], [], [], 0)[0]:
                    break  # it is answered already
                self.assertLess(time.monotonic(), deadline, "no process computes the answer")
            if started:
                child = int(started[0])
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGSTOP)
                    # It may have ended before the signal.
                    if harness.wait_until(lambda: self.state_of(child), "state") == "T":
                        return connection, child
            connection.close()
        self.fail("every answer was computed before its process could be stopped")

    def state_of(self, child):
        """T: stopped; gone: it has ended. None: the signal has not arrived yet."""
        try:
            state = harness.process_state(child)
        except (FileNotFoundError, ProcessLookupError):
            return "gone"
        return {"T": "T", "Z": "gone"}.get(state)

    @staticmethod
    def open_files(process):
        return [os.readlink(f"/proc/{process}/fd/{one}") for one in os.listdir(f"/proc/{process}/fd")]

    def is_gone(self, child):
        return self.state_of(child) == "gone"


class Answers(Serve):
    """The answers are what the command line prints."""

    def setUp(self):
        super().setUp()
        self.trace = self.copy_of(self.record_once(harness.program("ledger_threads"), FREE_STACKS=1))
        self.start(self.trace)

    def cli(self, command, parameters, status=(0, 1)):
        words = []
        arguments = []
        for name, value in parameters:
            if name == "arg":
                arguments.append(value)
            else:
                words.append(f"--{name}" if value == "1" and name in self.SWITCHES else f"--{name}={value}")
        return self.heapprof(command, *words, *(["--once"] if command == "top" else []), "--json", "--", self.trace,
                             *arguments, status=status)

    SWITCHES = ("inverted", "only-own", "all", "no-history", "shared-frames", "no-suppressions", "full-names",
                "resident", "no-helpers")

    def assert_equal_answers(self, command, *parameters):
        text = self.ask(command, parameters)
        answer = json.loads(text)
        printed = self.cli(command, parameters, status=(0, 1, 3))
        self.assertEqual(answer, json.loads(printed), f"{command} {parameters}")
        # The same text, without the white space between tokens. Fractions keep their digits.
        tokens = json.dumps(json.loads(printed, parse_float=lambda digits: f"<number {digits}>"),
                            separators=(",", ":"), ensure_ascii=False)
        self.assertEqual(text, re.sub('"<number ([^>]*)>"', r"\1", tokens) + "\n")
        return answer

    def test_every_command(self):
        function = json.loads(self.ask("report", [("by", "function"), ("top", 1)]))["rows"][0]["name"]
        for command, *parameters in (
                ("info",), ("report",), ("report", ("by", "line"), ("sort", "total"), ("top", "3")),
                ("tree", ("inverted", "1"), ("min-share", "0.1")), ("callers", ("arg", function)),
                ("blocks", ("top", "5"), ("skip", "2")), ("source",), ("pins", ("at", "50%")), ("rss",),
                ("histogram",), ("churn", ("within", "5ms")), ("reallocs",), ("threads",), ("frees", ("shared-frames", "1")),
                ("report", ("by", "stack"), ("shared-frames", "1")),
                ("leaks", ("no-suppressions", "1")), ("top", ("by", "function"), ("top", "4")),
                ("timeline", ("sites", "3")), ("check", ("max-peak", "1"))):
            self.assert_equal_answers(command, *parameters)

    def test_random_selections(self):
        generator = harness.random_generator("serve")
        for _ in range(6):
            begin, end = sorted(generator.sample(range(101), 2))
            selection = [("from", f"{begin}%"), ("to", f"{end}%")]
            if generator.random() < 0.5:
                selection.append(("function", generator.choice(["site_.*", "std::.*", "a+b|c d", "\u00e9\"'<&%"])))
            if generator.random() < 0.5:
                selection.append(("min-size", str(generator.randrange(500))))
            if generator.random() < 0.3:
                selection.append(("only-own", "1"))
            self.assert_equal_answers(generator.choice(["report", "tree", "leaks"]), *selection)

    def test_two_moments(self):
        answer = json.loads(self.ask("diff", [("arg", "@10%"), ("arg", "@end")]))
        printed = json.loads(self.heapprof("diff", f"{self.trace}@10%", f"{self.trace}@end", "--json"))
        self.assertEqual(answer, printed)

    def test_pictures_and_tables(self):
        for command, parameters, kind, begin in (
                ("flamegraph", [], "image/svg+xml", "<?xml"), ("flamegraph", [("format", "folded")], "text/plain", ""),
                ("timeline", [("format", "svg")], "image/svg+xml", "<?xml"),
                ("report", [("by", "function"), ("csv", "1")], "text/csv", "name,"),
                ("blocks", [("csv", "1"), ("top", "2")], "text/csv", "")):
            status, headers, text = self.request(f"/api/{command}?{encoded(parameters)}")
            self.assertEqual((status, headers["Content-Type"].split(";")[0]), (200, kind), text[:300])
            self.assertTrue(text.startswith(begin), text[:100])
            self.assertNotIn("script-src", headers["Content-Security-Policy"])

    def test_errors_are_the_sentences_of_the_command_line(self):
        self.assertIn("invalid value 'x' for --min-size", self.error_of("report", [("min-size", "x")]))
        self.assertIn("unknown option 'output' of report", self.error_of("report", [("output", "x")]))
        self.assertIn("unknown command 'record'", self.error_of("record"))
        self.assertIn("no such trace", self.error_of("report", [("trace", "1")]))
        self.assertIn("no stack with costs has a function", self.error_of("callers", [("arg", "--output=x")], 422))

    def test_nothing_is_written_and_no_other_file_is_read(self):
        secret = self.dir / "secret.txt"
        secret.write_text("secret words")
        target = self.dir / "written"
        def files():
            return sorted(path.name for path in self.dir.iterdir())
        before = files()
        for name in ("output", "o", "-o", "--output", "junit", "config", "suppressions", "sysroot", "debug-dir",
                     "source-path", "baseline", "debuginfod", "file"):
            self.error_of("leaks", [(name, target)])
        for command, value in (("callers", f"--output={target}"), ("source", f"-o{target}"), ("source", secret),
                               ("callers", f"@{secret}")):
            text = self.error_of(command, [("arg", value)], 422)
            self.assertNotIn("words", text)
        for path in ("/../secret.txt", "/%2e%2e/secret.txt", f"/{secret}", "//etc/passwd", "/index.html", "/api/../x"):
            status, _, text = self.request(path)
            self.assertIn(status, (400, 404), path)
            self.assertNotIn("words", text)
        self.assertEqual(files(), before)

    def test_two_clients_at_once(self):
        questions = [("report", [("by", key)]) for key in ("function", "line", "site", "module")] * 3
        expected = {key: self.ask("report", [("by", key)]) for key in ("function", "line", "site", "module")}
        random.Random(harness.SEED).shuffle(questions)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for question, text in zip(questions, pool.map(lambda one: self.ask(*one), questions)):
                self.assertEqual(text, expected[question[1][0][1]])

    def test_a_slow_answer_does_not_delay_others(self):
        connection, child = self.stopped_answer("report")
        self.assertEqual(json.loads(self.ask("report"))["format_version"], 1)
        os.kill(child, signal.SIGCONT)
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def test_two_slow_answers_do_not_delay_others(self):
        connections = [self.stopped_answer("report")[0] for _ in range(2)]
        self.assertEqual(json.loads(self.ask("report"))["format_version"], 1)
        for connection in connections:
            connection.close()

    def test_nobody_waits_for_an_answer(self):
        connection, child = self.stopped_answer("report")
        connection.close()
        harness.wait_until(lambda: self.is_gone(child), "the process of a closed connection")
        self.ask("report")

    def test_a_crash_ends_one_answer_only(self):
        connection, child = self.stopped_answer("report")
        os.kill(child, signal.SIGKILL)
        response = connection.getresponse()
        self.assertEqual(response.status, 500)
        self.assertIn("was ended by signal 9", json.loads(response.read())["error"])
        connection.close()
        self.ask("report")

    def test_answers_are_kept_until_the_file_changes(self):
        # While the processes that compute are stopped, as many as there can be, an answer that is kept arrives.
        first = self.ask("report")
        stopped = [self.stopped_answer("report") for _ in range(4)]
        self.assertEqual(self.ask("report"), first)
        for connection, _ in stopped:
            connection.close()
        other = self.record(harness.program("known_leaks")).trace
        os.replace(other, self.trace)
        again = json.loads(self.ask("report"))
        self.assertIn("known_leaks", again["program"])
        self.assertNotEqual(again["pid"], json.loads(first)["pid"])

    def test_damaged_and_missing_recordings(self):
        whole = self.trace.read_bytes()
        self.trace.write_bytes(whole[:len(whole) // 2])
        report = json.loads(self.ask("report"))
        self.assertEqual(report, json.loads(self.cli("report", [], status=1)))
        self.assertFalse(report["integrity"]["complete"])
        self.trace.write_bytes(b"x" * 5000)
        self.assertIn("not a heapprof trace", self.error_of("report", (), 422))
        self.trace.unlink()
        self.assertIn(str(self.trace), self.error_of("report", (), 422))
        self.trace.write_bytes(whole)
        self.assertTrue(json.loads(self.ask("report"))["integrity"]["complete"])


class LargeRecording(Serve):
    """Questions about a recording of more than 16 MB wait for its index, and the server shows how far it is."""

    def setUp(self):
        super().setUp()
        self.trace = large_recording.recording()

    def without_index(self, *command):
        return json.loads(self.call_once(self.heapprof, *command, "--json", "--no-index", self.trace))

    def indexes(self):
        return list(self.dir.glob("cache/heapprof/index/*.idx"))

    def progress(self):
        return json.loads(self.ask("progress"))["running"]

    def stopped_index(self):
        """Asks for a report, and stops the process that writes the index. Returns the connection and the process."""
        connection, child = self.stopped_answer("report")
        self.assertEqual([one["command"] for one in self.progress()], ["index"])
        return connection, child

    def stopped_answer(self, command, parameters=()):
        for _ in range(50):
            self.start(self.trace, XDG_CACHE_HOME=self.dir / "cache")
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            connection.request("GET", f"/api/{command}?{encoded(parameters)}",
                               headers={"Authorization": f"Bearer {self.token}"})
            child = int(harness.wait_until(self.children, "no process was started")[0])
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGSTOP)
                if harness.wait_until(lambda: self.state_of(child), "state") == "T" and not self.indexes():
                    return connection, child
            connection.close()
            self.server.kill()
            for index in self.indexes():
                index.unlink()
        self.fail("every index was written before its process could be stopped")

    def test_questions_wait_for_the_index(self):
        connection, child = self.stopped_index()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            other = pool.submit(self.ask, "tree", [("from", "10%"), ("to", "20%")])
            self.assertEqual(json.loads(self.ask(""))["traces"][0]["name"], self.trace.name)
            self.assertEqual(self.children(), [str(child)])
            self.assertEqual(self.indexes(), [])
            os.kill(child, signal.SIGCONT)
            answers = {"report": json.loads(connection.getresponse().read()), "tree": json.loads(other.result())}
        connection.close()
        self.assertEqual(len(self.indexes()), 1)
        for command, words in (("report", ()), ("tree", ("--from", "10%", "--to", "20%"))):
            self.assertEqual(answers[command], self.without_index(command, *words))
        self.assertEqual(self.progress(), [])

    def test_at_most_two_indexes_are_written_at_once(self):
        traces = [self.dir / f"{i}.heapprof" for i in range(4)]
        for trace in traces:
            os.link(self.trace, trace)
        self.start(*traces, XDG_CACHE_HOME=self.dir / "cache")
        connections = []
        for i in range(len(traces)):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            self.addCleanup(connection.close)
            connection.request("GET", f"/api/report?trace={i}", headers={"Authorization": f"Bearer {self.token}"})
            connections.append(connection)
        def answered():
            """Whether all are answered; the indexes are counted meanwhile."""
            self.assertLessEqual(sum(one["command"] == "index" for one in self.progress()), 2)
            return all(select.select([connection.sock], [], [], 0)[0] for connection in connections)
        harness.wait_until(answered, "answers")
        for connection in connections:
            self.assertEqual(connection.getresponse().status, 200)

    def test_without_an_index_the_answers_are_the_same(self):
        """The process that writes the index is killed: the questions are answered without it."""
        connection, child = self.stopped_index()
        os.kill(child, signal.SIGKILL)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        self.assertEqual(answer, self.without_index("report"))

    def test_leaks_and_timeline_leave_an_index(self):
        """Then they read the recording once, and no longer the next time."""
        for words in (("leaks", "--json"), ("timeline", "--json", "--sites", "4")):
            with self.subTest(words=words):
                cache = self.dir / words[0]

                def answer(*more):
                    """The answer, and how often the recording was read."""
                    # By its name only: what is shown has at most 40 characters, and the second pass is "Reading NAME again".
                    run = subprocess.run(
                        [harness.HEAPPROF, *words, *more, self.trace.name], capture_output=True, check=True,
                        cwd=self.trace.parent, env=harness.clean_environment(XDG_CACHE_HOME=cache, HEAPPROF_PROGRESS="lines"))
                    lines = run.stderr.decode().split("\n")[:-1]
                    return json.loads(run.stdout), len({json.loads(line.removeprefix("\x1e"))["what"] for line in lines})
                expected, passes = answer("--no-index")
                self.assertEqual(passes, 2)
                self.assertFalse((cache / "heapprof" / "index").exists())
                self.assertEqual(answer(), (expected, 1))
                self.assertEqual(len(list(cache.glob("heapprof/index/*.idx"))), 1)
                self.assertEqual(answer(), (expected, 0))

    def test_progress(self):
        """What commands print for the server, and what it makes of it."""
        for words in (("report", "--by=function"), ("report", "--from=start")):
            with self.subTest(words=words):
                printed = subprocess.run(
                    [harness.HEAPPROF, *words, "--json", "--no-index", self.trace], stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, env=harness.clean_environment(HEAPPROF_PROGRESS="lines"), check=True)
                lines = printed.stderr.decode().split("\n")[:-1]
                self.assertTrue(lines)
                for line in lines:
                    shown = json.loads(line.removeprefix("\x1e"))
                    self.assertRegex(shown["what"], "^Reading /")
                    self.assertTrue(0 <= shown["share"] < 1)
                    self.assertGreaterEqual(shown["events"], 0)
        for _ in range(20):
            connection, child = self.stopped_index()
            os.kill(child, signal.SIGCONT)
            shown = harness.wait_until(lambda: [one for one in self.progress() if one["events"] > 0] or
                                       self.indexes(), "no progress, and no index")[0]
            connection.getresponse().read()
            connection.close()
            if isinstance(shown, dict):
                break
            shown.unlink()
        self.assertEqual(shown["what"].split()[0], "Reading")
        self.assertTrue(0 <= shown["share"] < 1, shown)
        self.assertGreater(shown["so_far"]["allocations"], 0)

    def test_sums_so_far(self):
        """They lie between those of all events before their moment and those of all events up to a later one. The
        clock is known exactly when the recording is read, so the moment may be wrong by a thousandth."""
        enough = 2_000_000  # events: by then, the index has several intervals
        for number in range(20):
            reading = self.popen(
                [harness.HEAPPROF, "report", "--from=start", "--json", self.trace], stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True,
                env=harness.clean_environment(HEAPPROF_PROGRESS="lines", XDG_CACHE_HOME=self.dir / f"cache{number}"))
            lines = [reading.stderr.readline()]
            # Lines are 0.2 seconds apart, in which a fast machine reads the whole recording.
            time.sleep((0.15, 0.05, 0.1)[number % 3])
            reading.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
            reading.send_signal(signal.SIGCONT)
            lines += reading.stderr.readlines()
            self.assertEqual(reading.wait(60), 0)
            printed = [json.loads(line.removeprefix("\x1e")) for line in lines]
            found = [(line["so_far"], line["events"]) for line in printed if "so_far" in line]
            if found and found[-1][1] > enough:
                sums, _ = found[-1]
                break
        else:
            self.fail(f"no progress was printed after {enough} events")
        before, after = (json.loads(self.heapprof(
            "report", "--json", "--no-index", "--from=start", f"--to={int(sums['time_ns'] * factor)}ns", self.trace))
            for factor in (0.999, 1.001))
        for key in ("allocations", "allocated_bytes", "peak_bytes"):
            values = before["heap"][key], sums[key], after["heap"][key]
            self.assertEqual(sorted(values), list(values), key)
        # What is live can rise and fall meanwhile.
        self.assertAlmostEqual(sums["live_bytes"], after["heap"]["leaked_bytes"], delta=1_000_000)
        self.assertAlmostEqual(sums["live_blocks"], after["heap"]["leaked_blocks"], delta=20)

    def test_html_writes_the_index_first(self):
        def first_words():
            """The command line of the only process; False: the index is written already."""
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the process has ended
                children = self.children()
                if self.indexes() or len(children) > 1:
                    return [False]
                # They are missing for a moment while the program is loaded.
                return [words] if children and (words := Path(f"/proc/{children[0]}/cmdline").read_bytes()) else None
            return None

        for _ in range(20):
            self.server = self.popen([harness.HEAPPROF, "html", self.trace, "-o", self.dir / "page.html"],
                                     stderr=subprocess.DEVNULL, env=harness.analyzer_environment(
                                         XDG_CACHE_HOME=self.dir / "cache"))
            words, = harness.wait_until(first_words, "no process was started")
            if words:
                break
            self.server.kill()
            self.server.wait(60)
            for index in self.indexes():
                index.unlink()
        else:
            self.fail("every index was written before its process was seen")
        self.assertIn(b"--from=start", words.split(b"\0"))
        harness.wait_until(self.indexes, "no index is written")
        self.server.kill()
        self.server.wait(60)

    def test_a_message_beside_progress_is_unchanged(self):
        self.start(self.trace)
        message = self.error_of("callers", [("arg", "no such function")], status=422)
        self.assertNotIn("Reading", message)
        self.assertIn("no such function", message)


class Access(Serve):
    """Who is answered, and with which headers."""

    def setUp(self):
        super().setUp()
        self.trace = self.copy_of(self.record_once(harness.program("hello")))
        self.start(self.trace)

    def test_without_the_token_nothing_is_answered(self):
        for path in ("/", "/api/", "/api/report", "/none", "/metrics", "/debug/pprof/heap",
                     "/api/events", "/?token=0", "/?token="):
            for headers in ({}, {"Cookie": f"heapprof_{self.port}=0123"}, {"Authorization": "Bearer x"}):
                status, given, text = self.request(path, token=False, headers=headers)
                self.assertEqual(status, 401, path)
                self.assertNotIn("Set-Cookie", given)
                self.assertIn("token", json.loads(text)["error"])
                self.assertNotIn(self.token, text)
        self.assertEqual(self.request("/api/control/pause", "POST", token=False)[0], 401)

    def test_the_address_sets_a_cookie_that_opens_the_rest(self):
        status, headers, text = self.request(f"/?token={self.token}", token=False)
        self.assertEqual(status, 200)
        self.assertIn("<!doctype html>", text)
        cookie = headers["Set-Cookie"]
        self.assertIn("HttpOnly", cookie)
        self.assertIn("SameSite=Strict", cookie)
        status, _, text = self.request("/api/report", token=False, headers={"Cookie": cookie.split(";")[0]})
        self.assertEqual(status, 200)
        self.assertNotIn(self.token, text)
        # For tools that keep no cookies.
        self.assertEqual(self.request(f"/api/report?token={self.token}", token=False)[0], 200)

    def test_hosts_and_pages_of_others(self):
        for host in ("evil.example", f"evil.example:{self.port}", "127.0.0.1.evil.example", ""):
            self.assertEqual(self.request("/api/report", headers={"Host": host})[0], 403, host)
        for host in ("localhost", "localhost:1", f"[::1]:{self.port}"):
            self.assertEqual(self.request("/api/report", headers={"Host": host})[0], 200, host)
        cookie = {"Cookie": f"heapprof_{self.port}={self.token}"}
        own = {"Origin": f"http://127.0.0.1:{self.port}"}
        for foreign in ({"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}, {"Sec-Fetch-Site": "same-site"}):
            self.assertEqual(self.request("/api/report", token=False, headers=cookie | foreign)[0], 403, foreign)
            self.assertEqual(self.request("/api/control/pause", "POST", False, cookie | foreign)[0], 403, foreign)
        self.assertEqual(self.request("/api/control/pause", "POST", False, cookie)[0], 403)
        # This one is allowed; the program has ended.
        status, _, text = self.request("/api/control/pause", "POST", False, cookie | own)
        self.assertEqual(status, 422, text)
        self.assertIn("ended", json.loads(text)["error"])
        status, headers, _ = self.request("/api/report", "OPTIONS", headers={"Origin": "http://evil.example"})
        self.assertEqual(status, 405)
        self.assertFalse([name for name in headers if name.lower().startswith("access-control")])

    def test_headers(self):
        for path in ("/", "/api/report", "/none"):
            _, headers, _ = self.request(path)
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Cache-Control"], "no-store")
            self.assertTrue(headers["Content-Security-Policy"].startswith("default-src 'none'"))
            self.assertNotIn("unsafe-eval", headers["Content-Security-Policy"])
        _, headers, page = self.request("/")
        policy = headers["Content-Security-Policy"]
        self.assertNotIn("unsafe", policy)
        self.assertNotIn("'self'", policy.replace("connect-src 'self'", ""))
        for kind, element in (("script-src", "script"), ("style-src", "style")):
            texts = re.findall(rf"<{element}>(.*?)</{element}>", page, re.S)
            hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
            self.assertGreater(len(hashes), 1)
            self.assertEqual(re.search(rf"{kind} ([^;]*);", policy)[1].split(), [f"'sha256-{one}'" for one in hashes])
        self.assertFalse(re.findall(r'<script[^>]* src=|<link[^>]* href="(?!data:)', page))

    def test_a_get_changes_nothing(self):
        self.assertEqual(self.request("/api/control/pause")[0], 400)
        self.assertEqual(self.request("/api/report", "POST")[0], 404)
        self.assertEqual(self.request("/api/report", "DELETE")[0], 405)
        status, headers, text = self.request("/api/report", "HEAD")
        self.assertEqual((status, text), (200, ""))
        self.assertGreater(int(headers["Content-Length"]), 100)


class Clients(Serve):
    """Clients that do not speak HTTP properly."""

    def setUp(self):
        super().setUp()
        self.trace = self.copy_of(self.record_once(harness.program("hello")))
        self.start(self.trace)

    def connect(self, data=b""):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(client.close)
        if data:
            client.sendall(data)
        return client

    def answer_to(self, data, is_all=True):
        """What the server sends until it closes the connection. `is_all`: the client closes its side before that."""
        client = self.connect(data)
        if is_all:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_WR)
        parts = []
        with contextlib.suppress(ConnectionResetError):
            while part := client.recv(65536):
                parts.append(part)
        client.close()
        return b"".join(parts)

    def test_slow_and_silent_clients_keep_nobody_out(self):
        clients = [self.connect(b"" if i % 2 else b"GET /api/report HTTP/1.1\r\nHost: loc") for i in range(150)]
        self.assertEqual(json.loads(self.ask("report"))["format_version"], 1)
        descriptors = len(os.listdir(f"/proc/{self.server.pid}/fd"))
        self.assertLess(descriptors, 64 + 20)
        # The last ones are still connected, and can finish their requests.
        clients[-2].sendall(f"alhost\r\nConnection: close\r\nAuthorization: Bearer {self.token}\r\n\r\n".encode())
        with clients[-2].makefile("rb") as answer:
            self.assertTrue(answer.read().startswith(b"HTTP/1.1 200 OK"))

    def test_clients_that_read_nothing_keep_nobody_out(self):
        for _ in range(64):
            client = socket.socket()
            self.addCleanup(client.close)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect(("127.0.0.1", self.port))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError, ConnectionError):
                for _ in range(100):
                    client.sendall(500 * b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")

        def spent():
            return Path(f"/proc/{self.server.pid}/stat").read_text().rpartition(")")[2].split()[11:13]

        def is_waiting():
            before = spent()
            time.sleep(0.1)
            return spent() == before
        harness.wait_until(is_waiting, "the server goes on answering")
        self.ask("report")

    def test_garbage(self):
        generator = harness.random_generator("garbage")
        token = f"Host: localhost\r\nAuthorization: Bearer {self.token}\r\n".encode()
        for data in (b"\0" * 100, b"\r\n" * 50, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
                     b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 40_000 + b"\r\n\r\n",
                     b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n" + token + b"\r\n",
                     b"POST /api/control/pause HTTP/1.1\r\n" + token + b"Content-Length: 99999999\r\n\r\n",
                     b"POST / HTTP/1.1\r\n" + token + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
                     b"GET /%00 HTTP/1.1\r\n" + token + b"\r\n", b"GET http://x/ HTTP/1.1\r\n" + token + b"\r\n",
                     b"GET /api/report?%zz HTTP/1.1\r\n" + token + b"\r\n",
                     *(generator.randbytes(generator.randrange(1, 3000)) for _ in range(10))):
            answer = self.answer_to(data)
            if answer:
                self.assertRegex(answer, rb"^HTTP/1.1 4\d\d ", data[:100])
        self.ask("report")

    def test_requests_in_a_row_and_early_requests(self):
        one = f"GET /api/report?top=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n".encode()
        answer = self.answer_to(3 * (one + b"\r\n") + one + b"Connection: close\r\n\r\n", is_all=False)
        self.assertEqual(answer.count(b"HTTP/1.1 200 OK"), 4)

    def test_old_clients(self):
        answer = self.answer_to(f"GET /api/?token={self.token} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        self.assertRegex(answer, rb"^HTTP/1.1 200 ")


class StartAndEnd(Serve):
    """How the server starts and ends."""

    def setUp(self):
        super().setUp()
        self.trace = self.copy_of(self.record_once(harness.program("hello")))

    def end(self, number=signal.SIGINT):
        self.server.send_signal(number)
        output, error = self.server.communicate(timeout=60)
        self.assertEqual(self.server.returncode, 0, error)
        return output, error

    def test_the_first_line_is_the_address(self):
        self.start(self.trace, "--no-open")
        self.assertRegex(self.url, r"^http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32}$")
        self.assertEqual(self.end(), ("", f"heapprof: serving {self.trace}; Ctrl-C ends it\n"))
        first = self.token
        self.start(self.trace)
        self.assertNotEqual(self.token, first)
        self.end(signal.SIGTERM)

    def test_ssh(self):
        connection = dict(SSH_CONNECTION="10.0.0.1 5000 10.0.0.2 2222", DISPLAY=":99")
        self.start(self.trace, **connection)
        self.assertRegex(self.end()[1],
                         f"ssh -L {self.port}:127.0.0.1:{self.port} -p 2222 .* and open the address above")
        # The server listens nowhere else.
        self.start(self.trace, "--listen", "::1", **connection)
        self.assertRegex(self.end()[1], rf"ssh -L {self.port}:\[::1\]:{self.port} -p 2222 .* and open "
                                        rf"http://127\.0\.0\.1:{self.port}/\?token={self.token}\n")

    def test_nohup(self):
        self.start(self.trace, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.server.send_signal(signal.SIGHUP)
        self.ask("report")
        self.end()

    def test_the_end_ends_answers(self):
        self.start(self.trace)
        connection, child = self.stopped_answer("report")
        # It has neither the port nor the connections.
        self.assertEqual([file for file in self.open_files(child) if file.startswith("socket:")], [])
        self.end()
        harness.wait_until(lambda: self.is_gone(child), "the process of an answer")
        connection.close()
        self.start(self.trace)
        connection, child = self.stopped_answer("report")
        self.server.kill()
        harness.wait_until(lambda: self.is_gone(child), "the process of an answer, when the server is killed")
        connection.close()

    def test_the_browser_gets_neither_token_nor_port(self):
        """The token is not on its command line."""
        programs = self.dir / "bin"
        programs.mkdir()
        opened = self.dir / "opened"
        os.mkfifo(opened)
        (programs / "xdg-open").write_text(
            f'#!/bin/sh\n{{ echo "$@"; stat -c %a "$1"; ls -l /proc/$$/fd | grep -c socket:; cat "$1"; }} >"{opened}"\n')
        (programs / "xdg-open").chmod(0o755)
        self.start(self.trace, DISPLAY=":99", XDG_RUNTIME_DIR=self.dir,
                   PATH=f"{programs}:{os.environ['PATH']}")
        argument, mode, sockets, page = opened.read_text().split("\n", 3)
        self.assertTrue(argument.startswith(f"{self.dir}/heapprof-"), argument)
        self.assertEqual((mode, sockets), ("600", "0"))
        self.assertIn(self.url, page)
        self.end()
        self.assertFalse(Path(argument).exists())

    def test_a_browser_that_cannot_be_opened(self):
        """A sentence on standard error says why, unless none should open."""
        empty = self.dir / "bin"
        empty.mkdir()
        no_program = dict(PATH=empty, XDG_RUNTIME_DIR=self.dir)
        for variables, reason in ((dict(), "DISPLAY and WAYLAND_DISPLAY are not set"),
                                  (dict(DISPLAY=":99", **no_program), "there is no xdg-open in PATH"),
                                  (dict(WAYLAND_DISPLAY="wayland-0", **no_program), "there is no xdg-open in PATH"),
                                  (dict(DISPLAY=":99", XDG_RUNTIME_DIR=self.dir / "none"),
                                   f"{self.dir}/none: No such file or directory")):
            with self.subTest(reason=reason):
                self.start(self.trace, **variables)
                self.assertEqual(self.end(), (
                    "", f"heapprof: no browser was opened: {reason}; open the address above\n"
                        f"heapprof: serving {self.trace}; Ctrl-C ends it\n"))
                self.assertEqual(list(self.dir.glob("heapprof-*")), [])
        for variables in (dict(), dict(DISPLAY=":99", **no_program)):
            self.start(self.trace, "--no-open", **variables)
            self.assertEqual(self.end()[1], f"heapprof: serving {self.trace}; Ctrl-C ends it\n")

    def opener(self, script):
        """A program xdg-open that writes its process id and then runs `script`, which may read the pipe `ending`
        beside it; the variables for start(), and the file with the process id."""
        programs = Path(tempfile.mkdtemp(prefix="bin-", dir=self.dir))
        os.mkfifo(programs / "ending")
        process = programs / "process"
        (programs / "xdg-open").write_text(f'#!/bin/sh\necho $$ >"{process}.new" && mv "{process}.new" "{process}"\n'
                                           f'{script}\n')
        (programs / "xdg-open").chmod(0o755)
        return dict(DISPLAY=":99", XDG_RUNTIME_DIR=programs, PATH=f"{programs}:{os.environ['PATH']}"), process

    def wait_for_the_end_of(self, process):
        """The server has been told of the end by then: the process is no zombie."""
        number = harness.wait_until(lambda: process.exists() and process.read_text().strip(), "xdg-open")
        harness.wait_until(lambda: not Path(f"/proc/{number}").exists(), "the end of xdg-open")

    def test_an_opener_that_fails(self):
        """xdg-open starts, and cannot open the page: a sentence says so."""
        for script, reason in (("exit 3", "xdg-open failed with exit status 3"),
                               ("kill -9 $$", "xdg-open was ended by signal 9")):
            with self.subTest(script=script):
                variables, process = self.opener(script)
                self.start(self.trace, **variables)
                self.wait_for_the_end_of(process)
                self.assertEqual(self.end(), (
                    "", f"heapprof: serving {self.trace}; Ctrl-C ends it\n"
                        f"heapprof: no browser was opened: {reason}; open the address above\n"))
                self.assertEqual(list(process.parent.glob("heapprof-*")), [])

    def test_an_opener_that_succeeds(self):
        """Nothing is printed if xdg-open succeeds, still runs, or fails after the page was sent."""
        serving = ("", f"heapprof: serving {self.trace}; Ctrl-C ends it\n")
        variables, process = self.opener("exit 0")
        self.start(self.trace, **variables)
        self.wait_for_the_end_of(process)
        self.assertEqual(len(list(process.parent.glob("heapprof-*"))), 1)  # the browser may still read it
        self.assertEqual(self.end(), serving)
        self.assertEqual(list(process.parent.glob("heapprof-*")), [])
        # The server neither waits for it nor ends it.
        fails_later = 'read line <"$(dirname "$0")/ending"; exit 1'
        variables, process = self.opener(fails_later)
        self.start(self.trace, **variables)
        number = harness.wait_until(lambda: process.exists() and process.read_text().strip(), "xdg-open")
        self.assertEqual(self.end(), serving)
        self.assertTrue(Path(f"/proc/{number}").exists())
        (process.parent / "ending").write_text("now\n")
        # Who has the page needs no sentence.
        variables, process = self.opener(fails_later)
        self.start(self.trace, **variables)
        self.assertEqual(self.request("/")[0], 200)
        (process.parent / "ending").write_text("now\n")
        self.wait_for_the_end_of(process)
        self.assertEqual(self.end(), serving)

    def test_a_port_that_is_taken(self):
        port = ports.free_port()
        self.start(self.trace, "--port", port)
        result = self.run_heapprof("serve", self.trace, "--no-open", "--port", port)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("the port is taken by another program", result.stderr)
        self.end()
        # The port is free at once, although connections to it have just been closed.
        self.start(self.trace, "--port", port)
        self.assertEqual(self.port, port)

    def test_port_0_is_any_free_port(self):
        self.start(self.trace, "--port", "0")
        self.assertNotEqual(self.port, 0)
        self.assertEqual(self.request("/api/")[0], 200)

    def test_other_addresses(self):
        self.start(self.trace, "--listen", "0.0.0.0")
        self.assertIn("can be reached from the network", self.end()[1])
        self.start(self.trace, "--listen", "0:0:0:0:0:0:0:0")
        self.assertEqual(self.request("/api/", headers={"Host": f"192.0.2.1:{self.port}"})[0], 200)
        self.end()
        for address in ("nonsense", "localhost:80", "", "1.2.3"):
            result = self.run_heapprof("serve", self.trace, "--no-open", "--listen", address)
            self.assertIn(result.returncode, (1, 2))
            self.assertIn("--listen", result.stderr)
        self.assertEqual(self.run_heapprof("serve", self.trace, "--listen", "192.0.2.1").returncode, 1)

    def test_wrong_arguments(self):
        for arguments, status, sentence in (
                ([self.dir / "none.heapprof"], 1, "none.heapprof"), (["/etc/passwd"], 1, "not a heapprof trace"),
                ([self.trace, "--port", "70000"], 2, "--port"), ([self.trace, "--port", "x"], 2, "--port"),
                ([self.trace, "--suppressions", self.dir / "none.supp"], 1, "none.supp: cannot be read"),
                ([self.trace, "--config", self.dir / "none.toml"], 2, "none.toml: there is no such file"),
                ([self.trace, "--own", "("], 2, "--own")):
            result = self.run_heapprof("serve", *arguments)
            self.assertEqual((result.returncode, result.stdout), (status, ""), result.stderr)
            self.assertIn(sentence, result.stderr)
        empty = self.dir / "empty"
        empty.mkdir()
        result = self.run_heapprof("serve", empty)
        self.assertEqual(result.returncode, 1)
        self.assertIn("there is no recording", result.stderr)

    def test_the_project_file(self):
        """Answers follow the .heapprof.toml of the directory in which the server was started, as the commands do."""
        (self.dir / ".heapprof.toml").write_text('own = ["^_start$"]\nstandard = ["^main$"]\n')
        self.start(self.trace)
        words = ("report", "--by", "function", "--top", "0", "--json", self.trace)
        answer = json.loads(self.ask("report", [("by", "function"), ("top", "0")]))
        self.assertEqual(answer, json.loads(self.heapprof(*words)))
        self.assertNotEqual(answer, json.loads(self.heapprof(*words, "--no-config")))

    def test_options_for_all_answers(self):
        """Options of the server are those of each answer that has them, and GET /api/ lists them."""
        rules = self.dir / "leaks.supp"
        rules.write_text("leak:main\n")
        project = self.dir / "project.toml"
        project.write_text('standard = ["^main$"]\n')
        own = [f"--config={project}", "--own=^_start$", "--full-names"]
        self.start(self.trace, "--suppressions", rules, *own, "--helper", "^main$")
        options = json.loads(self.request("/api/")[2])["options"]
        self.assertEqual(options["flamegraph"], own)
        self.assertEqual(options["leaks"], [*own, "--helper=^main$", f"--suppressions={rules}"])
        self.assertEqual(options["check"], [own[0], f"--suppressions={rules}"])
        self.assertEqual(options["histogram"], [])
        for command, parameters in (("report", [("by", "function")]), ("leaks", []), ("tree", []), ("histogram", [])):
            with self.subTest(command=command):
                words = [command, *(f"--{name}={value}" for name, value in parameters), self.trace, "--json"]
                answer = json.loads(self.ask(command, parameters))
                self.assertEqual(answer, json.loads(self.heapprof(*words, *options[command])))
                if options[command]:
                    self.assertNotEqual(answer, json.loads(self.heapprof(*words)))
        # A client may ask for the opposite.
        self.assertEqual(json.loads(self.ask("leaks", [("no-suppressions", "1"), ("short-names", "1")])),
                         json.loads(self.heapprof("leaks", self.trace, "--json", "--no-suppressions", "--short-names",
                                                  *own[:2], "--helper=^main$")))
        self.ask("tree", [("full-names", "1")])

    def test_directories(self):
        folder = self.dir / "many"
        folder.mkdir()
        for name in ("b.heapprof", "a.heapprof.1", "c.hprof"):
            shutil.copy(self.trace, folder / name)
        (folder / "text.heapprof").write_text("no trace")
        self.start(folder, self.trace)
        about = json.loads(self.request("/api/")[2])
        self.assertEqual([(one["name"], one["n"], one["running"]) for one in about["traces"]],
                         [("a.heapprof.1", 0, False), ("b.heapprof", 1, False), ("c.hprof", 2, False),
                          (self.trace.name, 3, False)])
        self.assertEqual([one["path"] for one in about["traces"]],
                         [str(folder / name) for name in ("a.heapprof.1", "b.heapprof", "c.hprof")] + [str(self.trace)])
        self.assertEqual(about["live"], False)
        report = json.loads(self.ask("report", [("trace", "3")]))
        self.assertEqual(report["pid"], json.loads(self.ask("report", [("trace", "1")]))["pid"])

    def test_names_that_are_no_utf8(self):
        folder = os.fsencode(self.dir / "named")
        os.mkdir(folder)
        shutil.copy(self.trace, folder + b"/caf\xe9.heapprof")
        self.start(os.fsdecode(folder))
        self.assertEqual(json.loads(self.request("/api/")[2])["traces"][0]["name"], "caf\ufffd.heapprof")
        self.ask("report")

    def test_recordings_that_were_emptied(self):
        """Nobody waits in the server until an empty file becomes a recording. Clients wait for at most a minute."""
        traces = [self.dir / f"{i}.heapprof" for i in range(100, 170)]
        for trace in traces:
            os.link(self.trace, trace)
        self.start(*traces)
        self.trace.write_bytes(b"")
        os.utime(self.trace, (time.time() + 10_000, time.time() + 10_000))
        self.assertEqual(len(json.loads(self.request("/api/")[2])["traces"]), len(traces))

    def test_a_compacted_recording(self):
        compacted = self.dir / "compacted.heapprof"
        self.heapprof("compact", "--exact", self.trace, "-o", compacted)
        self.start(compacted)
        self.assertEqual(json.loads(self.ask("report"))["heap"],
                         json.loads(self.heapprof("report", self.trace, "--json"))["heap"])

    def test_the_newest_recording(self):
        self.start()
        self.assertEqual([one["name"] for one in json.loads(self.request("/api/")[2])["traces"]], [self.trace.name])


class Running(Serve):
    """A program that is being recorded."""

    def setUp(self):
        super().setUp()
        self.clients = []
        self.trace = self.dir / "run.heapprof"
        environment = harness.clean_environment(LD_PRELOAD=str(harness.LIBRARY), HEAPPROF_OUTPUT=str(self.trace))
        self.process = self.popen([harness.program("commanded")], env=environment, text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.command("a")
        self.start(self.trace)

    def command(self, commands):
        self.process.stdin.write(commands)
        self.process.stdin.flush()
        self.assertEqual(self.process.stdout.read(len(commands)), "." * len(commands))

    def test_answers_follow_the_program(self):
        self.assertTrue(json.loads(self.request("/api/")[2])["live"])
        first = json.loads(self.ask("report"))
        self.assertEqual(first["integrity"]["ended_by"], "running")
        self.command("aaaaa")
        second = json.loads(self.ask("report"))
        self.assertGreater(second["heap"]["allocations"], first["heap"]["allocations"])
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)
        self.assertFalse(json.loads(self.request("/api/")[2])["live"])
        self.assertEqual(json.loads(self.ask("report"))["integrity"]["ended_by"], "exit")

    def test_a_process_stays_for_all_questions(self):
        """One process answers all questions about the same blocks, as the command line does: after each step of the
        program, also about threads that were started meanwhile."""
        questions = (("report", [("by", "function"), ("top", "0")]), ("report", [("cost", "leaked"), ("top", "5")]),
                     ("report", [("by", "site"), ("columns", "over-time")]), ("tree", [("inverted", "1")]),
                     ("timeline", [("sites", "6")]), ("leaks", []), ("churn", []), ("blocks", []))
        self.compare_repeated(questions, stay=1)

    def test_a_process_stays_for_each_selection_of_blocks(self):
        # The last one needs the whole recording first.
        self.compare_repeated((("histogram", []), ("reallocs", []), ("threads", []), ("churn", [("within", "1ms")]),
                               ("threads", [("min-size", "100")]), ("report", [("function", "main")])), stay=2)

    def compare_repeated(self, questions, stay):
        """Asks the questions after each step of the program; then `stay` processes follow it."""
        def comparable(value):
            """Without times, which go on, or are of another sample of the clock; and without figures of equal parts of
            the time: an event near the border of two parts may be in either."""
            parts = ("low_bytes", "rises", "trend", "grew_with_load", "trends", "site_trends", "live_over_time")
            if isinstance(value, dict) and "idle" in value:   # a timeline
                return [(site["name"], site["peak_bytes"], site["bytes"][-1]) for site in value["sites"]]
            if isinstance(value, dict):
                return {key: comparable(one) for key, one in value.items()
                        if not key.endswith("_ns") and key not in parts}
            return [comparable(one) for one in value] if isinstance(value, list) else value
        def check(name, parameters):
            options = [f"--{option}" if value == "1" else f"--{option}={value}" for option, value in parameters]
            with self.subTest(name=name, options=options):
                answer = json.loads(self.ask(name, parameters))
                expected = json.loads(self.heapprof(name, self.trace, *options, "--json"))
                self.assertEqual(comparable(answer), comparable(expected))
        stays = set()
        for step in ("a", "aab", "rrf", "t", "ffrbb"):
            self.command(step)
            for question in questions:
                check(*question)
            # The process of an answer may end later than its answer is sent.
            harness.wait_until(lambda: len(self.children()) == stay, f"not {stay} processes stay")
            now = set(self.children())
            if stays:
                self.assertEqual(now, stays)
            stays = now
        for child in stays:
            os.kill(int(child), signal.SIGKILL)
        check(*questions[1])
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)
        check(*questions[1])

    def test_at_most_two_processes_read_from_the_beginning(self):
        """Each of them has a table of the live blocks. The process that stays goes on answering."""
        stopped = [self.stopped_answer("report") for _ in range(2)]
        # Others were not stopped in time, and may end later than their answers are sent.
        harness.wait_until(lambda: len(self.children()) == 2, "not 2 processes")
        waiting = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        waiting.request("GET", "/api/report?function=main", headers={"Authorization": f"Bearer {self.token}"})
        self.ask("report")
        self.assertEqual(len(self.children()), 3)
        for connection, child in stopped:
            os.kill(child, signal.SIGCONT)
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()
        self.assertEqual(waiting.getresponse().status, 200)
        waiting.close()

    def test_progress_of_the_process_that_stays(self):
        """What was recorded before the first question is read with the answer."""
        self.ask("report")
        child, = self.children()
        os.kill(int(child), signal.SIGSTOP)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/api/tree", headers={"Authorization": f"Bearer {self.token}"})
        running = harness.wait_until(lambda: json.loads(self.request("/api/progress")[2])["running"], "progress")
        self.assertEqual([(one["command"], one["events"]) for one in running], [("tree", 0)])
        os.kill(int(child), signal.SIGCONT)
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def test_control(self):
        def control(action):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                sent = pool.submit(self.request, f"/api/control/{action}", "POST")
                # The recorder answers when the program allocates or frees.
                while not sent.done():
                    self.command("a")
                    time.sleep(0.002)
                status, _, text = sent.result()
            self.assertEqual(status, 200, text)
            return json.loads(text)
        control("mark?" + encoded([("text", "<b>load & begin</b>")]))
        self.assertEqual(control("pause")["state"], "paused")
        before = json.loads(self.ask("report"))["heap"]["allocations"]
        self.command("a" * 50)
        self.assertEqual(json.loads(self.ask("report"))["heap"]["allocations"], before)
        self.assertEqual(control("resume")["state"], "recording")
        marks = json.loads(self.ask("timeline"))["marks"]
        self.assertEqual([mark["text"] for mark in marks], ["<b>load & begin</b>"])


    def events(self):
        """A connection to the stream of events, after its header."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.clients.append(client)
        self.addCleanup(client.close)
        client.sendall(f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n\r\n"
                       .encode())
        stream = client.makefile("r")
        self.addCleanup(stream.close)
        self.assertEqual(stream.readline(), "HTTP/1.1 200 OK\n")
        headers = {}
        while (line := stream.readline()) not in ("\n", ""):
            name, _, value = line.partition(": ")
            headers[name] = value.strip()
        self.assertEqual(headers["Content-Type"], "text/event-stream")
        return stream

    def next_event(self, stream):
        line = stream.readline()
        self.assertTrue(line.startswith("data: "), line)
        self.assertEqual(stream.readline(), "\n")
        return json.loads(line[6:])

    def test_events(self):
        streams = [self.events(), self.events()]
        first = [self.next_event(stream) for stream in streams]
        self.command("a" * 20)
        expected = json.loads(self.ask("report"))["events"]
        for stream, event in zip(streams, first):
            self.assertFalse(event["ended"])
            while event["events"] < expected:
                event = self.next_event(stream)
            self.assertEqual(event["events"], expected)
        streams.pop().close()
        # One process serves all listeners of a trace, and one answers.
        harness.wait_until(lambda: len(self.children()) == 2, "not 2 processes")
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)
        while not (event := self.next_event(streams[0]))["ended"]:
            pass
        report = json.loads(self.ask("report"))
        self.assertEqual((event["events"], event["live_bytes"], event["live_blocks"]),
                         (report["events"], report["heap"]["leaked_bytes"], report["heap"]["leaked_blocks"]))
        self.assertEqual(streams[0].read(), "")
        # Of a program that has ended, there is one event.
        stream = self.events()
        while not self.next_event(stream)["ended"]:
            pass
        self.assertEqual(stream.read(), "")
        harness.wait_until(lambda: not self.children(), "the process of the events")

    def test_events_end_with_their_listener(self):
        stream = self.events()
        self.next_event(stream)
        child = int(self.children()[0])
        stream.close()
        self.clients.pop().close()
        harness.wait_until(lambda: self.is_gone(child), "the process of the events")

    def profile(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            response = connection.getresponse()
            return response.status, response.read()

    def test_profiles(self):
        status, heap = self.profile("/debug/pprof/heap")
        self.assertEqual((status, heap[:2]), (200, b"\x1f\x8b"))
        self.assertEqual(self.profile("/debug/pprof/allocs?debug=0&function=grow_first")[0], 200)
        for wrong in ("?seconds=0", "?seconds=x", "?seconds=4000", "?seconds=1&from=0", "?output=x", "?trace=1"):
            self.assertEqual(self.profile(f"/debug/pprof/allocs{wrong}")[0], 400, wrong)
        self.check_idle()
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)
        self.assertEqual(self.profile("/debug/pprof/allocs?seconds=1")[0], 422)
        path = self.dir / "export.pb.gz"
        self.heapprof("export", "pprof", self.trace, "-o", path)
        for name in ("heap", "allocs"):
            status, profile = self.profile(f"/debug/pprof/{name}")
            self.assertEqual(status, 200)
            self.assertEqual(gzip.decompress(profile), gzip.decompress(path.read_bytes()))

    def test_clients_that_leave_while_it_counts(self):
        for _ in range(64):
            client = socket.create_connection(("127.0.0.1", self.port), timeout=60)
            client.sendall(f"GET /debug/pprof/allocs?seconds=3600 HTTP/1.1\r\nHost: localhost\r\nAuthorization: "
                           f"Bearer {self.token}\r\n\r\n".encode())
            self.addCleanup(client.close)
        # All are being answered: there is no place until one leaves.
        with self.assertRaises(ConnectionError):
            self.request("/api/")
        client.close()
        def has_place():
            with contextlib.suppress(ConnectionError):
                return self.request("/api/")[0] == 200
        harness.wait_until(has_place, "no place for another client")

    def test_wrong_questions_are_refused_before_it_counts(self):
        """Clients wait for at most a minute."""
        self.assertEqual(self.profile("/debug/pprof/allocs?seconds=3600&output=x")[0], 400)

    def check_idle(self):
        """The program allocates nothing in the second: alloc_objects and alloc_space, the first two values of each
        sample, are 0. Before, they are not."""
        def allocated(address):
            status, profile = self.profile(address)
            self.assertEqual(status, 200, profile)
            samples = [dict(fields(sample)) for number, sample in fields(gzip.decompress(profile)) if number == 2]
            return [[value for _, value in zip(range(2), varints(sample[2]))] for sample in samples]
        self.assertTrue(any(sum(values) > 0 for values in allocated("/debug/pprof/allocs")))
        self.assertFalse(any(sum(values) > 0 for values in allocated("/debug/pprof/allocs?seconds=1")))

    def test_metrics(self):
        self.command("ab")
        status, headers, text = self.request("/metrics")
        self.assertEqual((status, headers["Content-Type"].split(";")[0]), (200, "application/openmetrics-text"), text)
        self.assertTrue(text.endswith("# EOF\n"))
        values = {line.rpartition(" ")[0].partition("{")[0]: int(line.rpartition(" ")[2])
                  for line in text.splitlines() if not line.startswith("#") and "function=" not in line}
        report = json.loads(self.ask("report"))["heap"]
        self.assertEqual(values["heapprof_live_bytes"], report["leaked_bytes"])
        self.assertEqual(values["heapprof_live_blocks"], report["leaked_blocks"])
        self.assertEqual(values["heapprof_allocations_total"], report["allocations"])
        self.assertEqual(values["heapprof_allocated_bytes_total"], report["allocated_bytes"])
        self.assertRegex(text, r'heapprof_site_live_bytes\{[^}]*function="grow_first",location="[^"]*commanded.cpp:\d+"')


if __name__ == "__main__":
    harness.main()
