"""charts.py - charts by gnuplot: as SVG, to stand in a page that is light or dark, and as PNG.

One size does for a phone and for a column of a wide page, as letters are large and nothing
stands left of the bars. Ticks are chosen here, so that numbers read as in the tables. In the
SVG black is the page's own colour; the others are seen on white and on near black."""

import html
import math
import os
import re
import subprocess

import harness

WIDTH = 520
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = (
    "#3b82f6", "#d97706", "#16a34a", "#ef4444", "#a855f7", "#808080")
HEAD = f"""reset
set border 3 lc rgb '{GREY}'
set tics nomirror scale 0.5 textcolor rgb 'black'
set grid lc rgb '{GREY}' lw 0.5 dt (2, 4)
set style fill solid 1 noborder
set key noautotitle
"""
TERMINALS = (
    ("svg", "svg size {width},{height} dynamic noenhanced font 'sans-serif,15' name '{name}'"),
    ("png", "pngcairo size {double_width},{double_height} noenhanced font 'sans,15' "
            "fontscale 2 pointscale 2 linewidth 2"))


class Chart:
    """`told` says in words what it shows; `commands` are gnuplot's; `table` is a header and
    rows of text, for who wants the figures."""

    def __init__(self, name, title, told, height, commands, table):
        self.name, self.title, self.told, self.height = name, title, told, height
        self.commands, self.table = HEAD + "".join(line + "\n" for line in commands), table


def draw(charts, place):
    """NAME.png in `place` for each chart; their SVGs as text, by name. Failed without gnuplot."""
    script = "".join(script_of(chart, place) for chart in charts)
    try:
        done = subprocess.run(["gnuplot"], input=script, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise harness.Failed("gnuplot is missing") from None
    if done.returncode != 0 or done.stderr:
        raise harness.Failed(f"gnuplot: {done.stderr}")
    texts = {}
    for chart in charts:
        path = f"{place}/{chart.name}.svg"
        with open(path) as svg:
            texts[chart.name] = embed(svg.read(), chart)
        os.remove(path)
    return texts


def script_of(chart, place):
    lines = []
    for ending, terminal in TERMINALS:
        lines += ["set terminal " + terminal.format(
            name=chart.name, width=WIDTH, height=chart.height,
            double_width=2 * WIDTH, double_height=2 * chart.height),
            f"set output {quote(f'{place}/{chart.name}.{ending}')}", chart.commands, "unset output"]
    return "\n".join(lines) + "\n"


def embed(svg, chart):
    """gnuplot's SVG as a part of a page: its ids are its own, it has a name and a
    description, black is the text's colour, and nothing empty or unused is left."""
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<(title|desc)>.*?</\1>|<filter.*?</filter>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"rgb\( *0, *0, *0\)|\bblack\b(?=[\"'])", "currentColor", svg)
    svg = re.sub(r"\bid=(['\"])", rf"id=\1{chart.name}-", svg)
    svg = svg.replace("href='#", f"href='#{chart.name}-")
    while True: # a group of empty groups is empty
        svg, count = re.subn(r"<g\b[^>]*>\s*</g>", "", svg)
        if not count:
            break
    if "<use xlink" not in svg[svg.index("</defs>"):]:
        svg = re.sub(r"<defs>.*?</defs>", "", svg, flags=re.DOTALL)
    names = (f"<title id='{chart.name}-title'>{html.escape(chart.title)}</title>"
             f"<desc id='{chart.name}-desc'>{html.escape(chart.told)}</desc>")
    svg = re.sub(r"<svg([^>]*)>", rf"<svg\1 role='img' aria-labelledby='{chart.name}-title' "
                 rf"aria-describedby='{chart.name}-desc'>" + names.replace("\\", r"\\"), svg, count=1)
    return re.sub(r"\n\s*\n+", "\n", svg)


# -- what gnuplot reads --

def quote(text):
    """In single quotes gnuplot reads nothing but itself."""
    return "'" + text.replace("'", "''").replace("\n", " ") + "'"


def block(name, rows):
    """Rows of numbers as a data block."""
    lines = [" ".join(f"{value:.10g}" for value in row) for row in rows]
    return "\n".join([f"${name} << END"] + lines + ["END"])


