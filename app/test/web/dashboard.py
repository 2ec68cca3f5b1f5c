"""dashboard.py - tests of the dashboard as an operator uses it."""

import datetime
import os
import re
import signal
import subprocess

import harness
from browser import DESK, NARROW, PHONE

EXPIRY_LOCK = 5265717970 # see sql/queries/lead_expiry.sql

# Each row has what instances have reported, and the problems that the page must show. A report has
# its age in seconds, the instance, and for how many seconds each condition has been true.
WELL = {"started_ms": 1, "loops": 2, "postgres_up": 2, "redis_up": 2, "bypassing": 0, "requests": 0, "outcomes": {}, "stages": {name: {"buckets": []} for name in ("total", "lock", "commit")},
        "batches": {"sum": 0, "buckets": []}, "queue": 0, "in_flight": 0, "connections": 0}
OLD = {"not_expiring": 90}
TROUBLES = (
    ([(20, "a", OLD), (20, "b", {}), (1, "a", OLD), (1, "b", {})], []),
    ([(1, "a", {**OLD, "no_postgres": 12}), (1, "b", {"no_postgres": 3})],
     ["Postgres has been away for 12 s: nothing can be sold. failures"]),
    ([(1, "a", {**OLD, "no_redis": 12, "bypassing": 12}), (1, "b", {})],
     ["Orders have been sold without locks for 12 s, because Redis is away. failures"]),
    ([(1, "a", {"no_redis": 4000})],
     ["Redis has been away or has refused writes for 4000 s: nothing can be sold. failures"]),
    ([(90, "a", {}), (1, "a", {"no_standby": 40})],
     ["Durability has been local only for 40 s: no synchronous standby is attached. failures"]),
    ([(1, "a", {"not_durable": 3})],
     ["Orders have not been durable for 3 s: a crash of Postgres can lose them. postgres"]),
    ([(1, "a", {"not_expiring": 40}), (1, "b", OLD)],
     ["No instance has expired unpaid orders for 40 s: their stock does not return. alerts"]),
    ([(1, "a", {"not_expiring": 3}), (1, "b", OLD)], []), # b may take over
    ([(9, "a", OLD), (1, "b", {})], ["Instance a has not reported for 9 s. failures"]),
)
FIND = """
const [reports, well, done] = arguments;
Promise.all([import('/web/stats.js'), import('/web/problems.js')]).then(([{Stats}, {findProblems}]) => {
    const stats = new Stats(), nowMs = 2e12;
    stats.nowMs = () => nowMs;
    const items = reports.map(([age, instance, held]) => [`${nowMs - age * 1000}-0`, instance, {...well,
        since_ms: Object.fromEntries(Object.entries(held).map(([name, s]) => [name, nowMs - s * 1000]))}]);
    stats.update({now_ms: nowMs, is_shared: true, stage_bounds_us: [1], items});
    done(findProblems(stats, (ms) => `${Math.floor(ms / 1000)} s`).map(({text, section}) => `${text} ${section}`));
}, (failure) => done([String(failure)]));
"""


def open_dashboard(world, url=None, ready="instance"):
    browser = world.browser
    browser.open(f"{url or world.url}/admin")
    browser.wait("the way in", lambda: browser.one("#demo").is_displayed())
    browser.one("#demo").click()
    browser.wait_text("#health", ready)
    return browser


def now(browser, name):
    """The number that a tile shows."""
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


# The texts and labels in the document that are not in Chinese. Titles are as the admin wrote them.
NOT_CHINESE = """
const own = (node) => [...node.childNodes].filter((each) => each.nodeType === Node.TEXT_NODE).map((each) => each.data);
return [...document.querySelectorAll('body :not(script, code, .title)')]
    .flatMap((node) => [...own(node), node.ariaLabel ?? ''])
    .filter((text) => /[a-z]{4}/i.test(text) && !/\\p{Script=Han}/u.test(text));"""


