"""Signal handlers that allocate, jump away, fork (tests/programs/handlers.cpp): also while a capture is under way."""

import signal
import unittest

import harness
import killed
import trace_reader


class Handlers(harness.Case):
    def test_handlers_that_leave_by_longjmp(self):
        """They leave the recorder wherever it was: in a capture, in a block's change, while it maps more of the file.
        What was done is recorded, once; the timeline and the mailbox go on."""
        for block_bytes, times in ((4096, 150_000), (65536, 150_000)):
            with self.subTest(block_bytes=block_bytes):
                run = self.record(harness.program("handlers"), "longjmp", times, BLOCK_BYTES=block_bytes)
                self.assertGreater(int(run.stdout), 100, "too few jumps to show anything")
                report = self.report(run.trace)
                integrity = report["integrity"]
                self.assertTrue(integrity["complete"], integrity)
                self.assertEqual(integrity["bytes_damaged"], 0)
                ledger = run.ledger()
                self.assert_ledger_clean(ledger)
                self.check_calls(ledger.threads[0], run.read())

    def check_calls(self, thread, trace):
        """What a thread does after a jump may go to the stream that its handlers' events go to, until its stack is
        as short as where it was interrupted; times order both."""
        actual = [event.tuple() for _, event in trace_reader.merged(trace)]
        # What the program allocates before and after its calls (stdio) is not in the ledger.
        begin = next(i for i, entry in enumerate(thread.entries) if entry.done and entry.result)
        anchor = thread.entries[begin]
        own = actual[actual.index(("alloc", anchor.result, anchor.size)):]
        problem = killed.compare_jumps(thread.entries[begin:], [event for event in own if event[-1] != 4096])
        self.assertIsNone(problem)


if __name__ == "__main__":
    harness.main()
