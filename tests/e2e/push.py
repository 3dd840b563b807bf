"""push: a receiver decodes what arrives, and finds the figures of `report --json`; whatever it answers, the command
ends in time with a clear message, and the recorded program notices nothing."""

import json
import re
import shutil
import signal
import subprocess
import time
from collections import Counter

import harness
import profile_messages
import profile_receiver
from profile_receiver import status

# As `report --json` names the totals.
TOTALS = {"alloc_objects": "allocations", "alloc_space": "allocated_bytes", "inuse_objects": "leaked_blocks",
          "inuse_space": "leaked_bytes", "peak_objects": "peak_blocks", "peak_space": "peak_bytes",
          "temporary_objects": "temporary_allocations"}
KINDS = {*TOTALS, "temporary_space"}
KINDS_OF_INTERVALS = {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}
PROTOBUF = "application/x-protobuf"


def named(stacks):
    """With "" for frames without a name, and without those that stand for missing frames, as in `report --json`."""
    sums = Counter()
    for stack, value in stacks.items():
        sums[tuple("" if re.fullmatch(r"(.*\+)?0x[0-9a-f]+", name) else name
                   for name in stack if not name.startswith("["))] += value
    return +sums


class Push(harness.Case):
    def receiver(self, *answers, **options):
        receiver = profile_receiver.Receiver(*answers, **options)
        self.addCleanup(receiver.stop)
        return receiver

    def recording(self):
        return self.record_once(harness.program("ledger_single"), 2_000, 1, 1, "secret-argument",
                                LABELS="rack=r7,region=us").trace

    def push(self, *arguments, status=0):
        """Pushes and returns standard output and standard error."""
        done = self.run_heapprof("push", *arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def push_refused(self, answer, *options, protocol="pyroscope", tries=1, timeout="10"):
        """Pushes to a receiver that answers so; the message."""
        receiver = self.receiver(*[answer] * 3)
        start = time.monotonic()
        out, err = self.push(self.recording(), receiver.url, "--protocol", protocol, "--retries", 1, "--timeout",
                             timeout, *options, status=1)
        self.assertLess(time.monotonic() - start, 60)  # without a limit, it would wait for minutes
        receiver.wait_for(tries)  # one that was given up may not have been read yet
        self.assertEqual(len(receiver.requests), tries, err)
        self.assertEqual(out, "")
        heap = self.call_once(self.report, self.recording())["heap"]
        self.assertIn(f"1 profile not delivered: {heap['allocations']:,} allocations of ", err)
        self.assertEqual(len(err.splitlines()), 2, err)
        return err

    def check_profiles(self, profiles, trace, kinds=KINDS):
        self.assertEqual(set(profiles), kinds)
        report = self.call_once(self.report, trace)
        for kind, profile in profiles.items():
            self.assertEqual(profile.unit, "bytes" if kind.endswith("space") else "count")
            self.assertEqual(profile.duration_ns, report["duration_ns"])
            if kind in TOTALS:
                self.assertEqual(profile.total, report["heap"][TOTALS[kind]], kind)
        for kind, cost in (("inuse_space", "leaked"), ("alloc_space", "allocated"), ("peak_space", "peak")):
            if kind not in kinds:
                continue
            self.assertEqual(named(profiles[kind].stacks), self.call_once(self.stacks_of_report, trace, cost), kind)

    def stacks_of_report(self, trace, cost, figure="bytes"):
        stacks = Counter()
        for row in self.all_stacks(trace, cost):
            stacks[tuple(frame["function"] for frame in row["stack"])] += row[figure]
        return +stacks

    def test_pyroscope(self):
        trace, receiver = self.recording(), self.receiver()
        before = time.time_ns()
        out, err = self.push(trace, receiver.url, "--label", "region=eu west", "--label", "odd=a,b}c=ü",
                             "--label", "__x-y=1", "--label", "2nd=2")
        self.assertEqual(err, "")
        self.assertRegex(out, r"^ledger_single \(process \d+\), 0 s to .*: [\d,]+ allocations of .*; sent ")
        [request] = receiver.requests
        self.assertEqual(request.path, "/ingest")
        info = json.loads(self.heapprof("info", trace, "--json"))
        name, _, labels = request.query["name"].partition("{")
        self.assertEqual(name, "ledger_single")
        self.assertEqual(dict(label.split("=", 1) for label in labels.removesuffix("}").split(",")),
                         {"host_name": info["host"], "process_pid": str(info["pid"]), "rack": "r7", "region": "eu west",
                          "odd": "a_b_c=ü", "_x_y": "1", "_2nd": "2"})
        self.assertEqual(request.query["format"], "pprof")
        profiles, comments = profile_messages.read_pprof(request.body)
        self.check_profiles(profiles, trace)
        self.assertNotIn(b"secret-argument", request.body)
        self.assertEqual(comments, ["heapprof: ledger_single"])
        # It was recorded by this test.
        start = profiles["inuse_space"].time_ns
        self.assertLess(abs(before - start), 600e9)
        self.assertEqual(int(request.query["from"]), start // 10**9)
        self.assertGreaterEqual(int(request.query["until"]) * 10**9, start + profiles["inuse_space"].duration_ns)

    def test_a_selection(self):
        """As `export pprof` of the same selection, with the times of the slice."""
        trace, receiver = self.recording(), self.receiver()
        self.push(trace, receiver.url + "/base/ingest/", "--from", "40%", "--to", "60%", "--service", "a b", "-q")
        exported = self.dir / "exported.pb"
        self.heapprof("export", "pprof", trace, "--from", "40%", "--to", "60%", "-o", f"{exported}.gz")
        subprocess.run(["gzip", "-d", f"{exported}.gz"], check=True)
        [request] = receiver.requests
        self.assertEqual(request.path, "/base/ingest")
        self.assertEqual(request.query["name"].partition("{")[0], "a_b")
        profiles, _ = profile_messages.read_pprof(request.body)
        expected, _ = profile_messages.read_pprof(exported.read_bytes())
        self.assertEqual(profiles, expected)
        report = self.report(trace, "--from", "40%", "--to", "60%")
        self.assertEqual(profiles["alloc_objects"].total, report["heap"]["allocations"])
        whole = report["duration_ns"]
        self.assertAlmostEqual(profiles["alloc_objects"].duration_ns, whole * 0.2, delta=2)

    def test_otlp(self):
        trace, receiver = self.recording(), self.receiver(status(200, b"", Content_Type=PROTOBUF))
        self.push(trace, receiver.url, "--protocol", "otlp", "--label", "deployment.environment=a,b", "--service", "s")
        [request] = receiver.requests
        self.assertEqual(request.path, "/v1development/profiles")
        self.assertEqual((request.headers["Content-Type"], request.headers["Content-Encoding"]), (PROTOBUF, "gzip"))
        profiles, resource = profile_messages.read_otlp(request.body)
        self.check_profiles(profiles, trace)
        self.assertEqual(next(iter(profiles)), "inuse_space", "what viewers show first")
        info = json.loads(self.heapprof("info", trace, "--json"))
        self.assertEqual(resource, {"service.name": "s", "process.executable.name": "ledger_single",
                                    "process.pid": info["pid"], "host.name": info["host"],
                                    "rack": "r7", "region": "us", "deployment.environment": "a,b"})
        self.assertNotIn(b"secret-argument", request.body)

    def test_a_directory(self):
        trace = self.recording()
        shutil.copy(trace, self.dir / "a.heapprof")
        self.record(harness.program("ledger_single"), 100, 1, 1).trace.rename(self.dir / "b.heapprof")
        for every in ((), ("--every", "10")):
            receiver = self.receiver()
            self.push(self.dir, receiver.url, *every)
            totals = Counter(profile_messages.read_pprof(request.body)[0]["alloc_objects"].total
                             for request in receiver.requests)
            self.assertEqual(totals, Counter(self.report(self.dir / name)["heap"]["allocations"]
                                             for name in ("a.heapprof", "b.heapprof")))
        # A damaged one does not keep the others back.
        with open(self.dir / "a.heapprof", "r+b") as file:
            file.truncate(5000)
        receiver = self.receiver()
        _, err = self.push(self.dir, receiver.url, status=1)
        self.assertIn("a.heapprof: ", err)
        self.assertIn(self.report(self.dir / "b.heapprof")["heap"]["allocations"],
                      [profile_messages.read_pprof(request.body)[0]["alloc_objects"].total
                       for request in receiver.requests])
        # If the endpoint is down, the others are not tried.
        _, err = self.push(self.dir, f"http://127.0.0.1:{profile_receiver.closed_port()}", "--retries", 0, status=1)
        self.assertIn("1 profile not delivered", err)
        self.assertIn("recordings not tried: 1", err)

    def test_every_interval(self):
        """The intervals join, their allocations add up to those of the recording, and the last one has what is live
        at the end; also if some could not be delivered. The program runs as without."""
        trace = self.dir / "steady.heapprof"
        process = self.start_steady(trace, 2)
        receiver = self.receiver(profile_receiver.OK, status(500), profile_receiver.hang, profile_receiver.close,
                                 profile_receiver.OK)
        push = self.popen([str(harness.HEAPPROF), "push", str(trace), receiver.url, "--every", "0.2", "--timeout",
                           "5", "--retries", "0"], env=harness.analyzer_environment(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        receiver.wait_for(7)
        self.steady_rounds(process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors), (0, ""))
        out, err = push.communicate(timeout=60)
        self.assertEqual(push.returncode, 0, err)
        self.assertIn("answered 500 Internal Server Error; the next profile has this interval, too", err)
        self.assertIn("profiles are accepted again", err)
        self.assertEqual(len(err.splitlines()), 2, err)
        delivered = [receiver.requests[0], *receiver.requests[4:]]
        self.assertEqual(len(out.splitlines()), len(delivered))
        report = self.report(trace)
        self.assert_sound(report)
        profiles = [profile_messages.read_pprof(request.body)[0] for request in delivered]
        for one in profiles:
            self.assertEqual(set(one), KINDS_OF_INTERVALS)
        for kind in ("alloc_objects", "alloc_space"):
            self.assertEqual(sum(one[kind].total for one in profiles), report["heap"][TOTALS[kind]], kind)
            by_stack = sum((one[kind].stacks for one in profiles), Counter())
            expected = self.stacks_of_report(trace, *(("allocations", "blocks") if kind == "alloc_objects"
                                                      else ("allocated",)))
            self.assertEqual(named(by_stack), expected, kind)
        for kind in ("inuse_objects", "inuse_space"):
            self.assertEqual(profiles[-1][kind].total, report["heap"][TOTALS[kind]], kind)
        # While it ran, two threads had at most 64 blocks each.
        for one in profiles[:-1]:
            self.assertTrue(0 < one["inuse_objects"].total < 2 * 64 + 40, one["inuse_objects"].total)
        times = [one["inuse_space"] for one in profiles]
        for one, other in zip(times, times[1:]):
            # Until a recording has ended, the rate of its clock is an estimate.
            self.assertLess(abs(one.time_ns + one.duration_ns - other.time_ns), 1e6)
        self.assertAlmostEqual(sum(one.duration_ns for one in times), report["duration_ns"], delta=5e7)

    def test_every_interval_of_moved_recordings(self):
        """A recording is followed by its file, whatever becomes of its name, and no faster than before."""
        for is_directory in (False, True):
            with self.subTest(is_directory=is_directory):
                folder = self.dir / f"recordings-{is_directory}"
                folder.mkdir()
                trace, moved = folder / "steady.heapprof", self.dir / f"moved-{is_directory}.heapprof"
                process = self.start_steady(trace, 1)
                receiver = self.receiver()
                begin = time.time_ns()
                push = self.popen([str(harness.HEAPPROF), "push", str(folder if is_directory else trace), receiver.url,
                                   "--every", "0.5"], env=harness.analyzer_environment(), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                receiver.wait_for(1)
                trace.rename(moved)
                receiver.wait_for(len(receiver.requests) + 7)
                self.steady_rounds(process)
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=60)
                _, err = push.communicate(timeout=60)
                self.assertEqual(push.returncode, 0, err)
                self.assertEqual(err.count("there is no recording"), int(is_directory), err)
                self.assertEqual(len(err.splitlines()), int(is_directory), err)
                profiles = [profile_messages.read_pprof(request.body)[0] for request in receiver.requests]
                heap = self.report(moved)["heap"]
                self.assertEqual(sum(one["alloc_objects"].total for one in profiles), heap["allocations"])
                self.assertEqual(profiles[-1]["inuse_space"].total, heap["leaked_bytes"])
                # By the times of the profiles, because the receiver may be late. One follows another at once if that
                # took longer than its interval, but so many whole intervals have gone by since the start of push. The
                # last one comes with the end of the program; a second is for one that waits for the processor.
                one = profiles[-2]["inuse_space"]
                self.assertGreater(one.time_ns + one.duration_ns - begin, (len(profiles) - 2) * 0.5e9 - 1e9)

    def test_every_interval_stopped(self):
        """Ctrl-C sends what there is. A recording that goes on is not complete, but delivered."""
        trace = self.dir / "steady.heapprof"
        process = self.start_steady(trace, 1)
        receiver = self.receiver(*[status(200, b"", Content_Type=PROTOBUF)] * 9)
        push = self.popen([str(harness.HEAPPROF), "push", str(trace), receiver.url, "--every", "1000", "--protocol",
                           "otlp"], env=harness.analyzer_environment(), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
        receiver.wait_for(1)
        self.assertIn("; sent ", push.stdout.readline())  # it has the answer: the signal comes between two profiles
        self.steady_rounds(process, 3)
        push.send_signal(signal.SIGINT)
        out, err = push.communicate(timeout=60)
        self.assertEqual((push.returncode, err), (0, ""))
        self.assertEqual(len(receiver.requests), 2)
        first, second = (profile_messages.read_otlp(one.body)[0] for one in receiver.requests)
        self.assertGreater(second["alloc_objects"].total, 0)
        self.assertEqual(first["alloc_objects"].time_ns + first["alloc_objects"].duration_ns,
                         second["alloc_objects"].time_ns)
        self.steady_rounds(process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(len(receiver.requests), 2)
        # During a request, too.
        receiver = self.receiver(profile_receiver.hang)
        push = self.popen([str(harness.HEAPPROF), "push", str(trace), receiver.url], text=True,
                          env=harness.analyzer_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        receiver.wait_for(1)
        push.send_signal(signal.SIGINT)
        out, err = push.communicate(timeout=60)
        self.assertEqual((push.returncode, out), (130, ""))
        self.assertIn("1 profile not delivered", err)

    def test_every_interval_refused(self):
        """A wrong token ends the command at the first profile; the program goes on."""
        trace = self.dir / "steady.heapprof"
        process = self.start_steady(trace, 1)
        receiver = self.receiver(status(401))
        _, err = self.push(trace, receiver.url, "--every", "1000", status=1)
        self.assertIn("answered 401 Unauthorized", err)
        # Nobody there at the end: how much was not delivered.
        push = self.popen([str(harness.HEAPPROF), "push", str(trace),
                           f"http://127.0.0.1:{profile_receiver.closed_port()}", "--every", "0.1", "--retries", "0"],
                          env=harness.analyzer_environment(), text=True, stderr=subprocess.PIPE)
        line = push.stderr.readline()
        self.assertIn("no connection (Connection refused", line)
        self.steady_rounds(process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        err = push.communicate(timeout=60)[1]
        self.assertEqual(push.returncode, 1)
        allocations = self.report(trace)["heap"]["allocations"]
        self.assertIn(f"1 profile not delivered: {allocations:,} allocations", err)

    def test_down(self):
        url = f"http://127.0.0.1:{profile_receiver.closed_port()}"
        _, err = self.push(self.recording(), url, "--retries", 1, status=1)
        self.assertIn(f"{url}/ingest: no connection (Connection refused", err)
        self.assertIn("(2 tries)", err)

    def test_slow(self):
        for answer in (profile_receiver.hang, profile_receiver.drip):
            # Long enough for a receiver that waits for the processor to get the whole request.
            self.assertIn("no answer in time (2 tries)", self.push_refused(answer, tries=2, timeout="3"))

    def test_tried_again(self):
        """Only after answers that promise something, and with the same bytes."""
        receiver = self.receiver(status(500))
        self.push(self.recording(), receiver.url)
        self.assertEqual(len(receiver.requests), 2)
        self.assertEqual(receiver.requests[0].body, receiver.requests[1].body)
        receiver = self.receiver(status(503, Retry_After="1"), status(200, b"", Content_Type=PROTOBUF))
        start = time.monotonic()
        self.push(self.recording(), receiver.url, "--protocol", "otlp")
        self.assertGreaterEqual(time.monotonic() - start, 1)
        self.assertEqual(receiver.requests[0].body, receiver.requests[1].body)
        self.assertIn("answered 500 Internal Server Error", self.push_refused(status(500), protocol="otlp"))
        self.assertIn("closed without an answer", self.push_refused(profile_receiver.close, tries=2))

    def test_refused(self):
        err = self.push_refused(status(401, b"no \x1b[31mtoken\nmore"))
        self.assertIn("answered 401 Unauthorized: no \ufffd[31mtoken\n", err)
        rpc_status = b"\x08\x03\x12\x0bbad profile"
        err = self.push_refused(status(400, rpc_status, Content_Type=PROTOBUF), protocol="otlp")
        self.assertIn("answered 400 Bad Request: bad profile", err)
        partial = b"\x0a\x08\x08\x01\x12\x04full"
        err = self.push_refused(status(200, partial, Content_Type=PROTOBUF), protocol="otlp")
        self.assertIn("the collector rejected it: full", err)

    def test_not_the_right_server(self):
        self.assertIn("the answer is not HTTP", self.push_refused(profile_receiver.garbage))
        page = status(200, b"<html>", Content_Type="text/html")
        self.assertIn("the answer is not that of Pyroscope: its type is text/html", self.push_refused(page))
        self.assertIn("the answer is not that of an OpenTelemetry collector: its type is text/html",
                      self.push_refused(page, protocol="otlp"))
        self.assertIn("more than 64 KiB", self.push_refused(profile_receiver.endless_body, protocol="otlp"))
        self.assertIn("the answer is not HTTP", self.push_refused(profile_receiver.endless_header))

    def test_redirect(self):
        """A profile goes nowhere but to the server that was named."""
        elsewhere = self.receiver()
        for number in (301, 302, 307, 308):
            err = self.push_refused(status(number, Location=f"{elsewhere.url}/ingest"))
            self.assertIn(f"redirected ({number}) to {elsewhere.url}/ingest; redirects are not followed", err)
        self.assertEqual(elsewhere.requests, [])

    def test_headers(self):
        file = self.dir / "headers"
        file.write_text("# for the tenant\nAuthorization: Bearer s3cr3t\r\n\nX-Scope-OrgID:tenant \n")
        receiver = self.receiver()
        environment = {**harness.analyzer_environment(), "HEAPPROF_PUSH_HEADERS": "X-One: 1\nX-Two: 2"}
        done = subprocess.run([str(harness.HEAPPROF), "push", str(self.recording()), receiver.url, "--headers",
                               str(file)], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        headers = receiver.requests[0].headers
        self.assertEqual([headers[name] for name in ("Authorization", "X-Scope-OrgID", "X-One", "X-Two")],
                         ["Bearer s3cr3t", "tenant", "1", "2"])
        for wrong, why in (("s3cr3t", "line 1: expected NAME: VALUE"), ("A: b\nB c: s3cr3t", "line 2: the name"),
                           ("Host: s3cr3t", "heapprof writes the header Host itself"),
                           ("A: s3\x01cr3t", "control character"), ("A: " + "x" * 70_000, "at most 64 KiB")):
            file.write_text(wrong)
            _, err = self.push(self.recording(), receiver.url, "--headers", file, status=2)
            self.assertIn(why, err)
            self.assertNotIn("s3cr3t", err)
        _, err = self.push(self.recording(), receiver.url, "--headers", self.dir / "none", status=2)
        self.assertIn("none: cannot be read", err)
        file.write_text("A: b\n")
        _, err = self.push(self.recording(), "http://nobody.invalid", "--headers", file, "--retries", 0, status=1)
        self.assertIn("warning: nobody.invalid gets the headers without encryption", err)
        self.assertIn("the host is not known", err)

    def test_tls(self):
        certificate, key = self.dir / "certificate", self.dir / "key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", key, "-out", certificate], check=True, capture_output=True)
        tls = (certificate, key)
        receiver = self.receiver(status(500), tls=tls)
        self.push(self.recording(), receiver.url, "--ca-file", certificate)
        self.check_profiles(profile_messages.read_pprof(receiver.requests[1].body)[0], self.recording())
        _, err = self.push(self.recording(), receiver.url, status=1)
        self.assertRegex(err.lower(), "certificate")
        self.assertEqual(len(receiver.requests), 2)
        elsewhere = self.receiver()
        for answer, text in ((status(307, Location=elsewhere.url), "redirects are not followed"),
                             (profile_receiver.endless_body, "more than 64 KiB"),
                             (profile_receiver.hang, "no answer in time"),
                             (status(403, b"who are you"), "answered 403 Forbidden: who are you")):
            receiver = self.receiver(answer, tls=tls)
            _, err = self.push(self.recording(), receiver.url, "--ca-file", certificate, "--timeout",
                               "3" if answer == profile_receiver.hang else "10", "--retries", 0, "--protocol", "otlp",
                               status=1)
            self.assertIn(text, err)
        self.assertEqual(elsewhere.requests, [])

    def test_wrong_command_lines(self):
        trace = self.recording()
        for arguments, why in (((trace,), "URL"), ((trace, "collector:4318"), "expected http://HOST"),
                               ((trace, "http://me:pw@host"), "user or password"),
                               ((trace, "http://host/?a=b"), "query"), ((trace, "http://host:99999"), "no port"),
                               ((trace, "http://host", "--label", "a b=c"), "--label"),
                               ((trace, "http://host", "--every", "0"), "--every"),
                               ((trace, "http://host", "--every", "60", "--from", "1"), "--from"),
                               ((trace, "http://host", "--protocol", "grpc"), "--protocol")):
            _, err = self.push(*arguments, status=2)
            self.assertIn(why, err)
        _, err = self.push(self.dir / "none.heapprof", "http://127.0.0.1:1", status=1)
        self.assertIn("none.heapprof", err)


if __name__ == "__main__":
    harness.main()