def test_dashboard__is_chinese_in_a_chinese_browser(world):
    voucher = world.voucher(stock=3, title="双人火锅")
    order = world.place(voucher, 893000)
    english, world.browser = world.browser, world.chinese()
    try:
        browser = open_dashboard(world, ready="1 个实例")
        browser.wait_text('[data-chart="stock"]', "双人火锅")
        browser.wait_text(row(voucher), "抢购中")
        find_orders(browser, "order_id", order, "全部")
        browser.one("#orders button").click()
        browser.wait_text("#history-list", "待付款，操作者 shopper:893000")
        browser.one("#history .close").click()
        browser.one("#create").click()
        save(browser)
        browser.wait_text("#e-title", "须为 1 至 200 个字符。")
        browser.one("#edit .close").click()
        world.call("POST", f"/v1/orders/{order}/cancel", world.admin)
        browser.one("#orders button:nth-of-type(2)").click()
        browser.one("#confirm-yes").click()
        browser.wait_text("#found", "当前的订单状态不允许此操作。")
        left = set(browser.js(NOT_CHINESE))
        assert left == {"Postgres", "Redis"}, left
        assert browser.js("return [document.title, document.documentElement.lang]") == ["控制台 · 限时秒杀", "zh-CN"]
        browser.screenshot("dashboard-chinese")
    finally:
        world.browser = english


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
    fill(browser, title=title, pay_within_s="60", pow_bits="33")
    browser.one("#f-requires_ticket").click()
    save(browser)
    browser.wait_text("#e-pow_bits", "must be a whole number from 0 to 32")
    fill(browser, pow_bits="9")
    save(browser)
    browser.wait_text(row(voucher), title)
    after = world.read(voucher)
    assert (after["title"], after["pay_within_s"]) == (title, 60)
    assert (after["requires_ticket"], after["pow_bits"]) == (True, 9)
    assert (after["begin_at"], after["end_at"]) == (before["begin_at"], before["end_at"])
    browser.one(f"{row(voucher)} button").click()
    browser.one("#f-requires_ticket:checked").click()
    save(browser)
    browser.wait("an order without a ticket", lambda: not world.read(voucher)["requires_ticket"])
    assert world.read(voucher)["pow_bits"] == 9


def local_second(moment):
    """A time of the service as the page shows it in English."""
    at = datetime.datetime.fromisoformat(moment).astimezone()
    return f"{at:%b} {at.day}, {at:%Y, %H:%M:%S}"


def test_duplicate__creates_a_voucher_like_the_other(world):
    voucher = world.voucher(stock=30, price_cents=1234, per_user_limit=2, pow_bits=3, requires_ticket=True,
                            pay_within_s=60, begin_at=harness.moment(-7200), end_at=harness.moment(-3600))
    browser = open_dashboard(world)
    browser.one(f"{row(voucher)} [data-verb=copy]").click()
    title = world.new_title()
    fill(browser, title=title)
    save(browser)
    browser.wait_text("#done", f"Created: {title}.")
    before, made = world.read(voucher), world.find(title)
    world.test.callback(world.end, made["id"])
    assert made["state"] == "upcoming"
    begin, end = ([datetime.datetime.fromisoformat(each[name]) for each in (before, made)]
                  for name in ("begin_at", "end_at"))
    assert end[0] - begin[0] == end[1] - begin[1], (before, made)
    for name in before.keys() - {"id", "title", "state", "begin_at", "end_at", "server_time"}:
        assert made[name] == before[name], name


def test_create__makes_a_lottery(world):
    browser = open_dashboard(world)
    browser.one("#create").click()
    title = world.new_title()
    fill(browser, title=title, per_user_limit="2")
    browser.one("#f-admission [value=lottery]").click()
    save(browser)
    browser.wait_text("#e-per_user_limit", "must be 1 in a lottery")
    fill(browser, per_user_limit="1")
    save(browser)
    browser.wait_text("#done", f"Created: {title}.")
    made = world.find(title)
    world.test.callback(world.end, made["id"])
    assert made["admission"] == "lottery"
    browser.wait_text(f"{row(made['id'])} .badge + .badge", "lottery")
    browser.one(f"{row(made['id'])} [data-verb=copy]").click()
    assert browser.one("#f-admission").get_attribute("value") == "lottery"
    browser.one("#edit .close").click()


