"""Tests of charts.py: how numbers and ticks are chosen, and what becomes of gnuplot's SVG.
Whole charts are drawn in test_pictures.py."""

import unittest

import charts

SVG = """<?xml version="1.0"?>
<svg viewBox="0 0 1 1" xmlns="http://www.w3.org/2000/svg">
<title>chart</title><desc>Produced by GNUPLOT</desc>
<g id="gnuplot_canvas"><defs><circle id='gpDot'/><filter id='box'><feFlood/></filter></defs>
<g color="black" stroke="currentColor"><g fill="none">
</g></g>
<g fill="black" stroke='rgb(  0,   0,   0)'><text>black or white</text></g>%s
</g></svg>"""


def embed(more=""):
    return charts.embed(SVG % more, charts.Chart("one", "A < B", "It's \\1 & more", 100, [], None))


class NumbersTest(unittest.TestCase):
    def test_number__is_what_people_read(self):
        self.assertEqual([charts.number(value) for value in (0, 51234.4, 7, 12.34, 0.3541, 1.0)],
                         ["0", "51,234", "7", "12.3", "0.354", "1"])

    def test_nice_ticks__reach_the_top_in_round_steps(self):
        self.assertEqual(charts.nice_ticks(51_234), [0, 20_000, 40_000, 60_000])
        self.assertEqual(charts.nice_ticks(50), [0, 10, 20, 30, 40, 50])
        self.assertEqual(charts.nice_ticks(0), charts.nice_ticks(1))

    def test_log_ticks__enclose_what_is_shown(self):
        self.assertEqual(charts.log_ticks(1.6, 17), [1, 2, 5, 10, 20])
        self.assertEqual(charts.log_ticks(4, 1400), [1, 10, 100, 1000, 10_000])

    def test_quote__lets_gnuplot_read_nothing_into_it(self):
        self.assertEqual(charts.quote("it's `ls`\n"), "'it''s `ls` '")


class EmbedTest(unittest.TestCase):
    def test_embed__names_it_and_keeps_its_ids_its_own(self):
        svg = embed()
        self.assertTrue(svg.startswith("<svg"))
        self.assertIn("role='img' aria-labelledby='one-title' aria-describedby='one-desc'", svg)
        self.assertIn("<title id='one-title'>A &lt; B</title>", svg)
        self.assertIn("<desc id='one-desc'>It&#x27;s \\1 &amp; more</desc>", svg)
        self.assertIn('id="one-gnuplot_canvas"', svg)
        self.assertNotIn("GNUPLOT", svg)

    def test_embed__draws_black_in_the_colour_of_the_text(self):
        self.assertIn('<g fill="currentColor" stroke=\'currentColor\'><text>black or white</text>',
                      embed())

    def test_embed__leaves_out_what_is_empty_or_unused(self):
        self.assertNotIn('fill="none"', embed())
        self.assertNotIn("stroke=\"currentColor\"", embed())
        self.assertNotIn("<defs>", embed())

    def test_embed__keeps_the_points_that_are_used(self):
        svg = embed("<use xlink:href='#gpDot'/>")
        self.assertIn("<circle id='one-gpDot'/>", svg)
        self.assertIn("<use xlink:href='#one-gpDot'/>", svg)
        self.assertNotIn("<filter", svg)


if __name__ == "__main__":
    unittest.main()
