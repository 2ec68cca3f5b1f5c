"""api_page.py - the page of the contract, which `make api-docs` renders."""

import os

import harness
from access import check
from browser import DESK, PHONE

ROOT = os.path.abspath(f"{harness.LOAD}/..")


def open_page(world):
    page = os.path.abspath(f"{world.directory}/api.html")
    if not os.path.exists(page):
        harness.run(f"{ROOT}/docker/api-docs.sh", page)
    world.browser.resize(DESK)
    world.browser.driver.get(f"file://{page}")
    world.browser.wait("the page is rendered", lambda: world.browser.js(
        "return document.querySelectorAll('[data-section-id]').length > 20"))


def test_api_page__shows_every_operation_and_loads_nothing(world):
    open_page(world)
    text = world.browser.js("return document.body.textContent")
    with open(f"{ROOT}/app/api/openapi.yaml") as contract:
        summaries = [line.split("summary: ", 1)[1].strip() for line in contract if line.startswith("      summary: ")]
    assert len(summaries) > 20
    assert [each for each in summaries if each not in text] == []
    loaded = world.browser.js("return performance.getEntriesByType('resource').map((each) => each.name)")
    loaded = [each for each in loaded if not each.startswith(("blob:", "data:"))]
    assert loaded == [], loaded
    world.browser.screenshot("api", 900)


def test_api_page__has_no_violations(world):
    open_page(world)
    check(world, "API page")
    conflict = next(each for each in world.browser.all("[data-section-id$=placeOrder] button") if each.text.startswith("409"))
    conflict.click()
    world.browser.wait("it is open", lambda: conflict.get_attribute("aria-expanded") == "true")
    check(world, "API page, an answer opened")
    world.browser.resize(PHONE)
    check(world, "API page, phone")
    world.browser.resize(DESK)


def test_api_page__that_is_not_rendered_has_no_violations(world):
    world.browser.driver.get(f"file://{ROOT}/docker/docs/index.html")
    check(world, "API page, not rendered", least=10)
