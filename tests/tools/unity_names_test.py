"""tools/unity-names.py on small trees that the tests write."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "unity-names.py"
UNNAMED = "namespace heapprof::part {\nnamespace {\n%s\n}  // namespace\nint used_%s() { return 0; }\n}\n"


class UnityNames(unittest.TestCase):
    def found(self, header="", **files):
        """What the script prints for files NAME.cpp with these unnamed namespaces."""
        with tempfile.TemporaryDirectory() as directory:
            source = Path(directory) / "src"
            source.mkdir()
            for name, text in files.items():
                (source / f"{name}.cpp").write_text(UNNAMED % (text, name))
            (source / "part.h").write_text("namespace heapprof::part {\n" + header + "\n}\n")
            result = subprocess.run([sys.executable, str(SCRIPT), "--root", directory, "src"],
                                    capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        self.assertEqual(result.returncode, 1 if result.stdout else 0)
        return result.stdout

    def assert_twice(self, name, **files):
        self.assertEqual(self.found(**files),
                         f"heapprof::part::{name} is defined in src/a.cpp, src/b.cpp; rename all but one\n")

    def test_names_of_all_kinds(self):
        self.assert_twice("kSize", a="constexpr int kSize = 1 << 3;", b="constexpr int kOther = 1, kSize = 2;")
        self.assert_twice("kWords", a='const char* kWords[] = {"a;{"};', b="constexpr Words kWords{1, 2};")
        self.assert_twice("Row", a="struct Row {\n  int size() { return 1; }\n};", b="class Row : public Base {\n};")
        self.assert_twice("Row", a="using Row = int;", b="using Row = long;")
        self.assert_twice("Row", a="using model::Row;", b="enum class Row { kOne };")
        self.assert_twice("size_of", a="int size_of(const Row& row) { return row.size; }",
                          b="// { }\nint size_of(\n    const Row& other) noexcept { return 2; }")
        self.assert_twice("take", a="template <typename T, typename = A<B>>\nvoid take(T&& value = {1, 2}) {}",
                          b="template <typename T>\nvoid take(T&& other) {}")
        self.assert_twice("row", a="int row(int size) { return size; }", b="int row = 0;")

    def test_a_name_of_a_header(self):
        self.assertEqual(self.found(header="inline constexpr int kSize = 1;", a="constexpr int kSize = 2;"),
                         "heapprof::part::kSize is defined in src/a.cpp and declared in src/part.h; rename one\n")

    def test_what_may_be_repeated(self):
        self.assertEqual(self.found(header="int size_of(int size);",
                                    a="using render::pad;\nusing Row = int;\nint size_of(Row& row) { return 1; }",
                                    b="using render::pad;\nusing Row = int;\nint size_of(Cell) { return 2; }"), "")

    def test_names_inside_functions_and_classes(self):
        self.assertEqual(self.found(a="struct A {\n  int size = 1;\n};\nint f() {\n  int at = 1;\n}",
                                    b="struct B {\n  int size = 1;\n};\nint g() {\n  int at = 2;\n}"), "")


if __name__ == "__main__":
    unittest.main()
