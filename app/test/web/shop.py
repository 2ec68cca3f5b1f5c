"""shop.py - tests of the shop page as a shopper uses it."""

import datetime
import re
import time

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

import dashboard
import harness
from browser import DESK, NARROW, PHONE


class Shop:
    """The shop page of a new shopper, with one voucher. If no voucher is given, a new one is
    created."""

    def __init__(self, world, url=None, voucher=None, afresh=True, **sale):
        self.world, self.browser = world, world.browser
        self.voucher = voucher or world.voucher(**sale)
        self.browser.open(url or world.url, afresh)
        self.browser.one(self.card)
        self.browser.wait("a shopper", self.shopper)

    @property
    def card(self):
        return f".voucher:has(#voucher-{self.voucher})"

    @property
    def message(self):
        return f"{self.card} .message"

    def shopper(self):
        return "".join(re.findall(r"\d+", self.browser.text("#shopper")))

    def state(self):
        return self.browser.one(self.card).get_attribute("data-state")

    def press(self):
        self.browser.one(f"{self.card} > button").click()

    def buy(self):
        """Press the button. Returns the number of the order."""
        self.press()
        self.browser.wait_text(self.message, "is placed")
        return re.search(r"Order (\d+)", self.browser.text(self.message)).group(1)

    def row(self, order):
        return f'[data-order="{order}"]'

    def wait_status(self, order, status):
        self.browser.one(f'{self.row(order)}[data-status="{status}"]')


def test_shelf__has_what_can_be_bought_first(world):
    gone = world.voucher(stock=1, price_cents=8800, face_value_cents=26800)
    world.place(gone, 424242)
    soon = world.voucher(stock=500, price_cents=1900, face_value_cents=6000, begin_at=harness.moment(754))
    shop = Shop(world, stock=40, price_cents=9900, face_value_cents=39900)
    for user in range(14):
        world.place(shop.voucher, 424242 + user)
    shop.buy()
    world.browser.wait_text(f"{shop.card} .stock", "25 of 40 left")
    world.browser.open(world.url, afresh=False)
    world.browser.wait("all are there", lambda: len(world.browser.all(".voucher[data-id]")) >= 3)
    shown = [each.get_attribute("id") for each in world.browser.all(".voucher h3")][:3]
    assert shown == [f"voucher-{each}" for each in (shop.voucher, soon, gone)]
    world.browser.wait_text(f"{shop.card} > button", "Ordered: pay now")
    world.browser.screenshot("shop")


# The gaps between the title and the text, and between the stock and the button.
GAPS = """
const card = document.querySelector(arguments[0]);
const gap = (above, below) => Math.round(card.querySelector(below).getBoundingClientRect().top
                                         - card.querySelector(above).getBoundingClientRect().bottom);
return [gap('h3', '.text'), gap('.stock', '.main')];"""


def test_card__beside_a_long_one_has_no_hole(world):
    soon = world.voucher(begin_at=harness.moment(3000))
    bare = world.voucher(description="")
    shop = Shop(world, title="A long title " * 8, description="Long. " * 100, requires_ticket=True, pow_bits=8)
    browser = world.browser
    cards = [f'[data-id="{each}"]' for each in (shop.voucher, bare, soon)]
    assert len({browser.one(each).rect["y"] for each in cards}) == 1 # one row
    gaps = browser.js(GAPS, cards[0])
    assert gaps == browser.js(GAPS, cards[1]) == browser.js(GAPS, cards[2])
    assert browser.one(f"{cards[0]} .more").is_displayed()
    assert not browser.one(f"{cards[1]} .more").is_displayed()
    browser.screenshot("shop-row", DESK[1])


def local(moment):
    """A time of the service as the page shows it in English."""
    at = datetime.datetime.fromisoformat(moment).astimezone()
    return f"{at:%b} {at.day}, {at:%Y, %H:%M}"


SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => list.getEntries().forEach(({value, sources}) => {
    window.shifts.push([value, ...sources.map(({node}) => node?.outerHTML?.slice(0, 80))]);
})).observe({type: 'layout-shift', buffered: true});"""


def test_shelf__does_not_move_under_the_finger(world):
    """No card may move while the page loads, or when a voucher opens, sells out, is new, or is
    bought."""
    browser = world.browser
    soon = world.voucher(stock=5, begin_at=harness.moment(3000))
    gone = world.voucher(stock=1)
    browser.resize(PHONE)
    try:
        with browser.early(SHIFTS):
            shop = Shop(world, stock=5, requires_ticket=True, pow_bits=12, description="Long. " * 100)
        shown = lambda: [each.get_attribute("data-id") for each in browser.all(".voucher")][:4]
        assert shown()[:3] == [shop.voucher, gone, soon], shown()
        world.place(gone, 424242)
        world.call("PATCH", f"/v1/vouchers/{soon}", world.admin, {"begin_at": harness.moment(-1)})
        browser.one(f'[data-id="{gone}"][data-state="sold_out"]')
        browser.one(f'[data-id="{soon}"][data-state="open"]')
        browser.one(f'[data-id="{world.voucher()}"]')
        shop.buy()
        assert shown()[:3] == [shop.voucher, gone, soon], shown()
        shifts = browser.js("return shifts")
        print(f"layout shift of a sale: {sum(each[0] for each in shifts):.3f}")
        assert sum(each[0] for each in shifts) < 0.1, shifts
        browser.screenshot("shop-phone")
        browser.one(f"{shop.card} .more").click()
        browser.wait_text("#about", "Long. Long.")
        browser.screenshot("shop-about", PHONE[1])
    finally:
        browser.resize(DESK)
    browser.open(world.url, afresh=False)
    browser.wait("open ones first", lambda: browser.all(".voucher[data-id]") and shown()[3:] == [gone])


def test_placeholders__have_the_size_of_the_cards(world):
    """The page has one column in this test, because all cards of a row are as high as the
    highest one."""
    shop = Shop(world, stock=5)
    browser = world.browser
    browser.resize(PHONE)
    try:
        with browser.blocked("*/v1/vouchers?*"):
            browser.open(world.url)
            browser.wait_text("#notice", "cannot be reached")
            heights = {each.rect["height"] for each in browser.all(".blank")}
            browser.screenshot("shop-blank", PHONE[1])
        browser.open(world.url)
        browser.wait(f"a card with one of the heights {heights}",
                     lambda: {browser.one(shop.card).rect["height"]} == heights)
    finally:
        browser.resize(DESK)


def test_buy__places_one_order_and_tells_its_number_and_time(world):
    shop = Shop(world, stock=5)
    order = shop.buy()
    assert re.search(r"Pay within 1[45]:\d\d", world.browser.text(shop.message)), \
        world.browser.text(shop.message)
    world.browser.wait_text(shop.row(order), "left to pay")
    assert f"placed {local(world.order(order)['created_at'])}" in world.browser.text(shop.row(order))
    assert world.order(order)["user_id"] == shop.shopper()
    assert world.stock_left(shop.voucher) == 4
    world.browser.wait_text(f"{shop.card} .stock", "4 of 5 left")
    world.browser.screenshot("shop-placed")


def test_buy__says_already_yours_of_an_order_from_elsewhere(world):
    shop = Shop(world, stock=5)
    with world.browser.blocked("*/v1/orders?*"): # the page cannot list it
        order = world.place(shop.voucher, int(shop.shopper()))
        shop.press()
        world.browser.wait_text(shop.message, f"You have already ordered this voucher: order {order}")
        world.browser.wait_text(f"{shop.card} > button", "Ordered: pay now")
    assert world.stock_left(shop.voucher) == 4


def in_view(browser, element):
    return browser.js("const {top, bottom} = arguments[0].getBoundingClientRect();"
                      "return top >= 0 && bottom <= innerHeight", element)


def test_bought__leads_to_the_order_and_sells_nothing_more(world):
    for _ in range(6):
        world.voucher()
    browser = world.browser
    browser.resize(PHONE)
    try:
        shop = Shop(world, stock=1)
        order = shop.buy()
        browser.wait_text(f"{shop.card} > button", "Ordered: pay now")
        browser.wait("it is sold out", lambda: shop.state() == "sold_out")
        assert not in_view(browser, browser.one(shop.row(order)))
        shop.press()
        pay = browser.one(f"{shop.row(order)} button")
        assert browser.driver.switch_to.active_element == pay and in_view(browser, pay)
        browser.screenshot("shop-own")
        pay.click()
        browser.wait_text(f"{shop.card} > button", "Ordered: see the order")
        shop.press()
        assert browser.driver.switch_to.active_element == browser.one(f"{shop.row(order)} h3")
        assert len(browser.js("return keysSent")) == 1
        browser.open(world.url, afresh=False)
        browser.wait_text(f"{shop.card} > button", "Ordered: see the order")
    finally:
        browser.resize(DESK)


def test_bought__and_cancelled_sells_again(world):
    shop = Shop(world, stock=5)
    order = shop.buy()
    world.browser.wait_text(f"{shop.card} > button", "Ordered: pay now")
    world.call("POST", f"/v1/orders/{order}/cancel", world.service.token(int(shop.shopper())))
    world.browser.wait_text(f"{shop.card} > button", "Buy")
    assert world.browser.text(shop.message) == ""


def test_stock__is_followed_without_reading_the_vouchers(world):
    shop = Shop(world, stock=5)
    with world.browser.blocked("*/v1/vouchers?*"):
        world.place(shop.voucher, 424242)
        world.browser.wait_text(f"{shop.card} .stock", "4 of 5 left")
        world.place(shop.voucher, 424243)
        world.browser.wait_text(f"{shop.card} .stock", "3 of 5 left")


def test_stock__of_all_vouchers_is_followed_by_one_stream(world):
    others = [world.voucher(stock=2) for _ in range(3)]
    shop = Shop(world, stock=5)
    browser = world.browser
    for other in others:
        browser.one(f'[data-id="{other}"][data-state="open"]')
    streams = """return performance.getEntriesByType('resource').map(({name}) => name)
                    .filter((name) => name.includes('/stream'))"""
    with browser.blocked("*/v1/vouchers?*"):
        for user in (424242, 424243):
            for each in (shop.voucher, *others):
                world.place(each, user)
        for other in others:
            browser.one(f'[data-id="{other}"][data-state="sold_out"]')
        browser.wait_text(f"{shop.card} .stock", "3 of 5 left")
        world.call("POST", f"/v1/vouchers/{others[0]}/restock", world.admin, {"add": 1})
        browser.one(f'[data-id="{others[0]}"][data-state="open"]')
    assert len(browser.js(streams)) <= 1 # a stream that is open is not among the resources


# The service refuses the stream of several vouchers.
REFUSED = """
window.EventSource = class extends EventSource {
    constructor(url) {
        super(url.startsWith('/v1/stream') ? '/v1/nothing' : url);
    }
};"""


def test_stock__is_followed_of_one_voucher_where_another_is_elsewhere(world):
    shop = Shop(world, stock=5)
    other = world.voucher()
    with world.browser.early(REFUSED):
        world.browser.open(world.url, afresh=False)
    for voucher in (shop.voucher, other):
        world.browser.one(f'[data-id="{voucher}"][data-state="open"]')
    followed = world.browser.one('.voucher[data-state="open"]').get_attribute("data-id")
    left = world.stock_left(int(followed))
    world.browser.wait_text(f'[data-id="{followed}"] .stock', f"{left} of")
    with world.browser.blocked("*/v1/vouchers?*"):
        world.place(int(followed), 424242)
        world.browser.wait_text(f'[data-id="{followed}"] .stock', f"{left - 1} of")


def test_stock__is_read_where_no_stream_passes(world):
    with world.browser.blocked("*/stream"):
        shop = Shop(world, stock=5)
        world.place(shop.voucher, 424242)
        world.browser.wait_text(f"{shop.card} .stock", "4 of 5 left")


def test_buy__gives_as_many_as_one_may_have(world):
    shop = Shop(world, stock=5, per_user_limit=3)
    world.browser.wait_text(f"{shop.card} .stock", "limit 3 per shopper")
    first = shop.buy()
    world.browser.wait_text(f"{shop.card} > button", "Buy")
    shop.press()
    world.browser.wait("another order", lambda: len(world.browser.all(".order")) == 2)
    with world.browser.blocked("*/v1/orders?*"):
        world.place(shop.voucher, int(shop.shopper()))
        shop.press()
        world.browser.wait_text(shop.message, "You have reached the limit")
    world.browser.wait_text(f"{shop.card} > button", "Ordered: pay now")
    assert world.stock_left(shop.voucher) == 2
    assert len(world.browser.all(".order")) == 3 and len(world.browser.all(shop.row(first))) == 1
    assert len(set(world.browser.js("return keysSent"))) == 3 # each press has a new key


def test_buy__says_sold_out_and_opens_again_when_stock_returns(world):
    shop = Shop(world, stock=1)
    with world.browser.blocked("*/v1/vouchers?*"): # the page cannot learn of the change
        other = world.place(shop.voucher, 424242)
        shop.press()
        world.browser.wait_text(shop.message, "Sold out")
    world.browser.wait("the card says so", lambda: shop.state() == "sold_out")
    world.browser.screenshot("shop-sold-out")
    world.call("POST", f"/v1/orders/{other}/cancel", world.service.token(424242))
    world.browser.wait("it is on sale again", lambda: shop.state() == "open")
    shop.buy()


def test_countdown__opens_the_sale_by_itself(world):
    begins = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=40)
    shop = Shop(world, stock=5, begin_at=begins.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    assert shop.state() == "upcoming"
    assert world.browser.text(f"{shop.card} > button") == f"Opens {local(begins.isoformat())}"
    world.browser.wait_text(f"{shop.card} header", "00:")
    world.browser.screenshot("shop-countdown")
    shop.press()
    world.browser.wait_text(shop.message, "The sale opens in 00:")
    shown = world.browser.text(f"{shop.card} header")
    world.browser.wait("it counts down", lambda: world.browser.text(f"{shop.card} header") != shown)
    world.browser.js("window.isSamePage = true")
    with world.browser.blocked("*/v1/vouchers?*"): # the page has only its clock
        world.browser.wait("it opens", lambda: shop.state() == "open")
    assert time.time() > begins.timestamp() - 0.1
    shop.buy()
    assert world.browser.js("return window.isSamePage")


def test_cancel__asks_first_and_returns_the_stock(world):
    shop = Shop(world, stock=5)
    order = shop.buy()
    browser = world.browser
    browser.one(f"{shop.row(order)} button:nth-of-type(2)").click()
    browser.wait_text("#confirm", "Cancel this order?")
    browser.screenshot("shop-cancel", DESK[1])
    browser.one('#confirm button[value=""]').click()
    assert world.order(order)["status"] == "unpaid"
    browser.one(f"{shop.row(order)} button:nth-of-type(2)").click()
    browser.one('#confirm button[value="yes"]').click()
    shop.wait_status(order, "cancelled")
    assert world.order(order)["status"] == "cancelled"
    assert world.stock_left(shop.voucher) == 5
    assert browser.driver.switch_to.active_element.get_attribute("id") == "orders-head"
    assert shop.buy() != order


def test_pay__makes_the_order_paid(world):
    shop = Shop(world, stock=5)
    order = shop.buy()
    world.browser.one(f"{shop.row(order)} button").click()
    shop.wait_status(order, "paid")
    assert world.order(order)["status"] == "paid"
    assert world.browser.text("#announcement") == f"Order {order} is paid."


def test_reload__keeps_the_shopper_and_the_orders(world):
    shop = Shop(world, stock=5)
    shopper, order = shop.shopper(), shop.buy()
    world.browser.open(world.url, afresh=False)
    shop.wait_status(order, "unpaid")
    assert shop.shopper() == shopper


def test_orders__stay_as_they_are_where_lists_are_older(world):
    """The lists of this instance come from an older copy of the database. A list that has an order
    from elsewhere was read after the order of this page was placed. It first lacks the order of
    this page, and later has it as unpaid."""
    voucher = world.voucher(stock=5, per_user_limit=3)
    older = world.start({"SECKILL_LISTS_DATABASE_URL": world.copy_database("older")})
    shop = Shop(world, f"http://127.0.0.1:{older.port}", voucher)
    elsewhere = lambda: world.place(voucher, int(shop.shopper()))
    order, first, second = shop.buy(), elsewhere(), elsewhere()
    world.copy_order(first, "older")
    shop.wait_status(first, "unpaid")
    shop.wait_status(order, "unpaid")
    world.copy_order(order, "older")
    world.browser.one(f"{shop.row(order)} button").click()
    shop.wait_status(order, "paid")
    world.copy_order(second, "older")
    shop.wait_status(second, "unpaid")
    assert world.browser.all(f'{shop.row(order)}[data-status="paid"]')


def test_unavailable__tries_again_with_the_same_key(world):
    impatient = world.start({"SECKILL_ORDER_TIMEOUT_MS": "1000"})
    shop = Shop(world, f"http://127.0.0.1:{impatient.port}", stock=5)
    world.servers("pause", "redis")
    try:
        shop.press()
        world.browser.wait_text(shop.message, "Retrying in")
        world.browser.screenshot("shop-busy")
    finally:
        world.servers("resume", "redis")
    world.browser.wait_text(shop.message, "is placed")
    keys = world.browser.js("return keysSent")
    assert len(keys) >= 2 and len(set(keys)) == 1, keys
    assert world.stock_left(shop.voucher) == 4


# Records the duration of the longest task of the page.
LONGEST = """
window.longestMs = 0;
new PerformanceObserver((list) => list.getEntries().forEach(({duration}) => {
    window.longestMs = Math.max(window.longestMs, duration);
})).observe({type: 'longtask'});"""


def test_work__of_20_bits_earns_a_ticket(world):
    shop = Shop(world, stock=5, requires_ticket=True, pow_bits=20)
    world.browser.js(LONGEST)
    began = time.monotonic()
    shop.buy()
    print(f"20 bits and the order: {time.monotonic() - began:.1f} s, longest task of the page: "
          f"{world.browser.js('return longestMs')} ms (0: less than 50)")
    assert world.stock_left(shop.voucher) == 4


def test_work__leaves_the_page_alive_and_can_be_stopped(world):
    """This work would take an hour."""
    shop = Shop(world, stock=5, requires_ticket=True, pow_bits=32)
    browser, progress = world.browser, f"return document.querySelector('{shop.card} progress').value"
    shop.press()
    browser.wait_text(shop.message, "solving a puzzle")
    browser.wait("progress", lambda: browser.js(progress) > 0)
    browser.screenshot("shop-work")
    world.call("POST", f"/v1/vouchers/{shop.voucher}/restock", world.admin, {"add": 1})
    browser.wait_text(f"{shop.card} .stock", "6 of 6 left")
    browser.one(f"{shop.card} .work button").click()
    browser.wait_text(shop.message, "Stopped")
    browser.wait_text(f"{shop.card} .work", "The puzzle is stopped")
    assert world.stock_left(shop.voucher) == 6
    browser.wait_text(f"{shop.card} > button", "Buy")


def test_work__is_done_before_the_sale_opens(world):
    with world.browser.early("Math.random = () => 0.99"): # the work begins a minute before
        shop = Shop(world, stock=5, requires_ticket=True, pow_bits=12, begin_at=harness.moment(59))
    world.browser.wait_text(f"{shop.card} .work", "has solved")
    assert shop.state() == "upcoming"
    world.browser.screenshot("shop-work-done")
    world.call("PATCH", f"/v1/vouchers/{shop.voucher}", world.admin, {"begin_at": harness.moment(-1)})
    world.browser.wait("it opens", lambda: shop.state() == "open")
    shop.buy()
    asked = world.browser.js("return performance.getEntriesByType('resource').map((each) => each.name)")
    assert len([each for each in asked if each.endswith("/ticket")]) == 2, asked # a challenge, a ticket


def test_work__is_possible_where_the_address_is_not_secure(world):
    voucher = world.voucher(stock=5, requires_ticket=True, pow_bits=8)
    browser, url = world.browser, f"http://shop.test:{world.service.port}"
    browser.open(url)
    assert browser.js("return [isSecureContext, crypto.subtle === undefined]") == [False, True]
    browser.one("#enter:not([hidden])").click()
    browser.one("#token").send_keys(world.service.token(4713))
    browser.one("#signin .main").click()
    Shop(world, url, voucher, afresh=False).buy()
    assert world.stock_left(voucher) == 4


# The next read of an entry fails.
FAIL_ENTRY = """
const {fetch} = window;
window.fetch = (url, options) => {
    if (!String(url).endsWith('/entry'))
        return fetch(url, options);
    window.fetch = fetch;
    return Promise.reject(new TypeError('planned'));
};"""


def test_lottery__is_entered_and_won(world):
    shop = Shop(world, stock=1, admission="lottery")
    browser = world.browser
    browser.wait_text(f"{shop.card} > button", "Enter the draw")
    shop.press()
    browser.wait_text(shop.message, "You take part in the draw")
    browser.open(world.url, afresh=False)
    browser.wait_text(f"{shop.card} > button", "Entered")
    assert world.stock_left(shop.voucher) == 1
    browser.js(FAIL_ENTRY)
    world.call("PATCH", f"/v1/vouchers/{shop.voucher}", world.admin, {"end_at": harness.moment(-1)})
    browser.wait_text(shop.message, "You have won")
    browser.one('[data-order][data-status="unpaid"]')
    browser.wait_text(f"{shop.card} > button", "Ordered: pay now")


def test_keyboard__alone_is_enough(world):
    shop = Shop(world, stock=5)
    browser = world.browser
    button = browser.one(f"{shop.card} > button")
    for _ in range(30):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        if browser.driver.switch_to.active_element == button:
            break
    assert browser.driver.switch_to.active_element == button
    assert browser.js("return getComputedStyle(arguments[0]).outlineStyle", button) == "solid"
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    browser.wait_text(shop.message, "is placed")
    assert browser.driver.switch_to.active_element == button # it was not moved or lost


def test_screen_reader__hears_the_verdict_and_not_the_clock(world):
    shop = Shop(world, stock=5)
    browser = world.browser
    assert browser.one(shop.message).get_attribute("role") == "status"
    assert browser.one(f'{shop.card} [role="timer"]').get_attribute("aria-live") == "off"
    tree = browser.cdp("Accessibility.getFullAXTree")["nodes"]
    buttons = [node for node in tree if node.get("role", {}).get("value") == "button"]
    told = [(node["name"]["value"], node.get("description", {}).get("value")) for node in buttons]
    assert ("Buy for ¥9", world.title(shop.voucher)) in told, told


def test_phone__has_no_sideways_scrolling_and_large_buttons(world):
    shop = Shop(world, stock=5)
    browser = world.browser
    try:
        for size in (NARROW, PHONE):
            browser.resize(size)
            assert browser.js("return document.documentElement.scrollWidth") <= size[0], size
        assert browser.one(f"{shop.card} > button").rect["height"] >= 44
        browser.be_dark(True)
        shop.buy()
        browser.screenshot("shop-phone-dark")
    finally:
        browser.be_dark(False)
        browser.resize(DESK)


def test_currency__is_that_of_the_setting(world):
    voucher = world.voucher(price_cents=1234567, face_value_cents=2000000)
    for currency, price in (("EUR", "€12,345.67"), ("JPY", "¥1,234,567"), ("KWD", "KWD 1,234.567")):
        other = world.start({"SECKILL_CURRENCY": currency})
        url = f"http://127.0.0.1:{other.port}"
        shop = Shop(world, url, voucher)
        assert world.browser.text(f"{shop.card} > button") == f"Buy for {price}"
        assert world.browser.text(f"{shop.card} .price strong") == price
        dashboard.open_dashboard(world, url=url)
        world.browser.wait_text(f'#vouchers [data-key="{voucher}"]', price)
        world.browser.one("#create").click()
        title = world.new_title()
        dashboard.fill(world.browser, title=title, price_cents="12", face_value_cents="13")
        dashboard.save(world.browser)
        world.browser.wait_text("#done", title)
        made = world.find(title)
        world.test.callback(world.end, made["id"])
        assert made["price_cents"] == {"EUR": 1200, "JPY": 12, "KWD": 12000}[currency]


def test_without_javascript__the_pages_say_so_at_their_top(world):
    browser = world.browser
    browser.cdp("Emulation.setScriptExecutionDisabled", value=True)
    try:
        for path in ("/", "/admin"):
            browser.driver.get(world.url + path)
            note = browser.one("noscript .message")
            assert "needs JavaScript" in note.text
            assert note.rect["y"] < 150, note.rect
    finally:
        browser.cdp("Emulation.setScriptExecutionDisabled", value=False)


def test_chinese__by_the_language_of_the_browser(world):
    browser, world.browser = world.browser, world.chinese()
    try:
        shop = Shop(world, stock=5)
        assert world.browser.driver.title == "限时秒杀"
        assert world.browser.js("return document.documentElement.lang") == "zh-CN"
        world.browser.wait_text(f"{shop.card} > button", "立即抢购")
        shop.press()
        world.browser.wait_text(shop.message, "抢到了！订单")
        assert re.search(r"20\d\d年.* 下单", world.browser.text(".order"))
        world.browser.screenshot("shop-chinese")
        left = world.browser.js("return document.body.innerText")
        assert not re.search(r"\b(Buy|Order|left|Sold)\b", left), left
        assert world.browser.complaints() == []
    finally:
        world.browser = browser


def test_texts__are_the_same_in_both_languages(world):
    for page in ("shop", "admin"):
        told = world.raw("GET", f"/web/{page}_texts.js")[2].decode()
        english, chinese = (
            {name: sorted(re.findall(r"\{\w+\}", text)) for name, text in re.findall(r"(\w+): '([^']*)'", part)}
            for part in told.split("\n};")[0].split("zh: {"))
        assert len(english) > 60
        assert english == chinese, set(english) ^ set(chinese)


def test_without_dev_login__a_token_is_asked_for(world):
    plain = world.start({"SECKILL_DEV_LOGIN": "0"})
    browser = world.browser
    status, told = plain.call("POST", "/v1/dev/token", body={"user_id": 1, "role": "shopper"})
    assert (status, told["code"]) == (404, "not_found")
    browser.open(f"http://127.0.0.1:{plain.port}")
    browser.one("#enter:not([hidden])").click()
    browser.one("#token").send_keys("nonsense")
    browser.one("#signin .main").click()
    browser.wait_text("#signin .error", "not a valid token")
    browser.one("#token").clear()
    browser.one("#token").send_keys(plain.token(4711))
    browser.one("#signin .main").click()
    browser.wait_text("#shopper", "Shopper 4711")
    assert not browser.one("#signin").is_displayed()


def test_link__brings_a_token_and_signs_nobody_in(world):
    plain = world.start({"SECKILL_DEV_LOGIN": "0"})
    browser, url = world.browser, f"http://127.0.0.1:{plain.port}"
    for path, role, seen in (("/", "shopper", "Shopper 4712"), ("/admin", "admin", "instance")):
        token = plain.token(4712, role)
        browser.open(url)
        browser.open("about:blank", afresh=False)
        browser.open(f"{url}{path}#token={token}", afresh=False)
        browser.wait("the form", lambda: browser.one("#signin").is_displayed())
        assert browser.driver.current_url == url + path
        assert not browser.js("return JSON.stringify([localStorage, sessionStorage])").count(token)
        assert browser.one("#token").get_attribute("value") == token
        browser.js("location.hash = 'token=nonsense'") # a link that is opened where the page is
        browser.wait("the other token", lambda: browser.one("#token").get_attribute("value") == "nonsense")
        browser.js("location.hash = arguments[0]", f"token={token}")
        browser.wait("the first one", lambda: browser.one("#token").get_attribute("value") == token)
        browser.one("#signin .main").click()
        browser.wait_text("body", seen)
        assert browser.driver.current_url == url + path
