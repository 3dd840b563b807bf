"""Draws the costs of recording whole programs as a bar chart (SVG), with a logarithmic scale, since the costs of
recorders differ by orders of magnitude."""

import html
import math

COLOURS = {"heapprof": "#2a78d6", "before": "#7fb0a0", "no-shadow": "#9cc4f2", "ht-library": "#e0a33e",
           "ht-full": "#b5552b"}
LEFT, RIGHT, TOP, BAR, GAP, WIDTH = 150, 60, 56, 11, 14, 900


def plot(programs, recorders):
    """An SVG document. `programs`: name -> figures of run.py."""
    values = [max(1, p["recorders"][r]["added_ns_per_event"]) for p in programs.values() for r in recorders]
    decades = math.ceil(math.log10(max(values, default=10)))
    group = len(recorders) * BAR + GAP
    height = TOP + len(programs) * group + 30
    def x(ns):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log10(max(1, ns)) / decades
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 '
           f'{WIDTH} {height}" '
           'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>',
           f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">cpu time added per allocation event (ns, '
           'logarithmic)</text>']
    for i, recorder in enumerate(recorders):
        out.append(f'<rect x="{LEFT + i * 110}" y="31" width="10" height="10" fill="{COLOURS[recorder]}"/>'
                   f'<text x="{LEFT + i * 110 + 15}" y="40">{recorder}</text>')
    for decade in range(decades + 1):
        at = x(10 ** decade)
        out.append(f'<line x1="{at:.1f}" y1="{TOP - 4}" x2="{at:.1f}" y2="{height - 24}" stroke="#ddd"/>'
                   f'<text x="{at:.1f}" y="{height - 10}" text-anchor="middle" fill="#666">{10 ** decade}</text>')
    y = TOP
    for name, program in programs.items():
        out.append(f'<text x="{LEFT - 8}" y="{y + len(recorders) * BAR / 2 + 4:.1f}" '
                   f'text-anchor="end">{html.escape(name)}</text>')
        for recorder in recorders:
            ns = program["recorders"][recorder]["added_ns_per_event"]
            out.append(f'<rect x="{LEFT}" y="{y}" width="{max(1, x(ns) - LEFT):.1f}" height="{BAR - 1}" '
                       f'fill="{COLOURS[recorder]}"/>'
                       f'<text x="{x(ns) + 4:.1f}" y="{y + BAR - 2}" font-size="9" fill="#444">{ns:.0f}</text>')
            y += BAR
        y += GAP
    return "\n".join(out) + "\n</svg>\n"
