#!/usr/bin/env -S python3 -B
"""pictures.py bench|prove - draw what was measured, or proved.

Reads the figures that bench.py, growth.py and soak.py, or prove.py, left in var/bench or
var/prove, and writes index.html there: one page that needs nothing else, for a browser on a
phone or a desk, light or dark. The same charts lie beside it as PNG. The figures stand below
each picture as a table; load/README.md says how to read them."""

import html
import json
import math
import os
import statistics
import sys
import time

import charts
import results
import harness
from charts import BLUE, GREEN, GREY, ORANGE, PURPLE, RED

STYLE = """
:root { color-scheme: light dark; --text: #1c2024; --quiet: #5c6670; --back: #ffffff;
        --line: #d5dae0; --good: #0f7a36; --bad: #c4262e; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e9ed; --quiet: #9aa4af; --back: #14171a; --line: #363d45;
          --good: #4ac26b; --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; background: var(--back);
       color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 0 0 .25rem; }
p, dl { margin: 0 0 1rem; max-width: 46rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
main { columns: 28rem; column-gap: 2.5rem; }
figure, section { margin: 0 0 2rem; border-top: 1px solid var(--line); padding-top: 1rem;
                  break-inside: avoid; }
figcaption p { margin: 0 0 .5rem; color: var(--quiet); }
svg { display: block; width: 100%; height: auto; max-width: 44rem; }
svg * { font-family: inherit; }
.rows { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 0; font-size: .875rem;
        font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid var(--line);
         vertical-align: top; white-space: nowrap; }
.long { white-space: normal; min-width: 13rem; }
th:first-child, td:first-child, .text { text-align: left; }
th { color: var(--quiet); font-weight: normal; }
@media (max-width: 36rem) { td:first-child { white-space: normal; min-width: 8rem; } }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
footer { margin-top: 2rem; color: var(--quiet); }
"""
GOOD = ("met", "holds")
BAD = ("missed", "broken", "incomplete")


# -- the page --

def cell(text, is_text):
    kinds = ["text"] * is_text + ["long"] * (len(text) > 40)
    kinds += ["good"] * (text in GOOD) + ["bad"] * (text in BAD)
    return f'<td class="{" ".join(kinds)}">{html.escape(text)}</td>'


def table(head, rows):
    """A column in which nothing begins as a number does is text."""
    are_text = [not any(text[:1].isdigit() or text[:1] in "+-" for text in column if text)
                for column in zip(*rows)]
    heads = "".join(f'<th scope="col"{" class=text" * is_text}>{html.escape(text)}</th>'
                    for text, is_text in zip(head, are_text))
    body = "\n".join("<tr>" + "".join(map(cell, row, are_text)) + "</tr>" for row in rows)
    return ('<div class="rows" tabindex="0" role="group" aria-label="the figures as a table">'
            f"<table><thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div>")


def figure(chart, svg):
    return (f"<figure><h2>{html.escape(chart.title)}</h2>\n{svg}\n<figcaption>"
            f"<p>{html.escape(chart.told)}</p>\n{table(*chart.table)}</figcaption></figure>")


def section(title, told, head, rows):
    words = f"<p>{html.escape(told)}</p>" if told else ""
    return f"<section><h2>{html.escape(title)}</h2>{words}\n{table(head, rows)}</section>"


def facts(pairs):
    return "<dl>" + "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(str(value))}</dd>"
                            for name, value in pairs) + "</dl>"


def settings(result):
    """Of the machine, and of what keeps an order safe."""
    pairs = [("machine", result["machine"]),
             ("Postgres", ", ".join(f"{name}={value}" for name, value in result["durability"].items()))]
    if "versions" in result:
        pairs.append(("versions", ", ".join(f"{name} {value}" for name, value in
                                            result["versions"].items())))
    return pairs


def page(title, head, parts):
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style></head>\n<body><header>"
            f"<h1>{html.escape(title)}</h1>\n{head}</header>\n<main>\n" + "\n".join(parts) +
            "\n</main>\n<footer><p>How to read it: load/README.md. The charts lie beside this page "
            "as PNG.</p></footer></body></html>\n")


# -- the proof --

