"""Signal handlers that allocate, longjmp or fork (tests/programs/handlers.cpp), also inside the recorder."""

import functools
import os
import platform
import signal
import unittest
from collections import Counter

import harness
import unfinished_calls
import trace_reader

# Programs with embedded allocators, if they were built.
EMBEDDED = [name for name in (f"embedded_{allocator}_handlers" for allocator in ("jemalloc", "tcmalloc", "mimalloc"))
            if os.path.exists(harness.program(name))]


class Handlers(harness.Case):
    def test_handlers_that_leave_by_longjmp(self):
        """They abandon an event anywhere in the recorder: in a stack capture, while it starts a block, while it maps
        more of the file. Completed calls are recorded once; samples and control requests continue."""
        for block_bytes, times in ((4096, 80_000), (65536, 80_000)):
            with self.subTest(block_bytes=block_bytes):
                run = self.record(harness.program("handlers"), "longjmp", times, BLOCK_BYTES=block_bytes)
                self.assertGreater(int(run.stdout), 60, "too few jumps to show anything")
                report = self.report(run.trace)
                integrity = report["integrity"]
                self.assertTrue(integrity["complete"], integrity)
                self.assertEqual(integrity["bytes_damaged"], 0)
                ledger = run.ledger()
                self.assert_ledger_clean(ledger)
                self.check_calls_and_stacks(ledger.threads[0], run.read(), harness.program("handlers"))

    @unittest.skipUnless(platform.machine() == "x86_64" and not harness.EMULATOR, "steps by x86-64's trap flag")
    def test_a_jump_at_every_instruction(self):
        """The same, at each of an event's first 700 instructions."""
        for program in ["handlers", *EMBEDDED]:
            with self.subTest(program=program):
                run = self.record(harness.program(program), "jumpstep", 5, BLOCK_BYTES=4096)
                self.assertGreater(int(run.stdout), 300)
                integrity = self.report(run.trace)["integrity"]
                self.assertEqual((integrity["complete"], integrity["bytes_damaged"]), (True, 0), integrity)
                ledger = run.ledger()
                self.assert_ledger_clean(ledger)
                self.check_calls_and_stacks(ledger.threads[0], run.read(), harness.program(program))

    @unittest.skipUnless(platform.machine() == "x86_64" and not harness.EMULATOR, "steps by x86-64's trap flag")
    def test_a_jump_out_of_a_stack_walk(self):
        """What it leaves of the stack in the thread's caches does not change the stack of the next call."""
        run = self.record(harness.program("handlers"), "jumpwalk", 3, BLOCK_BYTES=4096)
        self.assertGreater(int(run.stdout), 300)
        integrity = self.report(run.trace)["integrity"]
        self.assertEqual((integrity["complete"], integrity["bytes_damaged"]), (True, 0), integrity)
        ledger = run.ledger()
        self.assert_ledger_clean(ledger)
        self.check_calls_and_stacks(ledger.threads[0], run.read(), harness.program("handlers"), depths=1)

    @unittest.skipUnless(platform.machine() == "x86_64" and not harness.EMULATOR, "steps by x86-64's trap flag")
    def test_a_jump_out_of_first_events(self):
        """The thread is registered nevertheless, and its later events are its own."""
        run = self.record(harness.program("handlers"), "jumpfirst", 900)
        self.assertGreater(int(run.stdout), 100)
        made = Counter(thread.tid for thread in run.read().threads() for event in thread.events
                       if event.op == trace_reader.ALLOC and event.size == 55)
        self.assertEqual(list(made.values()), [20] * 300)

    def test_handlers_that_fork(self):
        """The child returns into an event of its parent that the parent has completed since, or into an event of its
        own."""
        for children in (0, 1):
            with self.subTest(children=children):
                run = self.record(harness.program("handlers"), "fork", 25, "kill", BLOCK_BYTES=4096,
                                  CHILDREN=children,
                                  status=-signal.SIGKILL)
                ledger = run.ledger()
                self.assert_ledger_clean(ledger)
                self.assertEqual(self.report(run.trace)["integrity"]["bytes_damaged"], 0)
                self.check_calls(ledger.threads[0], trace_reader.merged(run.read()))
                traces = [path for path in self.dir.glob(f"{run.trace.name}*") if path != run.trace]
                self.assertEqual(len(traces), 25 * children)
                for trace in traces[:4]:
                    report = self.report(trace)
                    self.assertTrue(report["integrity"]["complete"], report["integrity"])
                    # The child's calls after its return, but not the call that it returned into.
                    marked = self.report(trace, "--min-size", 66, "--max-size", 66)["heap"]["allocations"]
                    self.assertGreaterEqual(marked, 2000)
                for trace in traces:
                    trace.unlink()

    @unittest.skipUnless(platform.machine() == "x86_64" and not harness.EMULATOR, "steps by x86-64's trap flag")
    def test_a_fork_at_every_instruction(self):
        """The same, at each of an event's first 500 instructions: the child does not change its parent's trace."""
        for children in (0, 1):
            with self.subTest(children=children):
                run = self.record(harness.program("handlers"), "forkstep", 1 + children, "kill", BLOCK_BYTES=4096,
                                  CHILDREN=children, status=-signal.SIGKILL)
                ledger = run.ledger()
                self.assert_ledger_clean(ledger)
                self.assertGreater(int(run.stdout), 500)
                self.assertEqual(self.report(run.trace)["integrity"]["bytes_damaged"], 0)
                self.check_calls(ledger.threads[0], trace_reader.merged(run.read()))
                for trace in self.dir.glob(f"{run.trace.name}.*"):
                    trace.unlink()

    @unittest.skipUnless(platform.machine() == "x86_64" and not harness.EMULATOR, "steps by x86-64's trap flag")
    def test_allocations_at_every_instruction(self):
        """Between two instructions of the recorder, a handler may allocate the block that the program just freed, or
        free the one that it will get. Each allocation is recorded once, in the right order."""
        for program, threads in (("handlers", ""), ("handlers", "-threads"), *((name, "") for name in EMBEDDED)):
            with self.subTest(program=program, threads=threads):
                run = self.record(harness.program(program), "allocstep" + threads, 5, BLOCK_BYTES=4096)
                allocated = int(run.stdout)
                self.assertGreater(allocated, 10_000)
                self.assert_sound(self.report(run.trace))
                heap = self.report(run.trace, "--min-size", 44, "--max-size", 44)["heap"]
                self.assertEqual((heap["allocations"], heap["leaked_blocks"]), (allocated, 0))

    @unittest.skipUnless(platform.machine() == "x86_64" and not harness.EMULATOR, "steps by x86-64's trap flag")
    @harness.not_with_musl("musl has no swapcontext")
    def test_a_preempted_fiber_at_every_instruction(self):
        """The other fiber's stack has higher addresses. Its events go to another stream until the interrupted event
        is complete; no event of either fiber is lost or overwritten."""
        run = self.record(harness.program("handlers"), "swapstep", 5, BLOCK_BYTES=4096)
        allocated = int(run.stdout)
        self.assert_sound(self.report(run.trace))
        heap = self.report(run.trace, "--min-size", 44, "--max-size", 44)["heap"]
        self.assertEqual((heap["allocations"], heap["leaked_blocks"]), (allocated, 0))

    @unittest.skipUnless(platform.machine() == "x86_64" and not harness.EMULATOR, "steps by x86-64's trap flag")
    def test_threads_that_die_inside_the_recorder(self):
        """The locks that they held are released: samples continue after the last thread ended."""
        run = self.record(harness.program("handlers"), "diestep", 18)
        self.assertGreater(int(run.stdout), 60)
        integrity = self.report(run.trace)["integrity"]
        self.assertEqual((integrity["complete"], integrity["bytes_damaged"]), (True, 0), integrity)
        events = [event for stream in run.read().streams.values() for event in stream]
        end = next(event.time for event in events if event.op == trace_reader.ALLOC and event.size == 77)
        samples = sum(event.op == trace_reader.SAMPLE and event.time > end for event in events)
        self.assertGreaterEqual(samples, 10)

    def test_handlers_in_handlers(self):
        """Eight nested handlers: the host is not affected, and no event is torn."""
        run = self.record(harness.program("handlers"), "deep", 300_000, status=0)
        self.assertGreater(int(run.stdout), 300)
        self.assertTrue(self.report(run.trace)["integrity"]["complete"])
        run.read()

    def test_alternate_stacks_of_minimal_size(self):
        """A handler needs at most 4 KB more of stack than without the recorder."""
        def works(size, how):
            return self.record(harness.program("handlers"), "altstack", size, how=how, status=None).status == 0

        low, high = 1024, 32768  # the minimum without the recorder
        self.assertTrue(works(high, "plain"))
        while high - low > 512:
            middle = (low + high) // 2 // 16 * 16
            low, high = (low, middle) if works(middle, "plain") else (middle, high)
        for _ in range(3):
            run = self.record(harness.program("handlers"), "altstack", high + 4096)
            self.assert_sound(self.report(run.trace))
            self.assertEqual(self.report(run.trace, "--min-size", 44, "--max-size", 44)["heap"]["leaked_blocks"], 0)

    def check_calls_and_stacks(self, thread, trace, program, depths=20):
        events = trace_reader.merged(trace)
        self.check_calls(thread, events)
        self.check_stacks(trace, events, program, depths)

    def check_calls(self, thread, events):
        """After a longjmp, a thread's events may go to the stream of its handlers' events, until its stack is as
        short as it was when interrupted. Times order both streams."""
        actual = [event.tuple() for _, event in events]
        # Allocations of stdio before and after the calls are not in the ledger.
        begin = next(i for i, entry in enumerate(thread.entries) if entry.done and entry.result)
        anchor = thread.entries[begin]
        own = actual[actual.index(("alloc", anchor.result, anchor.size)):]
        problem = unfinished_calls.compare_jumps(thread.entries[begin:],
                                                 [event for event in own if event[-1] != 4096])
        self.assertIsNone(problem)

    def check_stacks(self, trace, events, program, depths):
        """The size of an allocation by step() shows how many frames of call_deeper() its stack has."""
        symbols = trace_reader.Symbols(program)
        main = {number for number, module in trace.modules.items() if module.main}

        def names(node):
            return [symbols.name(offset) or "" for module, offset in trace.stack(node) if module in main]

        @functools.cache
        def found_in(node):
            return sum("call_deeper" in name for name in names(node))

        frames = Counter()
        for _, event in events:
            if event.node == 0 or event.op not in (trace_reader.ALLOC, trace_reader.REALLOC_END):
                continue
            found = found_in(event.node)
            if found != 0:
                if found != 1 + event.size % 32:  # the names of all stacks would take longer than all else
                    self.fail(f"{found} frames of call_deeper(): {event}, {names(event.node)}")
                frames[found] += 1
        self.assertGreaterEqual(len(frames), depths)


if __name__ == "__main__":
    harness.main()
