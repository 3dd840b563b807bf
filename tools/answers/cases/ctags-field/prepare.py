"""Sources in C++ with classes, templates and functions."""
import pathlib
import random

choose = random.Random(5)
sources = pathlib.Path("sources")
sources.mkdir()
for file in range(250):
    lines = ["#include <vector>", f"namespace part{file} {{"]
    for number in range(60):
        if choose.random() < 0.5:
            lines.append("template <typename Key, typename Value, int limit = 100, class Hash = std::hash<Key>>")
        lines.append(f"class Table{number} {{\n public:\n  Table{number}();")
        for method in range(6):
            if choose.random() < 0.4:
                lines.append("  template <typename Result, typename... Arguments>")
            lines.append(f"  int method{method}(const std::vector<int>& values, int from, int to) const;")
        lines.append(" private:")
        lines += [f"  std::vector<int> member{member}_;" for member in range(4)]
        lines.append("};")
    lines.append("}")
    (sources / f"part{file}.cpp").write_text("\n".join(lines) + "\n")