KINDS = (("placed", "placed", GREEN), ("done", "done", BLUE), ("refused", "refused", GREY),
         ("failed", "unclear", RED))
UNCLEAR = ("UNKNOWN", "NOT_DONE")
DONE = ("PLACED", "REPEATED", "DONE")


def count_answers(stages):
    """placed, repeated or done, refused, unclear; as the checker counted them."""
    total = {}
    for stage in stages:
        for answer, count in stage["answers"].items():
            total[answer] = total.get(answer, 0) + count
    placed = total.get("PLACED", 0)
    done = total.get("REPEATED", 0) + total.get("DONE", 0)
    unclear = sum(total.get(answer, 0) for answer in UNCLEAR)
    refused = sum(count for answer, count in total.items() if answer not in UNCLEAR + DONE)
    return placed, done, refused, unclear


def stage_row(stage):
    return (stage["stage"], stage["verdict"], f"{stage['requests']:,}",
            *(f"{count:,}" for count in count_answers([stage])),
            f"{stage['requests_per_s']:,}", f"{stage['seconds']:.1f}")


def stage_panel(stage):
    timeline = stage["timeline"]
    return (stage["stage"], timeline["played_s"], timeline["bin_s"], timeline["answers"],
            timeline["down_s"])


def prove_stages(stages, instances):
    mine = [stage for stage in stages if stage["instances"] == instances]
    return charts.panels(
        f"stages_{instances}", f"The stages, {instances} instance{'s' if instances > 1 else ''}",
        "What was answered while each stage was played, each on its own scale. Red is the time in "
        "which what was killed was not back yet.",
        "up: answers a second; across: seconds", list(map(stage_panel, mine)),
        KINDS,
        (("stage", "verdict", "asked", "placed", "done", "refused", "unclear", "per second", "seconds"),
         list(map(stage_row, mine))))


def prove_kinds(stages):
    """All instances together."""
    names = list(dict.fromkeys(stage["stage"] for stage in stages))
    rows = [(name, count_answers([stage for stage in stages if stage["stage"] == name]))
            for name in names]
    return charts.stacked(
        "answers", "What was answered",
        "Requests of each stage by their answer, all numbers of instances together. Done is a "
        "repeated key, a cancellation or a restock; unclear is one that must be asked again.",
        "requests",
        rows, [(text, colour) for _, text, colour in KINDS],
        ("stage", *(text for _, text, _ in KINDS), "all"))


def prove_rules(result):
    return section(
        "The rules", "How often each was looked at, and how often it was found broken.",
        ("rule", "verdict", "checked", "broken"),
        [(f"{each['rule']}: {each['sentence']}", each["verdict"], f"{each['checked']:,}",
          f"{each['broken']:,}") for each in result["rules"]])


def prove_page(place):
    path = f"{place}/result.json"
    if not os.path.exists(path):
        raise harness.Failed(f"there is nothing in {place}")
    result = read(path)
    stages = result["stages"]
    drawn = [prove_kinds(stages)] + [
        prove_stages(stages, instances)
        for instances in sorted({stage["instances"] for stage in stages})]
    svgs = charts.draw(drawn, place)
    holds = result["verdict"] == "holds"
    head = (f'<p class="{"good" if holds else "bad"}">'
            f'{"Every promise held." if holds else html.escape(result["verdict"])}</p>' + facts([
                ("when", f"{result['date']}, {result['seconds']} s"),
                ("asked", f"{sum(stage['requests'] for stage in stages):,} requests in "
                          f"{len(stages)} stages"),
                ("checked", f"{sum(each['checked'] for each in result['rules']):,} facts, "
                            f"{sum(each['broken'] for each in result['rules']):,} broken")]
                + settings(result)))
    return page("seckill: the proof", head,
                [prove_rules(result)] + [figure(chart, svgs[chart.name]) for chart in drawn])


# -- the bench --

COLOURS = dict.fromkeys(("nginx", "empty", "pg_bulk", "redis_pairs", "redis_single_pairs", "limit"),
                        GREY) | {"pgbench": ORANGE} # others: the service
LATENCIES = {"half": GREEN, "eighty": ORANGE}
PERCENTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)
PROCESSES = (("app", "service", BLUE), ("postgres", "Postgres", GREEN), ("redis", "Redis", RED),
             ("load", "load", GREY))


