"""heaptrack_gui opens exported files and shows them, on a virtual screen."""

import harness
import viewer


class HeaptrackGui(harness.Case):
    def test_exported_files_are_shown(self):
        files = []
        for name, suffix, command in (("single", ".zst", (harness.program("ledger_single"), 8_000, 1)),
                                      ("threads", ".gz", (harness.program("ledger_threads"), 5_000, 1)),
                                      ("empty", "", (harness.program("ledger_single"), 0))):
            files.append(self.dir / f"{name}.heaptrack{suffix}")
            self.heapprof("export", "heaptrack", self.record(*command).trace, "-o", files[-1])
        self.assertEqual(viewer.open_files(files, self.dir, harness.clean_environment()), [])

    def test_an_invalid_file_is_a_problem(self):
        """Tests the check itself: it reports a file that the viewer rejects."""
        file = self.dir / "none.heaptrack"
        file.write_bytes(b"no such format\n")
        self.assertTrue(viewer.open_files([file], self.dir, harness.clean_environment(), seconds=10))


if __name__ == "__main__":
    harness.skip_unless(not viewer.missing(), f"{viewer.missing()} is not installed")
    harness.main()
