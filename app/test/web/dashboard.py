"""dashboard.py - the dashboard as an operator meets it."""

import os
import re
import subprocess

import harness
from browser import DESK, PHONE

EXPIRY_LOCK = 5265717970 # see sql/queries/lead_expiry.sql

# What instances have reported, each with its age in seconds, and the problems that the page shows.
WELL = {"started_ms": 1, "loops": 2, "postgres_up": 2, "redis_up": 2, "bypassing": 0, "expiry_leader": 0, "durability": "remote",
        "requests": 0, "outcomes": {}, "stages": {name: {"buckets": []} for name in ("total", "lock", "commit")},
        "batches": {"sum": 0, "buckets": []}, "queue": 0, "in_flight": 0, "connections": 0}
LEADER = {"expiry_leader": 1}
LOCAL = {**LEADER, "durability": "local"}
UNSAFE = {**LEADER, "durability": "none"}
NO_POSTGRES = {"postgres_up": 1}
BYPASSED = {"redis_up": 0, "bypassing": 2}
TROUBLES = (
    ([(20, "a", {}), (20, "b", LEADER), (1, "a", {}), (1, "b", LEADER)], []),
    ([(12, "a", NO_POSTGRES), (1, "a", NO_POSTGRES), (1, "b", LEADER)],
     ["Postgres has been away for 12 s: nothing can be sold. failures"]),
    ([(12, "a", BYPASSED), (1, "a", BYPASSED), (1, "b", LEADER)],
     ["Orders have been sold without locks for 12 s, because Redis is away. failures"]),
    ([(90, "a", LEADER), (40, "a", LOCAL), (1, "a", LOCAL)],
     ["Durability has been local only for 40 s: no synchronous standby is attached. failures"]),
    ([(40, "a", LOCAL), (1, "a", LOCAL)], []), # no standby was ever attached
    ([(3, "a", UNSAFE), (1, "a", UNSAFE)],
     ["Orders have not been durable for 3 s: a crash of Postgres can lose them. postgres"]),
    ([(90, "a", LEADER), (90, "b", {}), (40, "a", {}), (1, "a", {}), (1, "b", {})],
     ["No instance has expired unpaid orders for 40 s: their stock does not return. alerts"]),
    ([(90, "a", LEADER), (90, "b", {}), (3, "a", {}), (1, "a", {}), (1, "b", {})], []), # b may take over
    ([(9, "a", {}), (1, "b", LEADER)], ["Instance a has not reported for 9 s. failures"]),
)
FIND = """
const [reports, well, done] = arguments;
Promise.all([import('/web/stats.js'), import('/web/problems.js')]).then(([{Stats}, {findProblems}]) => {
    const stats = new Stats(), nowMs = 2e12;
    stats.nowMs = () => nowMs;
    const items = reports.map(([age, instance, report]) => [`${nowMs - age * 1000}-0`, instance, {...well, ...report}]);
    stats.update({now_ms: nowMs, is_shared: true, stage_bounds_us: [1], items});
    done(findProblems(stats, (ms) => `${Math.floor(ms / 1000)} s`).map(({text, section}) => `${text} ${section}`));
}, (failure) => done([String(failure)]));
"""


def open_dashboard(world, afresh=True):
    browser = world.browser
    browser.open(f"{world.url}/admin", afresh)
    if afresh:
        browser.wait("the way in", lambda: browser.one("#demo").is_displayed())
        browser.one("#demo").click()
    browser.wait_text("#health", "instance")
    return browser


def now(browser, name):
    """The number in a tile."""
    text = browser.text(f'[data-now="{name}"] dd').split("\n")[0].split(" ")[0].replace(",", "")
    return float(text) if re.fullmatch(r"[\d.]+", text) else None


def row(voucher):
    return f'#vouchers [data-key="{voucher}"]'


def fill(browser, **values):
    for name, value in values.items():
        field = browser.one(f"dialog[open] [name={name}]")
        field.clear()
        field.send_keys(value)


def save(browser):
    browser.one("dialog[open] button.main").click()


