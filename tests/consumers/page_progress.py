"""What the page shows while answers are awaited, and when they come late."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import harness
import large_recording
import pages


class Progress(pages.PageCase):
    def test_progress(self):
        """A recording of more than 16 MB without an index: the page shows that it is read, sums so far, then its
        figures."""
        self.trace = Path(shutil.copy(large_recording.recording(), self.dir))
        for round_number in range(20):
            cache = self.dir / f"cache{round_number}"
            server = self.popen([harness.HEAPPROF, "serve", self.trace, "--no-open"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                env=harness.clean_environment(XDG_CACHE_HOME=cache))
            children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
            self.browser.open(server.stdout.readline().strip())
            indexes = lambda: list(cache.glob("heapprof/index/*.idx"))
            started = harness.wait_until(lambda: indexes() or children.read_text().split(), "nothing is read")
            if indexes():
                continue  # it was read before the page was loaded: again
            child = int(started[0])
            harness.wait_until(lambda: indexes() or self.browser.evaluate(
                "ask.progress().then(all => all.some(one => one.so_far))"), "no sums, and no index")
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended: again
                os.kill(child, signal.SIGSTOP)
                # The signal may arrive later, when the index is written.
                harness.wait_until(lambda: harness.process_state(child) in "TZ", "the process does not stop")
                if harness.process_state(child) == "T" and not indexes():
                    break
                os.kill(child, signal.SIGCONT)
        else:
            self.fail("every index was written before its process could be stopped")
        harness.wait_until(lambda: "writing its index" in self.text("#progress"), "no progress is shown")
        self.assertEqual(self.texts(".tile"), [])
        harness.wait_until(lambda: re.fullmatch(
            r"So far, up to [\d.]+ \S*s of the recording: [\d.]+ ([KMG]i)?B live in [\d.,]+( [kMG])? blocks?; peak "
            r"[\d.]+ ([KMG]i)?B; [\d.,]+( [kMG])? allocations? of [\d.]+ ([KMG]i)?B\.", self.text("#progress .so-far") or ""), "no sums are shown")
        os.kill(child, signal.SIGCONT)
        self.settled()
        self.assertEqual(self.text("#progress"), "")
        self.assertEqual(int(re.sub(r"\D", "", self.browser.evaluate("document.querySelector('.tile').title"))),
                         self.json("report")["heap"]["peak_bytes"])

    def test_sentence_of_another_metric_that_fails_late(self):
        """A question about pinned memory that fails later does not clear the sentence of the metric chosen since."""
        self.open(self.folder / "plain.heapprof", view="threads", metric="allocated")
        sentence = self.text("#sentence")
        self.assertTrue(sentence)
        self.browser.evaluate(
            "(() => { const fetched = window.fetch; window.fetch = (address, ...more) => !/pins/.test(address) ? "
            "fetched(address, ...more) : new Promise(done => { window.failLate = () => done(new Response("
            "JSON.stringify({error: 'The pages are lost.'}), {status: 422})); }); })()")
        self.browser.evaluate("location.hash = 'view=threads&metric=pinned'; 0")
        harness.wait_until(lambda: self.browser.evaluate("typeof window.failLate") == "function",
                           "pinned memory is not asked for")
        self.browser.evaluate("location.hash = 'view=threads&metric=allocated'; 0")
        harness.wait_until(lambda: self.text("#sentence") == sentence and self.browser.evaluate(
            "document.querySelector('#sentence.waiting') === null"), "the sentence does not come back")
        self.browser.evaluate("failLate(); 0")
        self.settled()
        self.assertEqual(self.text("#sentence"), sentence)

    def test_answers_that_are_given_up(self):
        """Also while their body arrives, they are given up, and no error of the server."""
        self.open(self.folder / "plain.heapprof", view="table")
        self.assertEqual(self.browser.evaluate(
            "(async () => { const fetched = window.fetch; let arrives; const isArriving = new Promise(done => "
            "{ arrives = done; }); window.fetch = async (address, {signal}) => { window.fetch = fetched; "
            "const answer = await fetched(address); answer.json = () => { arrives(); return new Promise((done, fail) => "
            "signal.addEventListener('abort', () => fail(signal.reason))); }; return answer; }; "
            "const asked = ask.template('growth', {}, {'min-size': '3'}).catch(error => error.name); "
            "await isArriving; ask.giveUp(); return asked; })()"), "AbortError")

    def test_leaks_before_their_trends(self):
        """Trends need every event: until they are known, what is left is shown without them."""
        self.open(self.real(), view="summary")
        self.browser.evaluate(
            "(() => { const fetched = window.fetch; window.fetch = (address, ...more) => "
            "/leaks/.test(address) && !/no-history/.test(address) ? new Promise(done => { "
            "window.release = () => done(fetched(address, ...more)); }) : fetched(address, ...more); })()")
        self.browser.evaluate("location.hash = 'view=leaks&metric=leaked'")
        harness.wait_until(lambda: "for the trends" in (self.text("#view-head .shown") or ""), "no figures")
        self.assertEqual(self.texts(".tile b")[:4], ["..."] * 4)
        head, *lines = self.saved_rows()
        self.assertEqual([line[head.index("Left")] for line in lines],
                         [str(site["bytes"]) for site in self.json("leaks", "--no-history", "--top", "200")["sites"]])
        self.browser.evaluate("release()")
        self.settled()
        self.check_leaks()
        self.check_awaited()

    def test_file_that_takes_long(self):
        """The page says that a file is written. Another view and another recording can be chosen meanwhile: the file is
        that of the click. It removes no message but its own."""
        folder, paths = self.recordings("plain")
        other = self.record(self.compiled("#include <stdlib.h>\nint main(void) { return malloc(100) == NULL; }"))
        shutil.copy(other.trace, folder / "b.heapprof")
        self.open(folder, view="blocks", metric="leaked", trace="0")
        name = self.browser.evaluate("recording.fileName('blocks.csv')")
        self.hold("csv=1")
        self.browser.evaluate(
            "window.saved = []; URL.createObjectURL = blob => { saved.push({blob}); return '#'; }; "
            "HTMLAnchorElement.prototype.click = function () { saved.at(-1).name = this.download; }; 0")
        click = "document.querySelector('.saves button').click(); 0"
        self.browser.evaluate(click)
        harness.wait_until(lambda: f"Writing {name}" in self.text("#saving"), "the file is not mentioned")
        self.browser.evaluate(click)
        harness.wait_until(lambda: "Only one file" in self.text("#saving"), "the second click is silent")
        self.browser.evaluate("location.hash = 'view=table&trace=1'; 0")
        harness.wait_until(lambda: "b.heapprof" in self.text("#about") and self.browser.evaluate(
            "(({asked, drawn, view}) => view === 'table' && asked === drawn)(document.querySelector('#view').dataset)"),
                           "the other recording is not shown")
        self.assertNotEqual(self.browser.evaluate("recording.fileName('blocks.csv')"), name)
        self.assertIn(f"Writing {name}", self.text("#saving"))
        self.browser.evaluate("feedback.fail(new Error('A message of the view.'))")
        self.release()
        harness.wait_until(lambda: self.browser.evaluate("saved.length"), "no file is written")
        self.settled()
        self.assertEqual(self.browser.evaluate("saved.map(({name}) => name)"), [name])
        self.assertTrue(self.browser.evaluate("saved[0].blob.text()").splitlines() ==
                        self.heapprof("blocks", paths[0], "--csv").splitlines(), "other rows")
        self.assertEqual((self.text("#saving"), self.text("#progress")), ("", "A message of the view."))
        # An error stays while the figures are brought up to date, until another view is chosen.
        self.select(view="blocks", metric="leaked", trace="0")
        self.refuse("csv=1", "The rows are lost.")
        self.browser.evaluate(click)
        self.settled()
        message = f"{name} was not written: The rows are lost."
        self.assertEqual((self.texts("#saving .error"), self.text("#progress")), ([message], ""))
        self.browser.evaluate("viewPanel.refresh(true)")
        self.settled()
        self.assertEqual(self.texts("#saving .error"), [message])
        self.select(view="table", trace="0")
        self.assertEqual(self.text("#saving"), "")

    def check_awaited(self):
        """While answers are awaited, nothing that is shown as current is of the view and the function before."""
        self.select(view="table", metric="peak")
        self.hold("^(?!.*progress)")
        self.browser.evaluate("location.hash = 'view=tree&metric=allocated&name=main'; "
                              "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.assertEqual((self.text("#view-head h1"), self.text("#command")),
                         ("Tree", f"heapprof tree {self.trace} --cost allocated --min-share 0.1"))
        kind = "document.querySelector('#view').className"
        harness.wait_until(lambda: self.browser.evaluate(kind) == "waiting stale", "the view before is not dimmed")
        for part in ("#progress", "#sentence", "#details p"):
            harness.wait_until(lambda part=part: "Reading" in (self.text(part) or ""),
                               f"{part} is not of what is awaited")
        self.assertEqual((self.text("#details h2"), self.texts("#details dl")), ("main", []))
        self.release()
        self.settled()
        self.assertEqual(self.text("#progress"), "")
        self.assertEqual(self.browser.evaluate(kind), "")
        self.assertTrue(self.texts("#details dl"))

    def test_recording_that_answers_late(self):
        """Its answers replace nothing of the recording that was chosen since."""
        folder, paths = self.recordings("plain", "names", "huge")
        self.open(folder, view="summary")
        self.hold("trace=1")
        self.browser.evaluate("location.hash = 'view=summary&trace=1'")
        harness.wait_until(lambda: "reading" in self.text("#about"), "the page does not wait for the recording")
        # To the one that was shown before, and to a third one.
        for trace in (0, 2):
            self.browser.evaluate(f"location.hash = 'view=summary&trace={trace}'")
            harness.wait_until(lambda: paths[trace].name in self.text("#about") and self.texts(".tile") and
                               not self.texts("#view.waiting"), f"recording {trace} is not shown")
            self.check_header(paths[trace])
            if trace == 0:
                self.browser.evaluate("location.hash = 'view=summary&trace=1'")
        self.release()
        self.settled()
        self.check_header(paths[2])
        self.select(view="table", metric="allocated", trace="2")
        self.check_header(paths[2])

    def test_list_of_recordings_while_they_are_read(self):
        """Rows are shown as their answers arrive, in the order of their names; the server is asked for a few at a
        time. When all are known, the highest peak is the first."""
        folder, paths = self.recordings("plain", "huge", "names", "empty", "plain", "huge", "truncated")
        peaks = [json.loads(self.heapprof("report", path, "--json"))["heap"]["peak_bytes"] for path in paths]
        self.open(folder, view="summary")
        self.hold("trace=[1-9]")
        self.browser.evaluate("location.hash = 'view=processes'")

        def shown():
            return [(*row[:1], *row[-3:-2]) for row in self.browser.evaluate(
                "[...document.querySelectorAll('#view tbody tr[data-index]')].map(row => "
                "[...row.cells].map(cell => cell.textContent))")]
        names, texts = [path.name for path in paths], [self.shown_as("bytes", peak) for peak in peaks]
        pending = "\u2026"
        harness.wait_until(lambda: shown() == [*zip(names, [texts[0]] + [pending] * 6)], "the first row is not shown")
        self.assertLessEqual(self.browser.evaluate("held.length"), 4)
        self.browser.evaluate("held.shift()()")
        harness.wait_until(lambda: shown() == [*zip(names, texts[:2] + [pending] * 5)], "the second row is not shown")
        self.release()
        self.settled()
        head, *lines = self.saved_rows()
        self.assertEqual([int(line[head.index("Peak")]) for line in lines], sorted(peaks, reverse=True))

    def test_progress_is_announced_once(self):
        """A screen reader is told that the recording is read, not each of the texts that say for how long."""
        self.open(self.folder / "plain.heapprof", view="table", metric="peak")
        self.browser.evaluate(
            "window.changes = {progress: [], announce: []}; for (const id of Object.keys(changes)) "
            "new MutationObserver(() => changes[id].push(document.getElementById(id).textContent))"
            ".observe(document.getElementById(id), {childList: true, characterData: true, subtree: true})")
        self.hold("^(?!.*progress)")
        self.browser.evaluate("location.hash = 'view=tree&metric=allocated'")
        harness.wait_until(lambda: len(set(self.browser.evaluate("changes.progress"))) > 2, "no progress is shown")
        self.assertEqual(self.browser.evaluate("changes.announce.map(text => text.trim())"),
                         ["Reading the recording \u2026"])
        self.assertFalse(self.browser.evaluate("document.querySelector('#progress').matches('[role], [aria-live]')"))
        self.release()
        self.settled()
        self.assertTrue(self.text("#announce").startswith("Tree. "))

    def test_answers_that_are_kept(self):
        """The last answers are kept for views that are chosen again, as far as they have some 64 MB."""
        self.open(self.folder / "plain.heapprof", view="table")
        for size, again in ((1000, []), (30_000_000, ["1", "2"])):
            with self.subTest(size=size):
                asked = self.browser.evaluate(
                    "(async () => { const fetched = window.fetch, asked = []; window.fetch = async address => { "
                    "asked.push(new URLSearchParams(address.slice(address.indexOf('?'))).get('number')); "
                    "return new Response('{}', {headers: {'Content-Type': 'application/json', "
                    f"'Content-Length': '{size}'}}}}); }};"
                    "for (const number of [1, 2, 3, 4, 4, 3, 1, 2]) await ask.question('report', "
                    f"{{number, size: {size}}}); window.fetch = fetched; return asked; }})()")
                self.assertEqual(asked, ["1", "2", "3", "4", *again])


if __name__ == "__main__":
    pages.main()