def bench_rates(result):
    rows = []
    for what, title, *_ in results.ASKED + results.YARDSTICKS:
        rounds = result[f"{what}_per_s_rounds"]
        rows.append((title, result[f"{what}_per_s"], min(rounds), max(rounds), COLOURS.get(what, BLUE)))
    rows.sort(key=lambda row: -row[1])
    return charts.bars(
        "rates", "Throughput beside its limits",
        "Blue is the service, grey what its parts do alone, orange one order per transaction. "
        "Bars are medians; the black lines go from the lowest to the highest round. The limit is "
        "what nginx, the bulk insert and the locks would reach one after the other.",
        "per second", rows, (("what", "per second", "of the rounds"), [
            (title, f"{value:,}", f"{low:,}..{high:,}") for title, value, low, high, _ in rows]))


def bench_latency(result):
    """By the percentile, each nine as wide as the one before."""
    series, rows = [], []
    for load, title in results.LOADS:
        told, text = result["latency"][load], f"{title} of the most"
        points = [(-math.log10(1 - fraction), us / 1000)
                  for us, fraction in told["points"] if 0.3 <= fraction < 1 and us > 0]
        series.append((text, LATENCIES[load], points))
        rows.append((text, f"{told['201'] / told['seconds']:,.0f}", *(
            f"{told[name] / 1000:.2f} ms" for name in ("p50_us", "p90_us", "p99_us", "p999_us", "max_us"))))
    shown = [y for _, _, points in series for _, y in points]
    widest = max(x for _, _, points in series for x, _ in points)
    ticks = [-math.log10(1 - each) for each in PERCENTILES]
    ticks = [tick for tick in ticks if tick < widest] + [widest]
    labels = [f"{100 * each:g} %" for each in PERCENTILES[:len(ticks) - 1]] + [""]
    return charts.lines(
        "latency", "Latency of durable orders",
        "So long at most took that share of the orders, which came when they came: each one's "
        "clock runs from the time at which it was meant to be sent.",
        {"unit": "share of the orders", "ticks": ticks, "labels": labels},
        {"unit": "ms", "ticks": charts.log_ticks(min(shown), max(shown)), "log": True}, series,
        (("load", "per second", "50 %", "90 %", "99 %", "99.9 %", "longest"), rows))


def bench_stages(result):
    stages = {name: stage for name, stage in result["stages"].items() if stage["count"]}
    return charts.bars(
        "stages", "Where the time of an order goes",
        "The service's own histograms, from /metrics: bars are medians, the lines go on to the 99th "
        "percentile.", "µs",
        [(name, stage["p50_us"], stage["p50_us"], stage["p99_us"], BLUE) for name, stage in stages.items()],
        (("stage", "50 %", "99 %", "mean", "count"), [
            (name, f"{stage['p50_us']:,} µs", f"{stage['p99_us']:,} µs", f"{stage['mean_us']:,} µs",
             f"{stage['count']:,}") for name, stage in stages.items()]))


def bench_cpu(result):
    used = result["cpu_us_per_order"]
    return charts.stacked(
        "cpu", "Where the CPU time of an order goes",
        "What each process spends on one durable order.", "µs of CPU per order",
        [("an order", [used[process] for process, *_ in PROCESSES])],
        [(text, colour) for _, text, colour in PROCESSES],
        ("of", *(text for _, text, _ in PROCESSES), "all"))


SERIES = (("orders", "durable orders", BLUE), ("refusals", "refusals", ORANGE),
          ("keyed_refusals", "keyed refusals", PURPLE))