def number(value):
    """As people read it: 51,234 or 0.35."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"


def nice_ticks(top, most=5):
    """From 0 to the first one that is not below `top`, at 1, 2 or 5 times a power of ten."""
    top = top if top > 0 else 1
    power = 10 ** math.floor(math.log10(top / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * most >= top)
    return [step * at for at in range(math.ceil(top / step - 1e-9) + 1)]


def log_ticks(bottom, top):
    """At 1, 2, 5 of each power of ten, or at the powers only when these are many."""
    first, last = math.floor(math.log10(bottom)), math.ceil(math.log10(top))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    ticks = [factor * 10.0 ** power for power in range(first, last + 1) for factor in factors]
    low = max((tick for tick in ticks if tick <= bottom * 1.001), default=ticks[0])
    high = min((tick for tick in ticks if tick >= top * 0.999), default=ticks[-1])
    return [tick for tick in ticks if low <= tick <= high]


def axis(which, ticks, labels=None, pad=0):
    """From the first tick to the last, and `pad` beyond. A logarithmic axis needs some: gnuplot
    may leave out a tick that is exactly at its end."""
    shown = labels or [number(tick) for tick in ticks]
    # A label of a tick is a format to gnuplot.
    pairs = ", ".join(f"{quote(text.replace('%', '%%'))} {tick:.10g}"
                      for text, tick in zip(shown, ticks))
    return [f"set {which}tics ({pairs})",
            f"set {which}range [{ticks[0] - pad:.10g}:{ticks[-1] + pad:.10g}]"]


def label(text, at, more=""):
    return f"set label {quote(text)} at {at} {more}"


# -- kinds of charts --

ROW = 52 # the height of a bar with its text
LEGEND = 68
LETTER = 10 # about the width of one


def legend(parts, height, words):
    """Above all: what the colours are, and what goes up. `parts` are text and colour."""
    down = 44 if parts else 18
    commands = [f"set label {quote(words)} at screen 0.01, screen {1 - down / height:.4f} left"]
    left = 0.01
    for text, colour in parts:
        middle = 1 - 18 / height
        commands += [f"set object rectangle center screen {left + 0.015:.4f}, screen {middle:.4f} size "
                     f"screen 0.03, screen {12 / height:.4f} fc rgb '{colour}' fs solid 1 noborder",
                     f"set label {quote(text)} at screen {left + 0.04:.4f}, screen {middle:.4f} left"]
        left += 0.08 + len(text) * LETTER / WIDTH
    return commands


def bar_frame(count, top, unit):
    """Rows of bars from the top down, no axis on the left, the unit below."""
    return axis("x", nice_ticks(top)) + [
        "unset ytics", "set border 1", "set grid noy x", f"set yrange [{count}:0]",
        "set lmargin 2", "set rmargin 4", f"set xlabel {quote(unit)}"]


def bar_plot(number, boxes, colour):
    """Commands, and what is to be plotted."""
    return block(f"bar{number}", boxes), (
        f"$bar{number} using 1:2:3:4:5:6 with boxxyerror lc rgb '{colour}'")


def bars(name, title, told, unit, rows, table):
    """Horizontal bars. `rows` are text, value, from where to where a line goes, colour."""
    commands = bar_frame(len(rows), max(high for _, _, _, high, _ in rows), unit)
    commands.append("set tmargin 0.5")
    plots = []
    for at, (text, value, low, high, colour) in enumerate(rows):
        commands.append(label(f"{text}: {number(value)}", f"graph 0, first {at + 0.22}", "left"))
        data, plot = bar_plot(at, [(0, at + 0.66, 0, value, at + 0.44, at + 0.88)], colour)
        commands.append(data)
        plots.append(plot)
        if low < high:
            commands.append(spread(f"{low:.10g}, {at + 0.66}", f"{high:.10g}, {at + 0.66}", "black"))
    commands.append("plot " + ", ".join(plots))
    return Chart(name, title, told, 70 + ROW * len(rows), commands, table)


def spread(begin, end, colour):
    """A line such as that from the lowest to the highest round."""
    return (f"set arrow from {begin} to {end} heads size screen 0.008, 90 front lw 1.5 "
            f"lc rgb '{colour}'")


def stacked(name, title, told, unit, rows, parts, head):
    """Horizontal bars of several parts each. `rows` are text and a value for each of `parts`,
    which are text and colour."""
    height = 120 + ROW * len(rows)
    commands = bar_frame(len(rows), max(sum(values) for _, values in rows), unit)
    commands += legend(parts, height, "") + [f"set tmargin at screen {1 - 44 / height:.4f}"]
    for at, (text, values) in enumerate(rows):
        commands.append(label(f"{text}: {number(sum(values))}", f"graph 0, first {at + 0.22}", "left"))
    plots = []
    for part, (_, colour) in enumerate(parts):
        data, plot = bar_plot(part, [
            (0, at + 0.66, sum(values[:part]), sum(values[:part + 1]), at + 0.44, at + 0.88)
            for at, (_, values) in enumerate(rows)], colour)
        commands.append(data)
        plots.append(plot)
    commands.append("plot " + ", ".join(plots))
    table = (head, [(text, *map(number, values), number(sum(values))) for text, values in rows])
    return Chart(name, title, told, height, commands, table)


def lines(name, title, told, x, y, series, table, marks=()):
    """Lines through points. `x` and `y` are dicts: unit and ticks; where need be labels of x's
    ticks, and what it pads; whether y is log. A series is text, colour, and points: x, y, and
    where measured the lowest and highest. `marks` are vertical lines: x and text."""
    height = 360
    commands = ["set logscale y"] if y.get("log") else []
    commands += axis("x", x["ticks"], x.get("labels"), x.get("pad", 0))
    commands += axis("y", y["ticks"], pad=y["ticks"][0] / 1000)
    parts = [part[:2] for part in series] if len(series) > 1 else []
    top = (LEGEND if parts else LEGEND - 26) + (16 if marks else 0)
    commands += legend(parts, height, y["unit"]) + [
        f"set tmargin at screen {1 - top / height:.4f}",
        f"set xlabel {quote(x['unit'])}", "set rmargin 4"]
    for at, text in marks:
        commands += [f"set arrow from {at:.10g}, graph 0 to {at:.10g}, graph 1 nohead "
                     f"lc rgb '{RED}' dt (4, 4) back",
                     label(text, f"{at:.10g}, graph 1.04", "center font ',12'")]
    plots = []
    for number_of, (_, colour, points) in enumerate(series):
        commands.append(block(f"line{number_of}", [point[:2] for point in points]))
        style = "linespoints pt 7 ps 0.6" if len(points) <= 24 else "lines"
        plots.append(f"$line{number_of} with {style} lw 2 lc rgb '{colour}'")
        commands += [spread(f"{at:.10g}, {low:.10g}", f"{at:.10g}, {high:.10g}", colour)
                     for at, _, low, high in (point for point in points if len(point) == 4)
                     if low < high]
    commands.append("plot " + ", ".join(plots))
    return Chart(name, title, told, height, commands, table)


PANEL = 144 # the height of one of them, with its text
PANEL_TEXT = 64


def short(value):
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def stack_bins(counts, kinds, bin_s, seconds):
    """By kind the boxes of a stacked area, as boxxyerror reads them; and how high it goes."""
    boxes = {kind: [] for kind, *_ in kinds}
    top = 0
    for at in range(len(counts[kinds[0][0]])):
        left, right, base = at * bin_s, min((at + 1) * bin_s, seconds), 0
        for kind, *_ in kinds:
            height = counts[kind][at] / bin_s
            if height:
                boxes[kind].append((left, base, left, right, base, base + height))
            base += height
        top = max(top, base)
    return boxes, top


def panel(number, stage, kinds):
    """One stage: its text, its seconds, those of a bin, the counts of the bins by kind, and
    from when to when something was down, or nothing."""
    text, seconds, bin_s, counts, down = stage
    boxes, top = stack_bins(counts, kinds, bin_s, seconds)
    across = [tick for tick in nice_ticks(seconds, most=3) if tick <= seconds]
    up = nice_ticks(top, most=2)
    commands = axis("x", across) + axis("y", up, list(map(short, up))) + [
        f"set xrange [0:{seconds:.6g}]", f"set title {quote(text)} offset 0,-0.7",
        "set xtics offset 0,0.5"]
    if down:
        commands.append(f"set object rectangle from {down[0]:.6g}, graph 0 to {down[1]:.6g}, graph 1 "
                        f"back fc rgb '{RED}' fs transparent solid 0.2 noborder")
    plots = []
    for kind, _, colour in kinds:
        if boxes[kind]:
            commands.append(block(f"panel{number}{kind}", boxes[kind]))
            plots.append(f"$panel{number}{kind} using 1:2:3:4:5:6 with boxxyerror lc rgb '{colour}'")
    return commands + ["plot " + ", ".join(plots), "unset object", "unset label"]


def panels(name, title, told, words, stages, kinds, table):
    """A small area chart for each stage, two in a row. `kinds` are kind, text and colour, from
    the bottom up."""
    rows = math.ceil(len(stages) / 2)
    height = LEGEND + PANEL * rows
    commands = legend([kind[1:] for kind in kinds], height, words) + [
        f"set multiplot layout {rows},2 margins screen 0.11, screen 0.97, "
        f"screen {PANEL_TEXT / 2 / height:.4f}, screen {1 - (LEGEND + PANEL_TEXT / 2) / height:.4f} "
        f"spacing screen 0.13, screen {PANEL_TEXT / height:.4f}"]
    for number, stage in enumerate(stages):
        commands += panel(number, stage, kinds)
    return Chart(name, title, told, height, commands + ["unset multiplot"], table)
