"""The page of programs that run: their figures follow, and Mark and Pause act on them."""

import csv
import io
import json
import subprocess
import urllib.parse

import harness
import pages
import ports


class Running(pages.PageCase):
    def test_follows(self):
        """What a running program allocates appears without a reload; a mark is set; its end is shown."""
        trace = self.dir / "run.heapprof"
        self.start_commanded(trace)
        self.open(trace, view="table", metric="allocated")
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 10_000, "the first blocks are not shown")
        self.assertIn("running", self.text("#about"))
        self.settled()
        # Updates neither dim the timeline nor remove live bytes from the header.
        self.browser.evaluate(
            "window.flickers = []; new MutationObserver(() => { "
            "if (document.querySelector('#timeline.waiting')) flickers.push('dimmed'); "
            "if (/ live in /.test(window.about) && !/ live in |exited/.test(window.about = "
            "document.querySelector('#about').textContent)) flickers.push(window.about); "
            "window.about = document.querySelector('#about').textContent; })"
            ".observe(document.body, {childList: true, subtree: true, attributes: true, characterData: true}); 0")
        self.command("aab")
        live = self.browser.evaluate(f"figures.bytes({self.json('report')['heap']['leaked_bytes']})")
        harness.wait_until(lambda: f"{live} live" in self.text("#about"), "the header does not follow")
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 30_000, "further blocks are not shown")
        harness.wait_until(lambda: self.shown_bytes("grow_second") == 1000, "a new function is not shown")
        # Figures go on while the text of a mark is typed.
        self.browser.evaluate("[...document.querySelectorAll('#selection button')].find(button => button.textContent "
                              "=== 'Mark').click(); 0")
        self.browser.press(*"here", "Enter")
        # The recorder answers when the program allocates.
        commands = 0

        def has_mark():
            nonlocal commands
            if "here" in (self.text(".mark") or ""):
                return True
            commands += 1
            self.command("a")
            self.browser.evaluate("new Promise(done => setTimeout(done, 100))")
            return False
        harness.wait_until(has_mark, "the mark is not shown")
        self.assertEqual(self.browser.evaluate("flickers"), [])
        self.assertIn("Live now", self.texts("#selection .segments button"))
        for button, state in (("Pause", True), ("Resume", False)):
            self.browser.evaluate("[...document.querySelectorAll('#selection button')].find(button => "
                                  f"button.textContent === '{button}').click(); 0")
            self.wait_for_pause(state, [self.process], "b")
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)
        harness.wait_until(lambda: "exited" in self.text("#about") and
                           "Pause" not in self.texts("#selection button"), "the end is not shown")
        last = 30_000 + 10_000 * commands
        harness.wait_until(lambda: self.shown_bytes("grow_first") == last, "the last figures are not shown")

    def test_lifetimes_in_a_range_of_the_past(self):
        """What a range shows that has ended changes no more, but for blocks that are selected by their lifetimes: one
        that the program frees later is shown then."""
        trace = self.dir / "run.heapprof"
        self.start_commanded(trace)
        self.open(trace, view="table", metric="allocated")
        # Dozens of consecutive events can have one time.
        many = "b" * 20
        self.command(many)
        end_ns = self.json("report")["duration_ns"]
        self.select(view="table", metric="allocated", to=f"{end_ns}ns", **{"max-lifetime": "1000"})
        self.assertIsNone(self.shown_bytes("grow_first"))
        followed = "document.documentElement.dataset.followedNs"
        for _ in range(3):  # answers about the past are kept from the second update on
            before = self.browser.evaluate(f"[{followed}]")
            self.command(many)
            harness.wait_until(lambda before=before: self.browser.evaluate(f"[{followed}]") != before,
                               "the page does not follow")
        self.command("f")
        self.assertEqual([row["self"]["allocated_bytes"] for row in self.printed()["rows"]
                          if row["name"] == "grow_first"], [1000])
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 1000, "the block that was freed is not shown")
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)

    def wait_for_pause(self, paused, programs, command):
        """Until the header says that the recording is paused, or is not any more. The recorder answers when the program
        allocates."""
        def is_shown():
            if ("recording paused" in self.text("#about")) == paused:
                return True
            for program in programs:
                self.command(command, program)
            self.browser.evaluate("new Promise(done => setTimeout(done, 20))")
            return False
        harness.wait_until(is_shown, f"{'Pause' if paused else 'Resume'} has no effect")

    def test_csv_of_blocks_of_a_running_program(self):
        """All blocks of one moment, also if the program goes on between the answers of which the file is made."""
        trace = self.dir / "run.heapprof"
        self.start_commanded(trace)
        self.command("a" * 150)
        self.open(trace, view="blocks", metric="leaked")
        # Answers have at most 500 rows; the second one waits.
        self.browser.evaluate(
            "window.pieces = []; (() => { const fetched = window.fetch; window.fetch = (address, ...more) => { "
            "if (!/blocks.*csv=1/.test(address)) return fetched(address, ...more); "
            "const asked = Object.fromEntries(new URLSearchParams(address.slice(address.indexOf('?')))); "
            "if (asked.top > 500) return Promise.resolve(new Response(JSON.stringify("
            "{error: 'the answer has more than 32 MB'}), {status: 422})); "
            "pieces.push(asked); return pieces.length !== 2 ? fetched(address, ...more) : new Promise(done => { "
            "window.go = () => done(fetched(address, ...more)); }); }; })()")
        for selection in ({"metric": "leaked"}, {"metric": "leaked", "to": "end"}, {"metric": "leaked", "from": "0%"},
                          {"metric": "peak"}, {"metric": "peak", "from": "0.0001"}, {"metric": "live", "at": "peak"},
                          {"metric": "live", "at": "100%"}, {"metric": "live", "at": "peak", "min-size": "500"}):
            with self.subTest(**selection):
                self.select(view="blocks", **selection)
                self.browser.evaluate(
                    "pieces.length = 0; window.go = window.file = null; (() => { const create = URL.createObjectURL; "
                    "URL.createObjectURL = blob => { URL.createObjectURL = create; "
                    "blob.text().then(text => { window.file = text; }); return create.call(URL, blob); }; "
                    "[...document.querySelectorAll('.saves button')].find(button => button.textContent === 'CSV')"
                    ".click(); })()")
                harness.wait_until(lambda: self.browser.evaluate("window.go !== null"), "the file has one piece")
                # The newest block becomes the largest one, which is the first row of the list.
                self.command("ra")
                self.browser.evaluate("go()")
                rows = harness.wait_until(lambda: self.browser.evaluate("window.file"), "no file is written")
                pieces = self.browser.evaluate("pieces")
                self.assertGreater(len(pieces), 2)
                asked = [{key: value for key, value in piece.items() if key not in ("skip", "top", "csv")}
                         for piece in pieces]
                options = asked[0]
                self.assertEqual(asked, [options] * len(asked))
                self.assertRegex(options.get("to") or options.get("live-at") or "", r"^\d+ns$")
                words = [word for key, value in options.items() for word in (f"--{key}", value)]
                expected = self.heapprof("blocks", trace, *words, "--csv")
                # The last times become some nanoseconds more exact while the program goes on.
                self.assertEqual(*([[cell for i, cell in enumerate(row) if i not in (2, 3)] for row in csv.reader(
                    io.StringIO(text))] for text in (rows, expected)))
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)

    def test_rows_of_a_running_program(self):
        """The rows are those of one moment, also the ones that are asked for when the program has gone on. If it is not
        known exactly, they are those of the later answer."""
        trace = self.dir / "run.heapprof"
        self.start_commanded(trace)
        self.command("a" * 300)
        # The view is not brought up to date meanwhile.
        script = self.browser.call("Page.addScriptToEvaluateOnNewDocument", source="window.EventSource = class { "
                                   "addEventListener() {} close() {} };")["identifier"]
        self.addCleanup(self.browser.call, "Page.removeScriptToEvaluateOnNewDocument", identifier=script)
        self.open(trace, view="blocks", metric="leaked")
        shown = "[...document.querySelectorAll('#view tr[data-index]')].map(line => [Number(line.dataset.index), " \
            "line.cells[line.cells.length - 1].textContent])"

        def check(options):
            """Both ends of the list are those of the command with these options."""
            words = [word for key, value in options.items() for word in (f"--{key}", value)]
            rows = [hex(block["address"]) for block in json.loads(self.heapprof(
                "blocks", trace, *words, "--json"))["blocks"]]
            for key, end in (("End", len(rows) - 1), ("Home", 0)):
                self.browser.evaluate("document.querySelector('#view .scroller').focus()")
                self.browser.press(key)
                harness.wait_until(lambda: end in [index for index, _ in self.browser.evaluate(shown)] and
                                   not self.texts("#view tr.pending"), f"row {end} is not shown")
                self.settled()
                lines = self.browser.evaluate(shown)
                self.assertEqual(lines, [[index, rows[index]] for index, _ in lines])
            return rows

        for is_exact in (True, False):
            with self.subTest(is_exact=is_exact):
                self.select(view="blocks", metric="leaked", **({} if is_exact else {"min-size": "2"}))
                known = self.json("blocks", "--top", "1")["total"]["blocks"]
                self.browser.evaluate(
                    "window.asked = []; window.plain = window.plain || window.fetch; window.fetch = "
                    "(address, ...more) => { if (/blocks.*skip=/.test(address)) { "
                    f"{'' if is_exact else 'address = address.replace(/&to=[0-9]+ns/, ``);'} asked.push("
                    "Object.fromEntries(new URLSearchParams(address.slice(address.indexOf('?') + 1)))); } "
                    "return plain(address, ...more); }; 0")
                # A block becomes the largest one, the first row, and others follow.
                self.command("ra")
                self.browser.evaluate("document.querySelector('#view .scroller').focus()")
                self.browser.press("End")
                asked = harness.wait_until(lambda: self.browser.evaluate("asked"), "no row is asked for")[0]
                options = {key: value for key, value in asked.items() if key not in ("skip", "top")}
                self.assertEqual("to" in options, is_exact)
                rows = check(options)
                self.assertGreater(len(rows), 2000)
                if not is_exact:
                    self.assertEqual(len(rows), known + 10)
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)

    def test_csv_of_blocks_that_change(self):
        """What is known of the moment changes while the rows are read: they are read again, or an error says so."""
        trace = self.dir / "run.heapprof"
        self.start_commanded(trace)
        self.open(trace, view="blocks", metric="leaked")
        expected = self.heapprof("blocks", trace, "--csv")
        # The answers with the totals of the moment differ so often.
        for changes in (1, 100):
            with self.subTest(changes=changes):
                self.browser.evaluate(
                    f"window.changes = {changes}; window.plain = window.plain || window.fetch; "
                    "window.fetch = async (address, ...more) => { const answer = await plain(address, ...more); "
                    "if (!/blocks.*top=1(&|$)/.test(address) || changes-- <= 0) return answer; "
                    "const content = await answer.json(); content.total.blocks += 1 + changes; "
                    "return Response.json(content); }; 0")
                if changes == 1:
                    self.assertEqual(sorted(line.split(",")[0] for line in self.saved("CSV").splitlines()),
                                     sorted(line.split(",")[0] for line in expected.splitlines()))
                    self.assertEqual(self.text("#saving"), "")
                    asked = self.browser.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
                    self.assertEqual(len([address for address in asked if "csv=1" in address]), 2)
                else:
                    self.click(".saves button", "CSV")
                    harness.wait_until(lambda: "The blocks that are selected changed while they were read" in
                                       (self.text("#saving .error") or ""), "no error")

    def test_control_of_the_chosen_recording(self):
        """Pause acts on the program of the chosen recording. There is no such button if that has ended."""
        folder, _ = self.recordings("plain")
        traces = [folder / "b.heapprof", folder / "c.heapprof"]
        programs = [self.start_commanded(trace) for trace in traces]
        self.open(folder, view="table", trace="0")
        self.assertNotIn("Pause", self.texts("#selection button"))
        self.select(view="table", trace="2")
        self.browser.evaluate("[...document.querySelectorAll('#selection button')].find(button => "
                              "button.textContent === 'Pause').click()")
        self.wait_for_pause(True, programs, "a")
        self.assertEqual([len(json.loads(self.heapprof("timeline", trace, "--json"))["pauses"]) for trace in traces],
                         [0, 1])
        self.select(view="table", trace="1")
        self.assertNotIn("paused", self.text("#about"))
        self.assertIn("Pause", self.texts("#selection button"))
        self.select(view="table", trace="0")
        self.assertNotIn("Pause", self.texts("#selection button"))

    def test_control_that_is_answered_late(self):
        """The answer to Pause may come when another recording was chosen, and this one again, which is still read."""
        folder, _ = self.recordings("plain")
        self.start_commanded(folder / "b.heapprof")
        self.open(folder, view="table", trace="1")
        self.hold("control")
        self.browser.evaluate("window.failures = []; feedback.fail = error => failures.push(error.message); "
                              "[...document.querySelectorAll('#selection button')].find(button => "
                              "button.textContent === 'Pause').click(); 0")
        harness.wait_until(lambda: self.browser.evaluate("held.length"), "the program is not paused")
        self.browser.evaluate("window.control = held; 0")
        self.hold("report.*trace=1")
        self.browser.evaluate("location.hash = 'view=table&trace=0'; 0")
        harness.wait_until(lambda: "a.heapprof" in self.text("#about") and "pid" in self.text("#about"),
                           "the other recording is not shown")
        self.browser.evaluate("document.querySelector('#announce').textContent = ''; "
                              "location.hash = 'view=table&trace=1'; 0")
        harness.wait_until(lambda: "Reading" in self.text("#announce"), "the page does not wait for the recording")
        self.browser.evaluate("control.forEach(release => release()); 0")

        def is_done():
            self.command("b")  # the recorder answers when the program allocates
            self.browser.evaluate("new Promise(done => setTimeout(done, 20))")
            return self.text("#announce") == "Done: pause"
        harness.wait_until(is_done, "Pause has no answer")
        self.assertEqual(self.browser.evaluate("[recording.info(), failures]"), [None, []])
        self.release()
        self.wait_for_pause(True, [self.process], "b")
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)

    def test_follows_the_chosen_recording(self):
        """Figures of the chosen recording follow its program, also if another one is served first; after another
        choice, those of that one."""
        folder, paths = self.recordings("plain")
        programs = [self.start_commanded(folder / name) for name in ("b.heapprof", "c.heapprof")]
        self.open(folder, view="table", metric="allocated", trace="1")
        self.command("ab", programs[0])
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 20_000, "further blocks are not shown")
        harness.wait_until(lambda: " live in " in self.text("#about"), "the header does not follow")
        self.select(view="table", metric="allocated", trace="2")
        self.command("aa", programs[1])
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 30_000, "the other program is not followed")
        self.command("a", programs[0])
        self.select(view="table", metric="allocated", trace="1")
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 30_000, "it is not followed again")
        # It ends while another recording is shown.
        self.select(view="table", metric="allocated", trace="0")
        self.check_header(paths[0])
        programs[0].stdin.close()
        self.assertEqual(programs[0].wait(60), 0)
        self.select(view="table", metric="allocated", trace="1")
        harness.wait_until(lambda: "exited" in self.text("#about") and
                           "Pause" not in self.texts("#selection button"), "the end is not shown")

    def let_retries_be_soon(self):
        """The page tries again after three seconds, RETRY_MS of page.js: here after a tenth of one."""
        self.browser.evaluate(
            "(() => { const start = window.setTimeout; window.setTimeout = (call, ms, ...more) => "
            "start(call, ms === 3000 ? 100 : ms, ...more); })()")

    def test_server_that_ends(self):
        """The page of a running program says that the server does not answer, and goes on when it does."""
        trace = self.dir / "run.heapprof"
        self.start_commanded(trace)
        self.trace = trace

        port = str(ports.free_port())

        def serve():
            server = self.popen([harness.HEAPPROF, "serve", trace, "--no-open", "--port", port],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                text=True, env=harness.analyzer_environment())
            return server, server.stdout.readline().strip()
        server, address = serve()
        self.browser.open(f"{address}#view=table&metric=allocated")
        harness.wait_until(lambda: " live in " in (self.text("#about") or ""), "the program is not followed")
        self.settled()
        self.let_retries_be_soon()
        server.terminate()
        server.wait(60)
        harness.wait_until(lambda: "The server does not answer" in self.text("#progress"), "no message")
        self.assertEqual(self.shown_bytes("grow_first"), 10_000)
        _, address = serve()
        # Its address is opened in another tab, which gives the browser its token.
        self.browser.evaluate(f"fetch({json.dumps('/?' + urllib.parse.urlsplit(address).query)}).then(() => 0)")
        self.command("a")
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 20_000, "the page does not go on")
        self.settled()
        self.assertEqual(self.text("#progress"), "")
        self.browser.errors.clear()  # the browser reports requests that fail

    def show_tab(self, shown):
        """What a browser does when another tab is chosen, or this one again."""
        self.browser.evaluate(f"Object.defineProperty(document, 'hidden', {{value: {json.dumps(not shown)}, "
                              "configurable: true}); document.dispatchEvent(new Event('visibilitychange')); 0")

    def test_hidden_tab(self):
        """A hidden tab has no connection for events, of which a browser has six; the tab has the newest figures when it
        is shown again, also of a program that has ended meanwhile."""
        trace = self.dir / "run.heapprof"
        process = self.start_commanded(trace)
        self.open(trace, view="table", metric="allocated")
        harness.wait_until(lambda: " live in " in self.text("#about"), "the program is not followed")
        # The paths of the connections that the page ends.
        self.browser.evaluate("window.ended = []; const close = EventSource.prototype.close; "
                              "EventSource.prototype.close = function () { "
                              "ended.push(new URL(this.url).pathname); close.call(this); }; 0")
        self.show_tab(False)
        self.assertEqual(self.browser.evaluate("ended"), ["/api/events"])
        self.command("ab")
        self.show_tab(True)
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 20_000, "the tab is not followed again")
        self.show_tab(False)
        self.command("a")
        process.stdin.close()
        self.assertEqual(process.wait(60), 0)
        self.show_tab(True)
        # The header shows the end before the view does.
        harness.wait_until(lambda: "exited" in self.text("#about"), "the end is not shown")
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 30_000, "the tab has old figures")

    def test_end_that_is_asked_for_again(self):
        """The end of a program is shown also if a request fails when it ends: no other event follows."""
        trace = self.dir / "run.heapprof"
        process = self.start_commanded(trace)
        self.open(trace, view="table", metric="allocated")
        harness.wait_until(lambda: " live in " in self.text("#about"), "the program is not followed")
        self.let_retries_be_soon()
        self.browser.evaluate(
            "(() => { const fetched = window.fetch; window.lost = 0; window.fetch = (address, ...more) => "
            "address === '/api/' && ++lost === 1 ? Promise.reject(new TypeError('lost')) : fetched(address, ...more); "
            "})()")
        process.stdin.close()
        self.assertEqual(process.wait(60), 0)
        harness.wait_until(lambda: "exited" in self.text("#about") and
                           "Pause" not in self.texts("#selection button"), "the end is not shown")
        self.settled()
        self.assertGreater(self.browser.evaluate("lost"), 1)
        self.assertEqual(self.text("#progress"), "")


if __name__ == "__main__":
    pages.main()
