"""Tests of pictures.py: pages made of small samples, read as a browser would read them. They
draw, so they need gnuplot."""

import contextlib
import html.parser
import io
import json
import os
import re
import tempfile
import unittest
import unittest.mock

import results
import pictures

VOID = {"meta", "link", "br", "img", "input"}
FACTS = {"machine": "2 x <Some> & Processor", "durability": {"fsync": "on"},
         "versions": {"seckill": "1.2.3"}}
RULES = [{"rule": "stock", "checked": 61234, "broken": 0, "verdict": "holds", "sentence": "no row"}]


class Page(html.parser.HTMLParser):
    """Fails where a tag is left open; gathers what the tests ask for."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.words = [], [], [], [], []
        self.feed(text)
        self.close()
        if self.open:
            raise AssertionError(f"left open: {self.open}")
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name in ("href", "src", "xlink:href"):
                self.links.append(value)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing, line {self.getpos()}")

    def handle_data(self, data):
        self.words.append(data)


RATES = [what for what, *_ in results.ASKED + results.YARDSTICKS]


def rates():
    told = {}
    for number, what in enumerate(RATES, 1):
        told[f"{what}_per_s"] = 11_111 * number
        told[f"{what}_per_s_rounds"] = [11_000 * number, 12_000 * number]
    told.update({f"{what}_ratio_{base}": 0.123 for what, _, base, _ in results.ASKED if base})
    return told


def latency(slowness):
    points = [[int(slowness * 1000 * (1 + number)), 1 - (5 / 6) ** number] for number in range(60)]
    return {"points": points + [[99_000, 1]], "201": 24_680, "seconds": 4, "p50_us": 1111 * slowness,
            "p90_us": 2222 * slowness, "p99_us": 3333 * slowness, "p999_us": 4444 * slowness,
            "max_us": 99_000}


def bench():
    return {**FACTS, **rates(), "latency": {"half": latency(1), "eighty": latency(2)},
            "stages": {"lock": {"count": 123_456, "mean_us": 345, "p50_us": 234, "p99_us": 1789},
                       "wait": {"count": 0}},
            "cpu_us_per_order": {"app": 9.5, "postgres": 14.25, "redis": 3, "load": 5},
            "rounds": 3, "seconds": 4, "connections": 256, "refusals_ratio_nginx": 0.93,
            "orders_ratio_limit": 0.84, "orders_ratio_pgbench": 45.6, "p99_ms_half_load": 9.9,
            "p999_ms_half_load": 25.1, "single_ratio": 1.44}


def growth():
    def point(x, rate):
        return {"x": x, "orders_per_s": rate, "rounds": [rate - 100, rate + 100], "p99_us": 8765,
                "ratio": rate / 50_000, "refusals_per_s": 3 * rate, "refusals_rounds": [3 * rate],
                "refusals_p99_us": 4321, "refusals_ratio": 1}

    return {**FACTS, "durability": {"fsync": "on", "shared_buffers": "6GB"}, "dimensions": [{
        "name": "orders in the table", "unit": "orders", "goal": 0.9,
        "points": [point(0, 50_000), point(10_000_000, 46_000)]}]}


def soak():
    def sample(at_s, pid):
        instance = {"pid": pid, "pss_kib": 20_480, "fds": 77, "answers": {"201": 1000 * at_s}}
        return {"at_s": at_s, "instances": [instance if pid else None, dict(instance, pid=9)],
                "redis": {"clients": 5, "bytes": 2**20} if pid else None,
                "postgres": {"connections": 12}}

    return {**FACTS, "minutes": 1, "offered_per_s": 31_000, "maximum_per_s": 44_000,
            "faults": [{"what": "kill -9 of <Redis>", "at_s": 2, "took_s": 1.5}],
            "checks": [{"name": "locks in Redis", "early": "", "late": 3, "bound": "0", "met": False}],
            "slices": [{"p99_us": 150_000}, {"p99_us": 900_000}],
            "samples": [sample(1, 7), sample(2, 0), sample(3, 8), sample(4, 8)]}


def stage(name, instances, **more):
    bins = {kind: [number, 0, 5] for number, (kind, *_) in enumerate(pictures.KINDS)}
    return {"stage": name, "instances": instances, "requests": 7777, "requests_per_s": 5432,
            "seconds": 1.5, "verdict": "holds",
            "answers": {"PLACED": 1001, "REPEATED": 200, "DONE": 2, "SOLD_OUT": 6000, "UNKNOWN": 574},
            "timeline": {"played_s": 1.43, "bin_s": 0.477, "answers": bins, "down_s": []}, **more}


def prove(**more):
    down = dict(stage("kill redis", 2)["timeline"], down_s=[0.2, 0.9])
    return {**FACTS, "date": "2030-01-02T03:04:05Z", "seconds": 90, "verdict": "holds", "rules": RULES,
            "stages": [stage("opening", 1), stage("opening", 2),
                       stage("kill redis", 2, timeline=down)], **more}


class PicturesTest(unittest.TestCase):
    def setUp(self):
        back = os.getcwd()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.addCleanup(os.chdir, back)
        os.chdir(place.name)

    def put(self, what, **results):
        os.makedirs(f"var/{what}", exist_ok=True)
        for name, result in results.items():
            with open(f"var/{what}/{name}.json", "w") as out:
                json.dump(result, out)

    def write(self, what, **results):
        """The page of these results."""
        self.put(what, **results)
        with contextlib.redirect_stdout(io.StringIO()) as told:
            pictures.write_page(what)
        self.assertEqual(told.getvalue(), f"pictures: var/{what}/index.html\n")
        with open(f"var/{what}/index.html") as page:
            self.source = page.read()
        return Page(self.source)

    def assert_shows(self, page, *figures):
        for text in figures:
            self.assertIn(text, page.text)

    def pngs(self, what):
        names = [name for name in os.listdir(f"var/{what}") if name.endswith(".png")]
        for name in names:
            with open(f"var/{what}/{name}", "rb") as png:
                self.assertEqual(png.read(8), b"\x89PNG\r\n\x1a\n")
        return len(names)

    def test_write_page__of_the_bench_shows_every_figure(self):
        page = self.write("bench", result=bench(), growth=growth(), soak=soak())
        self.assert_shows(page, *(f"{11_111 * number:,}" for number in range(1, len(RATES) + 1)),
                          "11,000..12,000", "6,170 1.11 ms", "6.67 ms", "99.00 ms", "14.2", "31.8",
                          "3 x 4 s each", "fsync=on", "seckill 1.2.3",
                          "lock 234 µs 1,789 µs 345 µs 123,456", "2 x <Some> & Processor")
        self.assert_shows(page, "shared_buffers=6GB", "10,000,000", "45,900..46,100", "8.8 ms", "0.92",
                          "138,000", "4.3 ms")
        self.assert_shows(page, "kill -9 of <Redis>", "1.5 s", "31,000 requests", "900", "77", "12")

    def test_write_page__shows_the_lowest_tick_of_a_logarithmic_axis(self):
        self.write("bench", soak=soak())
        svg = self.source.split("'soak_p99-title'>")[1].split("</svg>")[0]
        self.assertIn(">100</text>", svg)

    def test_write_page__of_the_bench_tells_which_goals_are_met(self):
        page = self.write("bench", result=bench(), growth=growth())
        for verdict, value, goal in (
                ("met", "0.93", "at least 0.9"), ("missed", "0.84", "at least 0.85"),
                ("met", "45.6", "at least 20"), ("met", "9.9", "at most 10"),
                ("missed", "25.1", "at most 25"), ("met", "1.44", "at most 1.5")):
            self.assert_shows(page, f"{verdict} {value} {goal}")
        self.assert_shows(page, "orders at 10,000,000 orders in the table, by the first met 0.92 at least 0.9")

    def test_write_page__of_the_bench_does_without_growth_and_soak(self):
        page = self.write("bench", result=bench())
        self.assertEqual(page.tags.count("svg"), 4)
        self.assertNotIn("Growth", page.text)
        self.assertNotIn("Soak", page.text)

    def test_write_page__of_growth_or_soak_alone_does_without_the_bench(self):
        self.assertEqual(self.write("bench", growth=growth()).tags.count("svg"), 1)
        os.remove("var/bench/growth.json")
        self.assertEqual(self.write("bench", soak=soak()).tags.count("svg"), 4)

    def test_write_page__says_that_nothing_was_measured(self):
        for what in ("bench", "prove"):
            with contextlib.redirect_stdout(io.StringIO()) as told:
                pictures.write_page(what)
            self.assertEqual(told.getvalue(), f"pictures: none, there is nothing in var/{what}\n")

    def test_write_page__says_that_gnuplot_is_missing(self):
        with unittest.mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            with contextlib.redirect_stdout(io.StringIO()) as told:
                self.put("bench", result=bench())
                pictures.write_page("bench")
        self.assertEqual(told.getvalue(), "pictures: none, gnuplot is missing\n")
        self.assertFalse(os.path.exists("var/bench/index.html"))

    def test_write_page__of_the_proof_shows_every_stage_and_rule(self):
        page = self.write("prove", result=prove())
        self.assert_shows(page, "Every promise held.", "2030-01-02T03:04:05Z, 90 s",
                          "23,331 requests in 3 stages", "stock: no row holds 61,234 0",
                          "The stages, 1 instance ", "The stages, 2 instances",
                          "kill redis holds 7,777 1,001 202 6,000 574 5,432 1.5",
                          "opening 2,002 404 12,000 1,148 15,554") # of one and of two instances
        self.assertEqual(page.text.count("kill redis holds"), 1) # among those of its instances
        self.assertEqual(page.tags.count("svg"), 3)

    def test_write_page__of_the_proof_says_what_is_broken(self):
        broken = prove(verdict="a rule is broken", stages=[stage("opening", 1, verdict="broken")],
                       rules=[dict(RULES[0], broken=3, verdict="broken")])
        page = self.write("prove", result=broken)
        self.assert_shows(page, "a rule is broken", "stock: no row broken 61,234 3", "opening broken")
        self.assertNotIn("Every promise held", page.text)

    def test_write_page__needs_nothing_else(self):
        for what, results in (("bench", {"result": bench(), "growth": growth(), "soak": soak()}),
                              ("prove", {"result": prove()})):
            page = self.write(what, **results)
            namespaces = set(re.findall(r"""https?://[^"' )<]*""", self.source))
            self.assertEqual(namespaces, {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"})
            self.assertEqual([link for link in page.links if not link.startswith("#")], [])
            self.assertEqual([link for link in page.links if link[1:] not in page.ids], [])
            self.assertEqual(len(page.ids), len(set(page.ids)))
            self.assertNotIn("script", page.tags)
            self.assertNotIn("url(", self.source)

    def test_write_page__draws_each_chart_for_the_page_and_beside_it(self):
        for what, results in (("bench", {"result": bench(), "growth": growth(), "soak": soak()}),
                              ("prove", {"result": prove()})):
            page = self.write(what, **results)
            count = page.tags.count("figure")
            self.assertGreater(count, 0)
            self.assertEqual([page.tags.count(tag) for tag in ("svg", "figcaption", "desc")], 3 * [count])
            self.assertEqual(self.source.count("role='img'"), count)
            self.assertEqual(self.pngs(what), count)

    def test_write_page__is_dark_where_the_browser_is(self):
        self.write("bench", result=bench(), growth=growth(), soak=soak())
        self.assertIn("prefers-color-scheme: dark", self.source)
        self.assertEqual(re.findall(r"rgb\( *0, *0, *0\)|[\"'](?:black|white)[\"']", self.source), [])


if __name__ == "__main__":
    unittest.main()
