"""api_page.py - the contract as one page, which `make api-docs` renders."""

import os

import harness
from browser import DESK

ROOT = os.path.abspath(f"{harness.LOAD}/..")


def test_api_page__shows_every_operation_and_loads_nothing(world):
    page = os.path.abspath(f"{world.directory}/api.html")
    harness.run(f"{ROOT}/docker/api-docs.sh", page)
    world.browser.resize(DESK)
    world.browser.driver.get(f"file://{page}")
    world.browser.wait("the page is rendered", lambda: world.browser.js(
        "return document.querySelectorAll('[data-section-id]').length > 20"))
    text = world.browser.js("return document.body.textContent")
    with open(f"{ROOT}/app/api/openapi.yaml") as contract:
        summaries = [line.split("summary: ", 1)[1].strip() for line in contract if line.startswith("      summary: ")]
    assert len(summaries) > 20
    assert [each for each in summaries if each not in text] == []
    loaded = world.browser.js("return performance.getEntriesByType('resource').map((each) => each.name)")
    loaded = [each for each in loaded if not each.startswith(("blob:", "data:"))]
    assert loaded == [], loaded
    world.browser.screenshot("api", 900)