# The width of an input, and the width that its content needs.
WIDTHS = """
const input = document.getElementById(arguments[0]), width = () => input.getBoundingClientRect().width;
const now = width();
input.style.width = 'auto';
const needed = width();
input.style.width = '';
return [now, needed];"""


def test_form__shows_times_to_the_end(world):
    browser = open_dashboard(world)
    browser.one("#create").click()
    try:
        for size in (DESK, (500, 800), PHONE, NARROW):
            browser.resize(size)
            for name in ("f-begin_at", "f-end_at"):
                now, needed = browser.js(WIDTHS, name)
                assert 100 < needed <= now, (size, now, needed)
    finally:
        browser.resize(DESK)


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


def test_history__of_a_voucher_has_its_edits(world):
    voucher = world.voucher(stock=3, title="Old", description="One", begin_at="2026-01-02T03:04:05Z")
    world.place(voucher, 895000)
    world.call("PATCH", f"/v1/vouchers/{voucher}", world.service.token(2, "admin"),
               {"title": "New", "description": "Two", "begin_at": "2026-01-03T03:04:05Z", "pay_within_s": 60})
    for add in (-1, *[1] * 100): # more than a page
        world.call("POST", f"/v1/vouchers/{voucher}/restock", world.admin, {"add": add})
    world.call("PATCH", f"/v1/vouchers/{voucher}", world.admin, {"requires_ticket": True, "pow_bits": 3})
    browser = open_dashboard(world)
    browser.one(f"{row(voucher)} [data-verb=history]").click()
    browser.wait_text("#history-head", "New")
    events = [each.text for each in browser.all("#history-list li")]
    assert re.fullmatch(r"\w+ \d+, 20\d\d, \d\d:\d\d:\d\d: stock \+3 by admin:1", events[0]), events[0]
    events = [each.split(": ", 1)[1] for each in events]
    begin = [local_second(f"2026-01-0{day}T03:04:05Z") for day in (2, 3)]
    assert events[1] == (f"Title: Old → New; Opens: {begin[0]} → {begin[1]}; Description: One → Two; "
                         "Time to pay (seconds): 900 → 60 by admin:2")
    assert events[2:4] == ["stock -1 by admin:1", "stock +1 by admin:1"]
    assert len(events) == 104
    assert events[-1] == ("Work for a ticket (zero bits): 0 → 3; Orders need a purchase ticket: no → yes by admin:1")
    browser.screenshot("dashboard-history", DESK[1])
    browser.one("#history .close").click()


def test_stop__ends_the_sale_for_every_later_order(world):
    voucher = world.voucher(stock=30)
    order = world.place(voucher, 894000)
    browser = open_dashboard(world)
    browser.one(f"{row(voucher)} [data-verb=stop]").click()
    browser.wait_text("#confirm-head", f"Stop the sale of {world.title(voucher)}?")
    browser.one('#confirm button[value=""]').click()
    world.place(voucher, 894001)
    browser.one(f"{row(voucher)} [data-verb=stop]").click()
    browser.one("#confirm-yes").click()
    browser.wait_text("#done", f"Stopped: {world.title(voucher)}.")
    for user in range(894002, 894010): # each is a new connection, so both workers are asked
        status, told = world.service.call("POST", f"/v1/vouchers/{voucher}/orders", world.service.token(user))
        assert (status, told["code"]) == (409, "sale_ended")
    browser.wait_text(row(voucher), "ended")
    assert not browser.one(f"{row(voucher)} [data-verb=stop]").is_displayed()
    assert browser.js("return document.activeElement.id") == "vouchers-head"
    assert world.order(order)["status"] == "unpaid"


def test_stop__tells_why_it_failed(world):
    voucher = world.voucher()
    browser = open_dashboard(world)
    browser.one(f"{row(voucher)} [data-verb=stop]").click()
    with browser.blocked(f"*/v1/vouchers/{voucher}"):
        browser.one("#confirm-yes").click()
        browser.wait_text("#done", "Failed to fetch")
    assert "bad" in browser.one("#done").get_attribute("class")
    assert world.read(voucher)["state"] == "open"


