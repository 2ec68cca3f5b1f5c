"""access.py - the accessibility of the pages, checked by axe-core, which npm provides.

Its rules for WCAG 2.2 A and AA and its best practices must find nothing."""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile

from browser import DESK, PHONE
from dashboard import open_dashboard, row
from shop import Shop

VERSION = "4.10.3"
SHA256 = "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb"
PLACE = "var/axe"


def fetch_axe():
    """The text of axe-core, or None if npm is not available."""
    script = f"{PLACE}/axe-{VERSION}.min.js"
    if not os.path.exists(script):
        if shutil.which("npm") is None:
            return None
        os.makedirs(PLACE, exist_ok=True)
        got = subprocess.run(["npm", "pack", "--silent", f"axe-core@{VERSION}"], cwd=PLACE,
                             capture_output=True, text=True, timeout=60, check=False)
        if got.returncode != 0:
            return None
        with tarfile.open(f"{PLACE}/axe-core-{VERSION}.tgz") as archive:
            text = archive.extractfile("package/axe.min.js").read()
        with open(script, "wb") as out:
            out.write(text)
    with open(script, "rb") as file:
        text = file.read()
    assert hashlib.sha256(text).hexdigest() == SHA256, f"{script} is not what it should be"
    return text.decode()


def check(world, what, least=15):
    """Apply the rules to the page. More than `least` rules must apply to some element."""
    world.browser.js(world.axe)
    found = world.browser.driver.execute_async_script("""
        const done = arguments[arguments.length - 1];
        axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
                 resultTypes: ['violations']}) // the other results name one node each
            .then((result) => done({passes: result.passes.length, violations: result.violations.map((each) =>
                ({id: each.id, nodes: each.nodes.map((node) => [node.html.slice(0, 160), node.failureSummary])}))}));""")
    assert found["violations"] == [], f"{what}: {json.dumps(found['violations'], indent=1)}"
    assert found["passes"] > least, found # the rules were applied
    print(f"axe-core {VERSION}: {what}: {found['passes']} rules passed, none violated")


def test_shop__has_no_violations(world):
    shop = Shop(world, stock=5)
    check(world, "shop")
    shop.buy()
    check(world, "shop with an order")
    world.browser.be_dark(True)
    check(world, "shop, dark")
    world.browser.resize(PHONE)
    check(world, "shop, dark, phone")
    world.browser.one("#orders .order button:nth-of-type(2)").click()
    check(world, "shop, dialog")
    world.browser.be_dark(False)
    world.browser.resize(DESK)


def test_shop__in_chinese_has_no_violations(world):
    browser, world.browser = world.browser, world.chinese()
    try:
        shop = Shop(world, stock=5)
        check(world, "shop in Chinese")
        shop.press()
        world.browser.wait_text(shop.message, "抢到了")
        check(world, "shop in Chinese, with an order")
    finally:
        world.browser = browser


def test_docs__have_no_violations(world):
    for size in (DESK, PHONE):
        world.browser.resize(size)
        world.browser.driver.get(f"{world.url}/docs")
        check(world, "API description", least=10)
    world.browser.resize(DESK)


def test_dashboard__has_no_violations(world):
    voucher = world.voucher(stock=3)
    world.browser.open(f"{world.url}/admin")
    world.browser.wait_text("#signin", "Sign in")
    check(world, "dashboard, sign-in")
    browser = open_dashboard(world)
    check(world, "dashboard")
    browser.be_dark(True)
    check(world, "dashboard, dark")
    browser.be_dark(False)
    browser.one("#create").click()
    browser.one("dialog[open] button.main").click()
    browser.wait_text("#e-title", "1")
    check(world, "dashboard, form with faults")
    browser.one("dialog[open] .close").click()
    browser.one(f"{row(voucher)} button:nth-of-type(2)").click()
    check(world, "dashboard, restock")


def test_dashboard__with_an_incident_has_no_violations(world):
    browser = open_dashboard(world)
    world.servers("stop", "redis")
    try:
        browser.wait_text("#problems", "Redis has been away")
        check(world, "dashboard, Redis is away")
    finally:
        world.servers("start", "redis")
    browser.wait_text("#health", "Redis up")