def growth_chart(number, dimension):
    """Its points one beside the other, however far apart they are: the first may be 0."""
    points = dimension["points"]
    series, rows = [], []
    for what, text, colour in SERIES:
        if f"{what}_per_s" not in points[0]:
            continue
        prefix = "" if what == "orders" else f"{what}_"
        drawn = []
        for at, point in enumerate(points):
            value, rounds = point[f"{what}_per_s"], point[f"{prefix}rounds"]
            drawn.append((at, value, min(rounds), max(rounds)))
            rows.append((f"{point['x']:,}", text, f"{value:,}", f"{min(rounds):,}..{max(rounds):,}",
                         f"{point[f'{prefix}p99_us'] / 1000:.1f} ms", f"{point[f'{prefix}ratio']:.2f}"))
        series.append((text, colour, drawn))
    top = max(high for _, _, drawn in series for *_, high in drawn)
    return charts.lines(
        f"growth_{number}", f"Growth: {dimension['name']}",
        "Medians, with the lowest and the highest round. The table's ratio is to the first point.",
        {"unit": dimension["unit"], "ticks": list(range(len(points))),
         "labels": [f"{point['x']:,}" for point in points], "pad": 0.3},
        {"unit": "per second", "ticks": charts.nice_ticks(top)}, series,
        ((dimension["unit"], "what", "per second", "rounds", "p99", "ratio"), rows))


def growth_charts(growth):
    return [growth_chart(number, dimension)
            for number, dimension in enumerate(growth["dimensions"])]


# -- the soak --

def order_rates(samples):
    """Between each two samples, of the instances that lived through both."""
    rates = []
    for last, now in zip(samples, samples[1:]):
        placed = [after["answers"].get("201", 0) - before["answers"].get("201", 0)
                  for before, after in zip(last["instances"], now["instances"])
                  if before and after and before["pid"] == after["pid"]]
        rates.append((now["at_s"] / 60, sum(placed) / (now["at_s"] - last["at_s"])))
    return rates


def over_time(samples, look):
    """Of the samples in which it answered."""
    points = []
    for sample in samples:
        try:
            points.append((sample["at_s"] / 60, look(sample)))
        except TypeError: # there is None
            pass
    return points


def soak_chart(name, title, told, unit, series, soak, log=False):
    values = [y for _, _, points in series for _, y in points]
    ticks = charts.log_ticks(min(values), max(values)) if log else charts.nice_ticks(max(values))
    marks = [(fault["at_s"] / 60, str(number)) for number, fault in enumerate(soak["faults"], 1)]
    rows = [(text, *(charts.number(look([y for _, y in points]))
                     for look in (min, statistics.median, max))) for text, _, points in series]
    return charts.lines(
        name, title, told, {"unit": "minutes", "ticks": charts.nice_ticks(soak["minutes"])},
        {"unit": unit, "ticks": ticks, "log": log}, series,
        ((unit, "lowest", "median", "highest"), rows), marks)


def soak_charts(soak):
    samples = soak["samples"]
    slice_min = soak["minutes"] / len(soak["slices"])
    return [
        soak_chart("soak_rate", "Soak: orders", "Durable orders, of both instances together. "
                   "Numbered lines are faults.", "orders a second",
                   [("orders", BLUE, order_rates(samples))], soak),
        soak_chart("soak_p99", "Soak: the slowest hundredth", "The 99th percentile of each "
                   f"{60 * slice_min:.0f} seconds, of the slower client; waiting counts from the "
                   "time at which a request was meant to be sent.", "p99 in ms",
                   [("p99", ORANGE, [((at + 0.5) * slice_min, max(each["p99_us"], 1) / 1000)
                                     for at, each in enumerate(soak["slices"])])], soak, log=True),
        soak_chart("soak_memory", "Soak: memory", "Each instance's proportional share (PSS), and "
                   "what Redis says it uses.", "MiB", [
                       ("instance 1", BLUE, over_time(samples, lambda s: s["instances"][0]["pss_kib"] / 1024)),
                       ("instance 2", GREEN, over_time(samples, lambda s: s["instances"][1]["pss_kib"] / 1024)),
                       ("Redis", RED, over_time(samples, lambda s: s["redis"]["bytes"] / 2**20))], soak),
        soak_chart("soak_fds", "Soak: what is open", "File descriptors of each instance, and the "
                   "connections that the servers count.", "open", [
                       ("instance 1", BLUE, over_time(samples, lambda s: s["instances"][0]["fds"])),
                       ("instance 2", GREEN, over_time(samples, lambda s: s["instances"][1]["fds"])),
                       ("Redis", RED, over_time(samples, lambda s: s["redis"]["clients"])),
                       ("Postgres", ORANGE, over_time(samples, lambda s: s["postgres"]["connections"]))],
                   soak)]


