"""A program whose functions, source files, threads, arguments and file have names that are difficult for formats.

No compiler writes such names, so the source has placeholders of the same length. They are replaced in the executable,
in the symbol table and in the debug information, where debuggers and profilers read them.

Each function of FUNCTIONS leaks one block of SIZES[i] bytes in its own thread."""

import os
import re
import subprocess

FUNCTIONS = (
    b"semi;colon;", b"hash # {lambda()#1}", b"quotes \" ' ` \\", b"line\nfeed\r\ttab", b"bytes \xff\xfe\xc3(",
    b"<script>alert(1)</script>", b"]]></script><!--", b"&amp;&#x41;", b"comma,=(1) fn=(2)", b"%s%n%d%%", b" blanks ",
    b"n3: 99 0x1: x", b"(7)", b"[]{}${x}#{y}", b"\xe2\x80\xa8line separator", b"=1+1", b"@SUM(A1)", b"-",
    b"escape \x1b[31m\x07",
    b"__proto__", b"fl=(1) /x.c", b"C:\\new\\table", b"\xf0\x9f\x94\xa5 fire", b"ends with 12",
    b"ends with a [k]_[k]", b"'; drop table x; --",
    b"std::map<" + b"std::vector<std::pair<int, long> >, " * 280 + b"int>::operator()(char const*)",
)
SIZES = tuple(1000 + i for i in range(len(FUNCTIONS)))
PROGRAM = b"a;b #\"c'\n<script>\xff\t %s&amp;\\"
ARGUMENT = b"<b>;\n\"\xfe#'"


def clean(name):
    """A name as heapprof writes it (docs/viewers.md): UTF-8 without control characters."""
    text = name.decode(errors="surrogateescape")
    return re.sub("[\ud800-\udfff\0-\x1f\x7f-\x9f\ufffe\uffff]", "\ufffd", text)


def clean_functions():
    return [clean(name) for name in FUNCTIONS]


def clean_program():
    """The program's path as in /proc/PID/maps, where a line feed is four characters."""
    return clean(PROGRAM.replace(b"\n", b"\\012"))


def file_of(i):
    """The source file of FUNCTIONS[i], without its folder."""
    return FUNCTIONS[(i + 7) % len(FUNCTIONS)].replace(b"/", b"|")[:200] + b".c"


def clean_files():
    return [clean(file_of(i)) for i in range(len(FUNCTIONS))]


def clean_threads():
    return [clean(thread_of(i)) for i in range(len(FUNCTIONS))]


def thread_of(i):
    """The name of the thread of FUNCTIONS[i]: the kernel keeps 15 bytes."""
    return FUNCTIONS[i][:15]


def build(folder):
    """Compiles the program in `folder`; returns the command to run, arguments included."""
    names = {}

    def placeholder(kind, i, name):
        text = f"{kind}{i:02}_"
        text += "x" * (len(name) - len(text))
        # A shorter name ends before the placeholder's end.
        names[text.encode()] = name + b"\0" * (len(text) - len(name))
        return text

    def octal(name):
        return "".join(f"\\{byte:03o}" for byte in name)

    source = ["#include <pthread.h>", "#include <stdlib.h>", "#include <sys/prctl.h>", "void* volatile kept;"]
    for i, name in enumerate(FUNCTIONS):
        function = placeholder("function_", i, name)
        source += [f'#line 7 "{placeholder("file_", i, file_of(i))}"',
                   f"__attribute__((noipa)) static void {function}(void) {{ kept = malloc({SIZES[i]}); }}",
                   f'static void* run_{i}(void* none) {{ prctl(PR_SET_NAME, "{octal(thread_of(i))}"); '
                   f'{function}(); return none; }}']
    source.append("int main(void) { pthread_t thread;")
    for i in range(len(FUNCTIONS)):
        source.append(f"pthread_create(&thread, 0, run_{i}, 0); pthread_join(thread, 0);")
    source.append("return 0; }")
    (folder / "nasty.c").write_text("\n".join(source))
    subprocess.run(["cc", "-O1", "-g", "-fno-builtin", "-pthread", "-o", "nasty", "nasty.c"], cwd=folder, check=True,
                   timeout=60)
    image = (folder / "nasty").read_bytes()
    for text, name in names.items():
        assert image.count(text) >= 1, text
        image = image.replace(text, name)
    path = bytes(folder) + b"/" + PROGRAM
    with open(path, "wb") as program:
        program.write(image)
    os.chmod(path, 0o755)
    return [os.fsdecode(path), os.fsdecode(ARGUMENT)]
