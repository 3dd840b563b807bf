"""Signal handlers that allocate, also while their thread is inside the recorder."""

import harness


class Signals(harness.Case):
    def test_order_between_a_thread_and_its_handlers(self):
        for _ in range(3):
            run = self.record(harness.program("interrupted"), 1_000_000)
            report = self.report(run.trace)
            self.assert_sound(report)
            heap = report["heap"]
            self.assertEqual((heap["unmatched_frees"], heap["implied_frees"]), (0, 0), report["integrity"])
            self.assertGreaterEqual(heap["allocations"], int(run.stdout))
            self.assertLess(heap["leaked_blocks"], 10)

    def test_handlers_do_interrupt_the_recorder(self):
        """Otherwise the other test proves nothing."""
        run = self.record(harness.program("interrupted"), 200_000)
        self.assertTrue(any(thread.nested for thread in run.read().threads()))


if __name__ == "__main__":
    harness.main()