def find_orders(browser, by, text, status="any"):
    """Search for orders. Returns the shoppers of the orders that the page shows."""
    browser.one(f"#find-by option[value={by}]").click()
    field = browser.one("#find-text")
    field.clear()
    field.send_keys(text)
    next(each for each in browser.all("#find-status option") if each.text == status).click()
    browser.js("document.getElementById('found').textContent = ''")
    browser.one("#find button").click()
    browser.wait("an answer", lambda: browser.text("#found") != "")
    return [each.text for each in browser.all("#orders td:nth-child(3)")]


def press(browser, order, name):
    """Press a button of an order."""
    browser.one(f'#orders button[aria-label="{name} order {order}"]').click()


def test_orders__are_found(world):
    voucher = world.voucher(stock=30)
    orders = [world.place(voucher, 890000 + each) for each in range(21)]
    world.call("POST", f"/v1/orders/{orders[3]}/pay", world.service.token(3, "payment"),
               {"payment_ref": f"ref {orders[3]}", "amount_cents": 900})
    browser = open_dashboard(world)
    assert find_orders(browser, "voucher_id", voucher) == [str(890020 - each) for each in range(20)]
    assert browser.text("#found") == "20 orders, and more may follow."
    browser.screenshot("dashboard-orders")
    browser.one("#more").click()
    browser.wait_text("#found", "21 orders.")
    assert browser.all("#orders tr")[20].get_attribute("data-order") == orders[0]
    assert not browser.one("#more").is_displayed()
    assert find_orders(browser, "voucher_id", voucher, "paid") == ["890003"]
    assert find_orders(browser, "payment_ref", f" ref {orders[3]} ") == ["890003"]
    assert find_orders(browser, "order_id", orders[5]) == ["890005"]
    assert browser.text("#found") == "1 order."
    assert find_orders(browser, "user_id", "890006") == ["890006"]
    assert find_orders(browser, "user_id", "x") == []
    browser.wait_text("#found", "user_id must be one integer")
    assert "bad" in browser.one("#found").get_attribute("class")


def test_orders__are_changed_after_a_question(world):
    voucher = world.voucher(stock=3)
    paid, unpaid = (world.place(voucher, 891000 + each) for each in range(2))
    world.call("POST", f"/v1/orders/{paid}/pay", world.service.token(3, "payment"),
               {"payment_ref": f"ref {paid}", "amount_cents": 900})
    browser = open_dashboard(world)
    find_orders(browser, "voucher_id", voucher)
    for order, verb, before, after in ((paid, "Refund", "paid", "refunded"), (unpaid, "Cancel", "unpaid", "cancelled")):
        press(browser, order, verb)
        browser.wait_text("#confirm-head", f"{verb} order {order}?")
        assert "goes back on sale" in browser.text("#confirm-text")
        browser.one('#confirm button[value=""]').click()
        assert world.order(order)["status"] == before
        press(browser, order, verb)
        browser.wait_text("#confirm-yes", verb)
        browser.one("#confirm-yes").click()
        browser.wait_text("#found", f"Order {order} is {after}.")
        assert browser.text(f'#orders [data-order="{order}"] .badge') == after
        assert browser.js("return document.activeElement.id") == "orders-head"
        assert [each.text for each in browser.all(f'#orders [data-order="{order}"] button')] == ["History"]
        assert world.order(order)["status"] == after
    press(browser, paid, "History")
    browser.wait_text("#history-head", f"Order {paid}")
    events = [each.text.split(": ", 1)[1] for each in browser.all("#history-list li")]
    assert events == ["unpaid by shopper:891000", f"paid (ref {paid}) by payment:3", "refunded by admin:1"]
    browser.one("#history .close").click()


def test_orders__that_others_have_changed_are_refused(world):
    voucher = world.voucher(stock=3)
    order = world.place(voucher, 892000)
    browser = open_dashboard(world)
    find_orders(browser, "order_id", order)
    world.call("POST", f"/v1/orders/{order}/pay", world.service.token(3, "payment"),
               {"payment_ref": f"ref {order}", "amount_cents": 900})
    press(browser, order, "Cancel")
    browser.wait_text("#confirm-yes", "Cancel")
    browser.one("#confirm-yes").click()
    browser.wait_text("#found", "does not permit this request")
    find_orders(browser, "order_id", order)
    press(browser, order, "Redeem")
    browser.wait_text("#confirm-yes", "Redeem")
    browser.one("#confirm-yes").click()
    browser.wait_text("#found", f"Order {order} is redeemed.")


