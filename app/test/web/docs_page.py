"""docs_page.py - the page /docs, which shows the contract."""

import re

import harness
from browser import DESK, PHONE

CONTRACT = f"{harness.LOAD}/../app/api/openapi.yaml"


def test_docs__show_every_call_and_run_no_script(world):
    with open(CONTRACT) as file:
        contract = file.read()
    summaries = re.findall(r"^      summary: '?(.*?)'?$", contract, re.M)
    codes = re.search(r"enum: \[(bad_request.*?)\]", contract, re.S)[1].replace("\n", " ").split(",")
    world.browser.resize(DESK)
    world.browser.driver.get(f"{world.url}/docs")
    text = world.browser.js("return document.body.textContent")
    assert len(summaries) > 20
    assert [each for each in summaries if each not in text] == []
    assert [each.strip() for each in codes if each.strip() not in text] == []
    bodies, = world.browser.js("""return [[...document.querySelectorAll('h4')].filter((head) =>
        head.textContent.startsWith('Body') && !head.nextElementSibling.textContent.includes('Member')).length]""")
    assert bodies == 0, "a body without a table of its members"
    assert world.browser.js("return document.scripts.length") == 0
    world.browser.screenshot("api", 900)


def test_docs__lead_from_the_shop_to_each_call(world):
    world.browser.open(world.url)
    world.browser.one("footer a[href='/docs']").click()
    world.browser.one("nav a")
    links = world.browser.js("return [...document.querySelectorAll('nav a')].map((each) => each.hash.slice(1))")
    assert len(links) > 20
    assert world.browser.js("return arguments[0].filter((id) => document.getElementById(id) === null)", links) == []


def test_docs__fit_a_phone(world):
    world.browser.resize(PHONE)
    world.browser.driver.get(f"{world.url}/docs")
    world.browser.one("nav a")
    assert world.browser.js("return document.documentElement.scrollWidth <= innerWidth")
    world.browser.resize(DESK)
