"""Fallbacks within fallbacks; none of the included files exists."""
import pathlib

DEPTH = 18
opening = '<xi:include href="missing.xml"><xi:fallback><part><title>a part</title></part>'
text = "<part/>"
for _ in range(DEPTH):
    text = opening + text + "</xi:fallback></xi:include>"
pathlib.Path("nested.xml").write_text(f'<book xmlns:xi="http://www.w3.org/2001/XInclude">{text}</book>\n')