def test_stats__move_while_the_sale_runs(world):
    voucher = world.voucher(stock=300)
    browser = open_dashboard(world)
    browser.js("window.isSamePage = true")
    before = browser.wait("the stock", lambda: now(browser, "stock_on_sale"))
    with world.crowd(voucher):
        def wait_in_sale(what, condition):
            """Wait, and add stock meanwhile, so that the sale lasts until a slow browser has
            shown it."""
            browser.wait(what, lambda: world.keep_in_stock(voucher) or condition())

        wait_in_sale("orders", lambda: (now(browser, "placed") or 0) > 0)
        wait_in_sale("a percentile", lambda: "ms" in browser.text('[data-now="latency_p99"] dd'))
        wait_in_sale("less stock", lambda: now(browser, "stock_on_sale") < before)
        first = now(browser, "stock_on_sale")
        wait_in_sale("another stock", lambda: now(browser, "stock_on_sale") != first)
        browser.wait("refusals", lambda: (now(browser, "refused") or 0) > 0)
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


def test_problems__have_the_age_that_the_service_knows(world):
    """Both servers have been away for some seconds before the page is opened."""
    browser = world.browser
    def is_old():
        told = world.call("GET", "/v1/stats", world.admin)
        since = told["items"][-1][2]["since_ms"]
        return all(told["now_ms"] - since.get(each, told["now_ms"]) > 5000 for each in ("no_postgres", "no_redis"))
    try:
        world.servers("stop", "postgres")
        world.servers("stop", "redis")
        browser.wait("old problems", is_old)
        open_dashboard(world)
        for problem in (r"Postgres has been away for (\d+) s", r"Redis has been away or has refused writes for (\d+) s"):
            shown = browser.wait(problem, lambda: re.search(problem, browser.text("#problems")))
            assert int(shown.group(1)) >= 5, shown.group()
        browser.wait_text("#health", "Postgres down")
        browser.wait_text("#no-vouchers", "The vouchers cannot be read now")
        browser.screenshot("dashboard-down", DESK[1])
    finally:
        world.servers("start", "redis")
        world.servers("start", "postgres")
    browser.wait_text("#health", "Postgres up")
    browser.wait("no trouble", lambda: browser.text("#problems") + browser.text("#no-vouchers") == "")


def assert_grey(browser, reason):
    browser.wait_text("#contact", reason)
    assert re.search(r"Everything below is of \w+ \d+, 20\d\d, \d\d:\d\d:\d\d\.$", browser.text("#contact"))
    assert browser.text("#health").split("\n") == ["Postgres unknown", "Redis unknown", "no contact"]
    assert browser.all("#health .good, #health .bad") == []
    assert browser.js("return getComputedStyle(document.getElementById('board')).filter") == "grayscale(1)"


def test_contact__lost_makes_everything_grey(world):
    world.voucher(stock=3)
    browser = open_dashboard(world)
    with browser.blocked("*/v1/stats*"):
        assert_grey(browser, "The service does not answer.")
        browser.screenshot("dashboard-lost", DESK[1])
    browser.wait_text("#health", "Postgres up")
    os.kill(world.service.process.pid, signal.SIGSTOP)
    try:
        assert_grey(browser, "The service does not answer.")
    finally:
        os.kill(world.service.process.pid, signal.SIGCONT)
    browser.wait_text("#health", "Postgres up")
    assert browser.text("#contact") == ""
    assert browser.js("return getComputedStyle(document.getElementById('board')).filter") == "none"


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
    """When the session of the service ends, another session gets the advisory lock of expiry,
    and keeps it."""
    browser = open_dashboard(world)
    url = world.private.env["PG_SUPERUSER_URL"]
    locks = f"from pg_locks where locktype = 'advisory' and objid::bigint = {EXPIRY_LOCK % 2 ** 32} and"
    # An earlier test may have ended the session that had the lock.
    browser.wait("an instance has the lock", lambda: harness.rows(url, f"select 1 {locks} granted") == [["1"]])
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
