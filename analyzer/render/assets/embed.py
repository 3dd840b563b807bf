"""Writes a C++ header with the text of each FILE, so that `heapprof` is one binary.

usage: embed.py OUTPUT FILE...     foo_bar.js becomes heapprof::render::assets::kFooBarJs
"""

import pathlib
import sys


def literal(line: str) -> str:
    escaped = line.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")
    return f'    "{escaped}\\n"'


def main() -> None:
    output, *inputs = sys.argv[1:]
    parts = [
        "// Generated from analyzer/render/assets by embed.py.",
        "#pragma once",
        "",
        "#include <string_view>",
        "",
        "namespace heapprof::render::assets {",
        "",
    ]
    for name in inputs:
        path = pathlib.Path(name)
        text = path.read_text(encoding="utf-8")
        # The files are written into CDATA sections.
        if "]]>" in text or not text.isascii():
            sys.exit(f"{name}: must be ASCII and must not contain ]]>")
        words = path.stem.split("_") + [path.suffix.lstrip(".")]
        constant = "k" + "".join(word.capitalize() for word in words)
        parts.append(f"inline constexpr std::string_view {constant} =")
        parts.append("\n".join(literal(line) for line in text.splitlines() or [""]) + ";")
        parts.append("")
    parts.append("}  // namespace heapprof::render::assets")
    pathlib.Path(output).write_text("\n".join(parts) + "\n", encoding="utf-8")


main()