def test_sign_in__takes_an_admins_token_only(world):
    browser = world.browser
    browser.open(f"{world.url}/admin")
    browser.one("#token").send_keys(world.service.token(7))
    browser.one("#signin .main").click()
    browser.wait_text("#signin .error", "not an admin token")
    browser.screenshot("dashboard-sign-in")
    browser.one("#token").clear()
    browser.one("#token").send_keys(world.service.token(1, "admin"))
    browser.one("#signin .main").click()
    browser.wait_text("#health", "Postgres up")
    browser.wait_text("#health", "Redis up")


def test_create__tells_what_is_wrong_and_then_creates(world):
    browser = open_dashboard(world)
    browser.one("#create").click()
    fill(browser, price_cents="12.50", stock="40")
    save(browser)
    browser.wait_text("#e-title", "1")
    field = browser.one("#f-title")
    assert field.get_attribute("aria-invalid") == "true"
    assert browser.driver.switch_to.active_element == field
    browser.screenshot("dashboard-create", DESK[1])
    title = world.new_title()
    fill(browser, title=title)
    save(browser)
    browser.wait_text("#done", f"Created: {title}.")
    made = world.find(title)
    assert (made["price_cents"], made["stock_total"], made["pay_within_s"]) == (1250, 40, 900)
    assert made["state"] == "upcoming"
    browser.wait_text(row(made["id"]), "upcoming")
    world.end(made["id"])


def test_edit__changes_the_voucher(world):
    voucher, title = world.voucher(stock=3), world.new_title()
    before = world.read(voucher)
    browser = open_dashboard(world)
    browser.one(f"{row(voucher)} button").click()
    fill(browser, title=title, pay_within_s="60")
    save(browser)
    browser.wait_text(row(voucher), title)
    after = world.read(voucher)
    assert (after["title"], after["pay_within_s"]) == (title, 60)
    assert (after["begin_at"], after["end_at"]) == (before["begin_at"], before["end_at"])


def test_restock__adds_and_refuses_more_than_is_left(world):
    voucher = world.voucher(stock=3)
    browser = open_dashboard(world)
    browser.one(f"{row(voucher)} button:nth-of-type(2)").click()
    fill(browser, add="-4")
    save(browser)
    browser.wait_text("#restock-error", "Cannot remove more stock")
    fill(browser, add="97")
    save(browser)
    browser.wait_text("#done", "100 of 100 are left")
    assert world.stock_left(voucher) == 100


def test_stats__move_while_the_sale_runs(world):
    voucher = world.voucher(stock=300)
    browser = open_dashboard(world)
    browser.js("window.isSamePage = true")
    before = browser.wait("the stock", lambda: now(browser, "Stock on sale"))
    with world.crowd(voucher):
        def wait_in_sale(what, condition):
            """Wait, and add stock, so that the sale lasts until a slow browser has shown it."""
            browser.wait(what, lambda: world.keep_in_stock(voucher) or condition())

        wait_in_sale("orders", lambda: (now(browser, "Orders") or 0) > 0)
        wait_in_sale("a percentile", lambda: "ms" in browser.text('[data-now="Order latency p99"] dd'))
        wait_in_sale("less stock", lambda: now(browser, "Stock on sale") < before)
        first = now(browser, "Stock on sale")
        wait_in_sale("another stock", lambda: now(browser, "Stock on sale") != first)
        browser.wait("refusals", lambda: (now(browser, "Refused") or 0) > 0)
        browser.screenshot("dashboard", 990)
        browser.be_dark(True)
        browser.resize(PHONE)
        browser.wait("sold out", lambda: "sold out" in browser.text(row(voucher)))
        assert browser.js("return document.documentElement.scrollWidth") <= PHONE[0]
        browser.screenshot("dashboard-phone-dark")
    browser.be_dark(False)
    browser.resize(DESK)
    for chart in ("stock", "orders", "refusals", "latency", "locks", "commit", "batch", "queue", "requests"):
        plot = browser.one(f'[data-chart="{chart}"] .plot')
        assert plot.get_attribute("aria-label") and plot.find_elements("css selector", "canvas"), chart
    assert browser.js("return window.isSamePage")


