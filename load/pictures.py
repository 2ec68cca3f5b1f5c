#!/usr/bin/env -S python3 -B
"""pictures.py bench|prove - draw what was measured, or proved.

Reads the figures that bench.py, growth.py and soak.py, or prove.py, left in var/bench or
var/prove, and writes index.html there: one page that needs nothing else, for a browser on a
phone or a desk, light or dark. The same charts lie beside it as PNG. The figures stand below
each picture as a table; load/README.md says how to read them."""

import html
import json
import os
import shutil
import sys

import charts
import house
from charts import BLUE, GREEN, GREY, RED

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
th, td { text-align: right; padding: .2rem .75rem .2rem 0; border-bottom: 1px solid var(--line);
         vertical-align: top; white-space: nowrap; }
td.long { white-space: normal; min-width: 13rem; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--quiet); font-weight: normal; }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
footer { margin-top: 2rem; color: var(--quiet); }
"""
GOOD = ("met", "holds")
BAD = ("missed", "broken", "incomplete")


# -- the page ------------------------------------------------------------------------------

def cell(text):
    kind = "good" if text in GOOD else "bad" if text in BAD else "long" if len(text) > 40 else ""
    return f'<td class="{kind}">{html.escape(text)}</td>' if kind else f"<td>{html.escape(text)}</td>"


def table(head, rows):
    heads = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in head)
    body = "\n".join("<tr>" + "".join(map(cell, row)) + "</tr>" for row in rows)
    return (f'<div class="rows" tabindex="0" role="group" aria-label="table: {html.escape(head[0])}">'
            f"<table><thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div>")


def figure(chart, svg):
    return (f"<figure><h2>{html.escape(chart.title)}</h2>\n{svg}\n<figcaption>"
            f"<p>{html.escape(chart.told)}</p>\n{table(*chart.table)}</figcaption></figure>")


def section(title, told, head, rows):
    return (f"<section><h2>{html.escape(title)}</h2><p>{html.escape(told)}</p>\n"
            f"{table(head, rows)}</section>")


def facts(pairs):
    return "<dl>" + "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(str(value))}</dd>"
                            for name, value in pairs) + "</dl>"


def settings(result):
    """Of the machine, and of what keeps an order safe."""
    return [("machine", result["machine"]),
            ("Postgres", ", ".join(f"{name}={value}" for name, value in result["durability"].items())),
            ("versions", ", ".join(f"{name} {value}" for name, value in result["versions"].items()))]


def page(title, head, parts):
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style></head>\n<body><header>"
            f"<h1>{html.escape(title)}</h1>\n{head}</header>\n<main>\n" + "\n".join(parts) +
            "\n</main>\n<footer><p>How to read it: load/README.md. The charts lie beside this page "
            "as PNG.</p></footer></body></html>\n")


# -- the proof -----------------------------------------------------------------------------

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


def prove_page(result, place):
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


# -- all of it -----------------------------------------------------------------------------

def read(path):
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return json.load(file)


def write_page(what):
    """index.html in var/WHAT; tells where it is."""
    if not shutil.which("gnuplot"):
        print("pictures: none, gnuplot is missing")
        return
    place = f"var/{what}"
    text = prove_page(read(f"{place}/result.json"), place)
    with open(f"{place}/index.html", "w") as out:
        out.write(text)
    print(f"pictures: {place}/index.html")


if __name__ == "__main__":
    try:
        write_page(sys.argv[1])
    except house.Failed as failure:
        sys.exit(f"pictures: {failure}")