def soak_tables(soak):
    return [
        section("Soak: the faults", f"{soak['minutes']} min at {soak['offered_per_s']:,} requests a second, "
                f"of {soak['maximum_per_s']:,} that were possible.",
                ("what", "number", "at", "until all ran again"),
                [(fault["what"], str(number), f"{fault['at_s']:.0f} s", f"{fault['took_s']:.1f} s")
                 for number, fault in enumerate(soak["faults"], 1)]),
        section("Soak: what is left of it", "The end of the warm-up beside the end of the calm.",
                ("what", "verdict", "warm-up", "end", "may be"),
                [(check["name"], judge(check["met"]), str(check["early"]), str(check["late"]),
                  check["bound"]) for check in soak["checks"]])]


# -- the bench page --

def judge(holds):
    return "met" if holds else "missed"


def goal_row(text, value, kind, goal):
    holds = value >= goal if kind == "at least" else value <= goal
    return text, judge(holds), charts.number(value), f"{kind} {goal:g}"


def goal_rows(bench, growth):
    rows = []
    if bench:
        rows += [goal_row(f"{title}, by {base}", bench[f"{what}_ratio_{base}"], "at least", goal)
                 for what, title, base, goal in results.ASKED if goal]
        rows += [goal_row(title, bench[field], kind, goal)
                 for kind, goals in (("at least", results.GOALS), ("at most", results.CEILINGS))
                 for field, title, goal in goals]
    for dimension in growth["dimensions"] if growth else []:
        if dimension["goal"]:
            last = dimension["points"][-1]
            rows.append(goal_row(f"orders at {last['x']:,} {dimension['name']}, by the first",
                                 last["ratio"], "at least", dimension["goal"]))
    return rows


def bench_charts(result):
    return [bench_rates(result), bench_latency(result), bench_stages(result), bench_cpu(result)]


def run_facts(result, first, path):
    """When it was, how long, and what was set otherwise than in the first run told of."""
    words = [time.strftime("%Y-%m-%d %H:%M", time.localtime(os.path.getmtime(path)))]
    if "rounds" in result:
        words.append(f"{result['rounds']} x {result['seconds']} s each")
    if result["machine"] != first["machine"]:
        words.append(result["machine"])
    words += [f"{name}={value}" for name, value in result["durability"].items()
              if first["durability"].get(name) != value]
    return ", ".join(words)


def bench_page(place):
    """Of what there is: the bench, the growth and the soak are runs of their own."""
    paths = {what: f"{place}/{name}.json" for what, name in
             (("bench", "result"), ("growth", "growth"), ("soak", "soak"))}
    runs = {what: read(path) for what, path in paths.items() if os.path.exists(path)}
    if not runs:
        raise harness.Failed(f"there is nothing in {place}")
    bench, growth, soak = map(runs.get, paths)
    drawn = bench_charts(bench) if bench else []
    drawn += growth_charts(growth) if growth else []
    drawn += soak_charts(soak) if soak else []
    svgs = charts.draw(drawn, place)
    goals = goal_rows(bench, growth)
    parts = [section("Goals", "", ("what", "verdict", "measured", "goal"), goals)] if goals else []
    parts += [figure(chart, svgs[chart.name]) for chart in drawn]
    parts += soak_tables(soak) if soak else []
    first = next(iter(runs.values()))
    return page("seckill: the bench", facts(settings(first) + [
        (what, run_facts(result, first, paths[what])) for what, result in runs.items()]), parts)


# -- all of it --

def read(path):
    with open(path) as file:
        return json.load(file)


PAGES = {"bench": bench_page, "prove": prove_page}


def write_page(what, place=None):
    """index.html in `place`, or var/WHAT; tells where it is, or why there is none."""
    place = place or f"var/{what}"
    try:
        text = PAGES[what](place)
    except harness.Failed as failure:
        print(f"pictures: none, {failure}")
        return
    with open(f"{place}/index.html", "w") as out:
        out.write(text)
    print(f"pictures: {place}/index.html")


if __name__ == "__main__":
    write_page(sys.argv[1])
