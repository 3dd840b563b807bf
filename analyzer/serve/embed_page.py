"""Writes a C++ header with the files of the page, so that `heapprof` is one binary.

usage: embed_page.py OUTPUT FILE...
"""

import base64
import hashlib
import pathlib
import re
import sys

CHUNK = 2000  # compilers limit the length of one literal
MAX_BYTES = 500_000  # of all files: the page must open at once, also through a tunnel


def literal(chunk: bytes) -> str:
    # Octal escapes have at most three digits, so no character after them becomes part of them.
    return '"' + "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}"
                         for byte in chunk) + '"'


def main() -> None:
    output, *inputs = sys.argv[1:]
    contents = [(pathlib.Path(name).name, pathlib.Path(name).read_bytes()) for name in inputs]
    total = sum(len(content) for _, content in contents)
    if total > MAX_BYTES:
        sys.exit(f"the files of the page have {total} bytes; at most {MAX_BYTES} are allowed")
    page = next(content for name, content in contents if name == "index.html").decode()
    named = re.findall(r'<(?:link rel="stylesheet" href|script (?:id="questions" )?src)="([^"]*)"', page)
    embedded = [name for name, _ in contents if name != "index.html"]
    if sorted(named) != sorted(embedded):
        sys.exit("index.html and meson.build do not name the same files once each: "
                 f"{', '.join(sorted(set(named) ^ set(embedded))) or 'one is named twice'}")
    lines = ["// Generated from analyzer/page by embed_page.py.", "#pragma once", "",
             '#include "analyzer/serve/page.h"', "", "namespace heapprof::serve {", "",
             "inline constexpr Asset kPageAssets[] = {"]
    for name, content in contents:
        # It is also written between <script> and </script>, or <style> and </style>.
        if any(end in content.lower() for end in (b"</script", b"</style", b"<!--")) and not name.endswith(".html"):
            sys.exit(f"{name}: must not contain </script, </style or <!--")
        if name.endswith(".js"):
            content += f"//# sourceURL={name}\n".encode()  # browsers name it in errors: the page has all in one file
        # Browsers replace them before they compute the hash.
        if b"\r" in content or b"\0" in content:
            sys.exit(f"{name}: must not contain carriage returns or zero bytes")
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        chunks = [content[at:at + CHUNK] for at in range(0, len(content), CHUNK)] or [b""]
        text = "\n        ".join(literal(chunk) for chunk in chunks)
        lines.append(f'    {{"{name}", std::string_view(\n        {text},\n        {len(content)}),\n     "sha256-{digest}"}},')
    lines += ["};", "", "}  // namespace heapprof::serve"]
    pathlib.Path(output).write_text("\n".join(lines) + "\n", encoding="ascii")


main()