def test_stats__of_before_are_there_when_it_is_opened_later(world):
    voucher = world.voucher(stock=5)
    for user in range(5):
        world.place(voucher, 880000 + user)
    browser = open_dashboard(world)
    placed = "return (await (await fetch('/v1/stats', {headers: {Authorization: 'Bearer ' + " \
             "sessionStorage.getItem('seckill.admin')}})).json()).items.map((each) => each[2].outcomes.placed ?? 0)"
    counts = browser.js(placed)
    assert len(counts) > 2 and counts[-1] > counts[0] >= 0, counts


def test_instances__are_all_seen_by_whichever_is_asked(world):
    browser = open_dashboard(world)
    browser.wait_text("#health", "1 instance")
    other = world.start({})
    browser.wait_text("#health", "2 instances")
    assert len(browser.all("#instances tr")) == 2
    browser.screenshot("dashboard-instances", DESK[1])
    other.stop()
    browser.wait_text("#health", "1 instance")


def test_redis__away_is_told_and_the_page_lives_on(world):
    browser = open_dashboard(world)
    world.servers("stop", "redis")
    try:
        browser.wait_text("#health", "Redis down")
        browser.wait_text("#notice", "one instance only")
        browser.wait("how long it has been away", lambda: re.search(
            r"Redis has been away or has refused writes for [1-9]\d* s: nothing can be sold. operator.md#failures",
            browser.text("#problems")))
        browser.screenshot("dashboard-redis-down", DESK[1])
    finally:
        world.servers("start", "redis")
    browser.wait_text("#health", "Redis up")
    browser.wait("no trouble", lambda: browser.text("#notice") == "" and "Redis" not in browser.text("#problems"))


def test_problems__are_told_in_words_with_a_section_of_the_guide(world):
    browser = world.browser
    browser.open(f"{world.url}/admin")
    for reports, expected in TROUBLES:
        told = browser.driver.execute_async_script(FIND, reports, WELL)
        assert told == expected, (reports, told)


def test_stats__say_who_expires_orders_and_how_durable_they_are(world):
    def has_reported():
        reports = [stats for _, _, stats in world.call("GET", "/v1/stats", world.admin)["items"][-1:]]
        return reports and (reports[0]["expiry_leader"], reports[0]["durability"]) == (1, "local")
    world.browser.wait("a report", has_reported)


def test_expiry__that_nobody_does_is_told(world):
    """Another session gets the advisory lock of expiry when the session of the service ends, and keeps it."""
    browser = open_dashboard(world)
    url = world.private.env["PG_SUPERUSER_URL"]
    locks = f"from pg_locks where locktype = 'advisory' and objid::bigint = {EXPIRY_LOCK % 2 ** 32} and"
    with subprocess.Popen(["psql", "-XAtqc", f"select pg_advisory_lock({EXPIRY_LOCK})", "-c", "select pg_sleep(3600)", url],
                          env={**os.environ, "PGAPPNAME": "thief"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as thief:
        try:
            browser.wait("it waits", lambda: harness.sql(url, f"select 1 {locks} not granted") == ["1"])
            harness.sql(url, f"select pg_terminate_backend(pid) {locks} granted")
            browser.wait_text("#problems", "No instance has expired unpaid orders for ")
            assert "operator.md#alerts" in browser.text("#problems")
        finally:
            thief.kill()
            harness.sql(url, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'thief'")
    browser.wait("no trouble", lambda: "expired" not in browser.text("#problems"))


def test_stats__are_for_admins_and_check_what_is_asked(world):
    ask = world.service.call
    assert ask("GET", "/v1/stats")[0] == 401
    assert ask("GET", "/v1/stats", world.service.token(7))[0] == 403
    admin = world.service.token(1, "admin")
    for wrong in ("1", "-", "1-", "-1", "1-1-1", "a-1", "%2B-1", "9" * 60 + "-1"):
        status, told = ask("GET", f"/v1/stats?after={wrong}", admin)
        assert (status, told["code"]) == (400, "bad_request"), wrong
    status, told = ask("GET", "/v1/stats", admin)
    last = told["items"][-1][0]
    status, later = ask("GET", f"/v1/stats?after={last}", admin)
    assert status == 200 and all(each[0] > last for each in later["items"])
