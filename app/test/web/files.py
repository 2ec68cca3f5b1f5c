"""files.py - how the files of the pages are served."""

import gzip
import re

FILES = ("/", "/admin", "/docs", "/web/docs.css", "/web/shop.css", "/web/admin.css", "/web/shop.js", "/web/buy.js",
         "/web/card.js", "/web/orders.js", "/web/shopper.js", "/web/ticket.js", "/web/solver.js", "/web/common.js", "/web/i18n.js", "/web/shop_texts.js", "/web/admin.js", "/web/admin_texts.js", "/web/charts.js", "/web/stats.js",
         "/web/forms.js", "/web/find.js", "/web/history.js", "/web/problems.js", "/web/dygraphs.js", "/web/icon.svg")
TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8",
         "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


def test_files__come_packed_and_plain_with_a_tag_each(world):
    for path in FILES:
        status, headers, plain = world.raw("GET", path)
        kind = path.rsplit(".", 1)[1] if "." in path else "html"
        assert (status, headers["Content-Type"]) == (200, TYPES[kind]), path
        assert "Content-Encoding" not in headers
        status, packed_headers, packed = world.raw("GET", path, {"Accept-Encoding": "br, gzip"})
        assert (status, packed_headers["Content-Encoding"]) == (200, "gzip"), path
        assert gzip.decompress(packed) == plain and len(packed) < len(plain), path
        assert packed_headers["ETag"] != headers["ETag"]
        assert headers["Vary"] == packed_headers["Vary"] == "Accept-Encoding"
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_other_names__are_not_found(world):
    for path in ("/web/", "/web", "/web/shop", "/web/../openapi.yaml", "/web/%2e%2e/openapi.yaml",
                 "/web/shop.js.gz.gz", "/web/" + "x" * 300, "/admin/"):
        assert world.raw("GET", path)[0] == 404, path
    assert world.raw("POST", "/")[0] == 405


def test_policy__lets_no_inline_script_or_style_run(world):
    for path in ("/", "/admin", "/docs"):
        _, headers, body = world.raw("GET", path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        text = body.decode()
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:", text), path


def test_size__of_the_first_visit_stays_small(world):
    packed = {path: len(world.raw("GET", path, {"Accept-Encoding": "gzip"})[2]) for path in FILES}
    shop = sum(packed[path] for path in ("/", "/web/icon.svg", "/web/shop.css", *(
        f"/web/{name}.js" for name in ("shop", "shopper", "orders", "card", "buy", "ticket", "common", "i18n", "shop_texts"))))
    print(f"over the wire: the shop {shop} bytes, all files {sum(packed.values())}")
    docs = packed["/docs"] + packed["/web/docs.css"]
    assert shop < 24 * 1024, packed
    assert docs < 12 * 1024, packed
    assert sum(packed.values()) - docs < 80 * 1024, packed
