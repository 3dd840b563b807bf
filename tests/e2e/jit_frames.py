"""Unwind tables that a program registers at run time reach the program's unwinding library; if not, the trace has a
note."""

import harness


class JitFrames(harness.Case):
    def outcome(self, mode):
        run = self.record(harness.program("jit_frames"), mode)
        notes = [note for note in self.report(run.trace)["integrity"]["notes"] if note.startswith("__register_frame")]
        return run.stdout, notes

    def test_forwarded_if_a_policy_forbids_process_vm_readv(self):
        self.assertEqual(self.outcome("policy"), ("1 0\n", []))

    def test_forwarded_in_a_sandbox(self):
        self.assertEqual(self.outcome("sandbox"), ("1 0\n", []))

    def test_deregistered_in_a_sandbox(self):
        self.assertEqual(self.outcome("before"), ("1 0\n", []))

    def test_library_cannot_be_found(self):
        """The loader's list can no longer be read. Deregistrations are not forwarded either: libgcc would abort."""
        stdout, notes = self.outcome("late")
        self.assertEqual(stdout, "0 0\n")
        self.assertEqual(len(notes), 2)
        self.assertIn("1 registration", notes[1])

    def test_library_loaded_later(self):
        stdout, notes = self.outcome("without")
        self.assertEqual(stdout, "0 0\n")
        self.assertEqual(len(notes), 2)

    def test_many_not_forwarded(self):
        """None of the 5,000 deregistrations is forwarded either, also if the recorder cannot allocate memory."""
        for mode in ("many", "many_late"):
            with self.subTest(mode=mode):
                stdout, notes = self.outcome(mode)
                self.assertEqual(stdout, "0 0\n")
                self.assertIn("5001 registrations", notes[1])

    def test_memory_of_a_lost_table_is_used_again(self):
        """The second registration is forwarded, and so is its deregistration."""
        stdout, notes = self.outcome("reused")
        self.assertEqual(stdout, "1 0\n")
        self.assertIn("1 registration", notes[1])


if __name__ == "__main__":
    harness.main()
