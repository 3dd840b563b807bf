"""tools/include-graph.py on small trees that the tests write."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import case_runner

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "include-graph.py"


class IncludeGraph(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)

    def write(self, **files):
        """`a_b_h="c/d.h"` writes a/b.h with an include of c/d.h; several includes are separated by blanks."""
        for name, includes in files.items():
            path = self.root / (name.rsplit("_", 1)[0].replace("_", "/") + "." + name.rsplit("_", 1)[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f'#include "{include}"\n' for include in includes.split()))

    def run_script(self, *arguments, directories=("src",)):
        return subprocess.run([sys.executable, str(SCRIPT), "--root", str(self.root), *arguments, *directories],
                              capture_output=True, text=True)

    def test_a_tree_without_cycle_passes(self):
        self.write(src_app_main_cpp="src/lib/a.h src/base/b.h", src_lib_a_h="src/base/b.h a_detail.h",
                   src_base_b_h="")
        result = self.run_script()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, "src/app\n  src/base (1)\n  src/lib (1)\nsrc/base\nsrc/lib\n  src/base (1)\n")
        self.assertEqual(self.run_script("--check").stdout, "")

    def test_a_cycle_is_printed_with_its_files(self):
        self.write(src_app_a_h="src/lib/b.h", src_lib_b_h="src/base/c.h", src_base_c_cpp="src/app/a.h",
                   src_base_c_h="")
        result = self.run_script("--check")
        self.assertEqual(result.returncode, 1)
        self.assertIn("3 directories include each other: src/app, src/base, src/lib", result.stderr)
        self.assertIn("shortest cycle: src/app -> src/lib -> src/base -> src/app", result.stderr)
        self.assertIn("src/base/c.cpp:1 includes src/app/a.h", result.stderr)

    def test_the_shortest_of_several_cycles_is_printed(self):
        self.write(src_a_x_h="src/b/x.h", src_b_x_h="src/c/x.h src/d/x.h", src_c_x_h="src/a/x.h",
                   src_d_x_h="src/b/y.h", src_b_y_h="")
        result = self.run_script("--check")
        self.assertIn("shortest cycle: src/b -> src/d -> src/b", result.stderr)
        self.assertNotIn("src/a/x.h:1", result.stderr)

    def test_each_group_of_directories_has_its_own_cycle(self):
        self.write(src_a_x_h="src/b/x.h", src_b_x_h="src/a/x.h", src_c_x_h="src/d/x.h", src_d_x_h="src/c/x.h")
        result = self.run_script("--check")
        self.assertIn("shortest cycle: src/a -> src/b -> src/a", result.stderr)
        self.assertIn("shortest cycle: src/c -> src/d -> src/c", result.stderr)

    def test_a_directory_and_its_subdirectory_include_one_way_only(self):
        self.write(src_lib_a_h="src/lib/inner/b.h", src_lib_inner_b_h="")
        self.assertEqual(self.run_script().returncode, 0)
        self.write(src_lib_inner_b_cpp="src/lib/c.h", src_lib_c_h="")
        result = self.run_script()
        self.assertEqual(result.returncode, 1)
        self.assertIn("shortest cycle: src/lib -> src/lib/inner -> src/lib", result.stderr)

    def test_includes_of_include_directories_and_of_the_own_directory_are_resolved(self):
        self.write(src_core_a_cpp="entry.h own.h generated.h", src_core_own_h="", src_arch_arm_entry_h="",
                   src_arch_x86_entry_h="src/core/own.h", src_other_own_h="")
        result = self.run_script("--check")
        self.assertEqual(result.returncode, 1)
        self.assertIn("shortest cycle: src/arch/x86 -> src/core -> src/arch/x86", result.stderr)
        graph = self.run_script().stdout
        self.assertIn("src/core\n  src/arch/arm (1)\n  src/arch/x86 (1)\nsrc/other\n", graph)

    def test_graphviz_output_has_the_same_edges(self):
        self.write(src_a_x_h="src/b/x.h", src_b_x_h="src/a/x.h src/c/x.h", src_c_x_h="")
        result = self.run_script("--dot")
        self.assertEqual(result.returncode, 1)
        self.assertIn('"src/a" -> "src/b" [label=1, color=red];', result.stdout)
        self.assertIn('"src/b" -> "src/c" [label=1];', result.stdout)

    def test_an_unknown_directory_is_an_error(self):
        result = self.run_script(directories=("nowhere",))
        self.assertEqual(result.returncode, 2)
        self.assertIn("no directory 'nowhere'", result.stderr)


if __name__ == "__main__":
    case_runner.main()
