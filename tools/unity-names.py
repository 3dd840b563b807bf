#!/usr/bin/env python3
"""Find names that files of one namespace define twice in their unnamed namespaces.

usage: tools/unity-names.py [--root DIRECTORY] [DIRECTORY...]

With meson's option unity_analyzer, the compiler reads several files as one, which then must not define a name twice.
Which files are read together depends on their order in meson.build, so no two files of a namespace may do so.
Functions with other parameters, and equal aliases, may have the same name. A type or a variable must
not have the name of a declaration in a header of the namespace either.

Without DIRECTORY: analyzer. Prints each name with its files; exit status 1 if there is one.

The files are expected in the format of .clang-format: `namespace NAME {` and `namespace {` begin a line.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

# What is replaced before the text is read: comments, literals, preprocessor lines.
NOISE = re.compile(r"""
    (?P<raw> R"(?P<delimiter>\w*)\(.*?\)(?P=delimiter)" )
  | (?P<string> "(?:\\.|[^"\\\n])*" )
  | (?P<character> (?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+' )
  | (?P<comment> //[^\n]* | /\*.*?\*/ )
  | (?P<directive> ^[ ]*\#(?:\\\n|[^\n])* )
""", re.VERBOSE | re.DOTALL | re.MULTILINE)
OPENING, CLOSING = "([{", ")]}"


def clean(text):
    return NOISE.sub(lambda match: " " if match["comment"] or match["directive"] else '""', text)


def end_of_block(text, begin):
    """The position after the brace that closes the one at `begin`."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, begin):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(text)


def split_top(text, separator):
    """`text` at each `separator` that is in no parentheses, brackets, braces or template arguments."""
    pieces, depth, begin = [], 0, 0
    for i, character in enumerate(text):
        if character in OPENING or character == "<":
            depth += 1
        elif character in CLOSING or character == ">" and text[i - 1:i] not in "-=":
            depth -= 1
        elif character == separator and depth == 0:
            pieces.append(text[begin:i])
            begin = i + 1
    return pieces + [text[begin:]]


def statements(text):
    """The declarations in the body of a namespace, without the bodies of functions and classes."""
    at = 0
    while at < len(text):
        match = re.compile(r"[;{]").search(text, at)
        if not match:
            return
        head = text[at:match.start()].strip()
        at = match.end()
        if match[0] == "{":
            at = end_of_block(text, match.start())
            if len(split_top(head, "=")) > 1 and "operator" not in head:  # braces in the value of a variable
                while (match := re.compile(r"[;{]").search(text, at)) and match[0] == "{":
                    at = end_of_block(text, match.start())
                at = match.end() if match else len(text)
            if re.match(r"namespace\b", head):  # one in the unnamed namespace: its names are its own
                continue
            follow = re.compile(r"\s*;").match(text, at)
            at = follow.end() if follow else at
        yield re.sub(r"\s+", " ", head)


def parameter_types(parameters):
    """(`const char* name = "", int`) without names and defaults."""
    types = []
    for parameter in split_top(parameters, ","):
        kind = split_top(parameter, "=")[0].strip()
        types.append(re.sub(r"(?<=[ &*>])\w+$", "", kind).strip() if re.search(r"[ &*>]", kind) else kind)
    return ", ".join(types)


def declared(head):
    """[(name, signature)] of a declaration; the signature: "(TYPES)" of a function, "= NAME" of an alias, or None."""
    head = re.sub(r"\[\[.*?\]\] ?", "", head)
    while match := re.match(r"template ?<", head):
        depth = 0
        for i in range(match.end() - 1, len(head)):
            depth += {"<": 1, ">": -1}.get(head[i], 0)
            if depth == 0:
                break
        head = re.sub(r"^ ?requires \S+ ", "", head[i + 1:]).strip()
    if match := re.match(r"using (\w+) (=.*)", head):
        return [(match[1], match[2])]
    if match := re.match(r"using ([\w:]+::(\w+))$", head):
        return [(match[2], "= " + match[1])]
    if re.match(r"(using|static_assert|extern|friend|typedef)\b", head) or not head:
        return []
    if match := re.match(r"(?:struct|class|enum class|enum|union) (\w+)(?: final)?(?: :.*)?$", head):
        return [(match[1], None)]
    before_value = split_top(head, "=")[0] if "operator" not in head else head
    if match := re.search(r"(~?\w+|operator ?\S+?) ?\(", before_value):
        depth, begin = 0, match.end()
        for i in range(begin - 1, len(head)):
            depth += {"(": 1, ")": -1}.get(head[i], 0)
            if depth == 0:
                break
        return [(match[1], f"({parameter_types(head[begin:i])})")]
    names = []
    for declarator in split_top(head, ","):
        name = re.search(r"(\w+) ?(\[[^=]*)?$", split_top(declarator, "=")[0].strip())
        if name:
            names.append((name[1], None))
    return names


def namespaces(text):
    """(name, body) of each named namespace."""
    for match in re.finditer(r"^namespace ([\w:]+) \{", text, re.MULTILINE):
        begin = match.end() - 1
        yield match[1], text[begin + 1:end_of_block(text, begin) - 1]


def without_unnamed(body):
    """The body of a namespace without its unnamed namespaces, and their bodies."""
    bodies = []
    while match := re.search(r"^namespace \{", body, re.MULTILINE):
        end = end_of_block(body, match.end() - 1)
        bodies.append(body[match.end():end - 1])
        body = body[:match.start()] + body[end:]
    return body, bodies


def find_duplicates(root, directories):
    """Sentences, one for each name."""
    in_headers = defaultdict(lambda: defaultdict(set))
    unnamed = defaultdict(lambda: defaultdict(set))  # (namespace, name): signature: files
    for directory in directories:
        for path in sorted((root / directory).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            file = str(path.relative_to(root))
            for namespace, body in namespaces(clean(path.read_text())):
                rest, bodies = without_unnamed(body)
                if path.suffix == ".h":
                    for head in statements(rest):
                        for name, signature in declared(head):
                            in_headers[namespace, name][signature].add(file)
                    continue
                for head in (head for body in bodies for head in statements(body)):
                    for name, signature in declared(head):
                        unnamed[namespace, name][signature].add(file)
    found = []
    for (namespace, name), by_signature in sorted(unnamed.items()):
        files = set().union(*by_signature.values())
        kinds = {"function" if signature and signature[0] == "(" else signature for signature in by_signature}
        repeated = any(len(same) > 1 and (signature is None or signature[0] == "(")
                       for signature, same in by_signature.items())
        if repeated or len(kinds) > 1:
            found.append(f"{namespace}::{name} is defined in {', '.join(sorted(files))}; rename all but one")
            continue
        headers = {file for signature, same in in_headers[namespace, name].items() for file in same
                   if signature not in by_signature or signature is None}
        if headers and kinds != {"function"}:
            found.append(f"{namespace}::{name} is defined in {', '.join(sorted(files))} and declared in "
                         f"{', '.join(sorted(headers))}; rename one")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent,
                        help="directory of the sources (default: that of this script)")
    parser.add_argument("directories", nargs="*", metavar="DIRECTORY")
    arguments = parser.parse_args()
    found = find_duplicates(arguments.root, arguments.directories or ["analyzer"])
    for sentence in found:
        print(sentence)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
