/* shop.js - the shop page: sign-in, the shelf of vouchers, their live stock. */
import {Card} from '/web/card.js';
import {clock, element, every, listVouchers, setText, takeToken} from '/web/common.js';
import {text, translatePage} from '/web/i18n.js';
import {clearOrders, ordersPeriodMs, refreshOrders, tickOrders} from '/web/orders.js';
import {resume, shopper, signIn, signInAsAnyone, signOut} from '/web/shopper.js';
import {languages} from '/web/shop_texts.js';

const REFRESH_MS = 2000;         /* interval between reads of the open vouchers near a change */
const REFRESH_CALM_MS = 5000;    /* interval between reads of the open vouchers otherwise */
const BUSY_MS = 20000;           /* the time before and after a change that counts as near */
const REFRESH_OTHERS_MS = 10000; /* interval between reads of other vouchers or during live stock */
const ENDED_SHOWN = 3;
const FOLLOWED_MAX = 20;         /* vouchers in one stream */

const byId = (id) => document.getElementById(id);
const cards = new Map(); /* from a voucher id to its Card */

/* -- live stock -- */

/* One stream has the stock of all vouchers, because a browser opens only a few connections to a
   server. If the stream fails, the page still reads the vouchers at intervals. */
const live = {ids: '', source: null, isRefused: false};

function isLive() {
    return live.source?.readyState === EventSource.OPEN;
}

function isRunning(card) {
    return card.state === 'open' || card.state === 'sold_out' || card.state === 'drawing';
}

/* Returns the cards of running sales whose live stock is shown: first vouchers with stock left, and
   among these first the cards in view. If the service refuses a stream of several vouchers, because
   other pages follow other vouchers, only the first card is returned. */
function cardsToFollow() {
    const all = [...byId('vouchers').children].map((child) => cards.get(child.dataset.id))
        .filter((card) => card && isRunning(card))
        .sort((a, b) => ranks[a.state] - ranks[b.state] || Number(b.isInView ?? 0) - Number(a.isInView ?? 0));
    return all.slice(0, live.isRefused ? 1 : FOLLOWED_MAX);
}

/* Opens the stream for the current vouchers. While the page is hidden, there is no stream. */
function followStock() {
    const followed = document.hidden ? [] : cardsToFollow().map((card) => card.voucher.id);
    const ids = followed.sort().join(',');
    if (ids === live.ids)
        return;
    live.source?.close();
    live.ids = ids;
    live.source = ids === '' ? null
        : new EventSource(followed.length > 1 ? `/v1/stream?vouchers=${ids}` : `/v1/vouchers/${ids}/stream`);
    if (live.source === null)
        return;
    live.source.onmessage = ({data}) => {
        const event = JSON.parse(data);
        for (const {id, stock_left, drawn} of event.items ?? [{...event, id: ids}]) {
            const {voucher} = cards.get(id);
            cards.get(id).update({...voucher, stock_left, drawn_at: voucher.drawn_at ?? drawn});
        }
    };
    live.source.onerror = ({target}) => {
        live.isRefused ||= followed.length > 1 && target.readyState === EventSource.CLOSED;
    };
}

/* -- the vouchers -- */

const ranks = {open: 0, upcoming: 1, drawing: 2, sold_out: 2, ended: 3};
let othersRefreshedAt = -Infinity;

function vouchersPeriodMs() {
    const now = clock.now();
    const isDue = [...cards.values()].some(({state, voucher}) =>
        state === 'upcoming' && voucher.beginMs - now < BUSY_MS);
    if (isLive() && !isDue && [...cards.values()].filter(isRunning).length === live.ids.split(',').length)
        return REFRESH_OTHERS_MS;
    const changedAt = Math.max(...[...cards.values()].map((each) => each.changedAt));
    return isDue || clock.device() - changedAt < BUSY_MS ? REFRESH_MS : REFRESH_CALM_MS;
}

const view = new IntersectionObserver((changes) => {
    for (const {target, isIntersecting} of changes)
        cards.get(target.dataset.id).isInView = isIntersecting;
});

/* Sorts the cards: open vouchers first, then upcoming ones, the next to open first. While a card is
   in view or has the focus, the cards stay where they are, and new cards are appended. */
function arrange() {
    const shelf = byId('vouchers');
    const all = [...cards.values()];
    if (all.some((card) => card.isInView) || shelf.contains(document.activeElement))
        return;
    all.sort((a, b) =>
        ranks[a.state] - ranks[b.state] ||
        (a.state === 'upcoming' ? a.voucher.beginMs - b.voucher.beginMs : b.voucher.id.length - a.voucher.id.length ||
            (b.voucher.id > a.voucher.id ? 1 : -1)));
    shelf.append(...all.map((card) => card.element));
}

function updateVouchers(vouchers) {
    for (const placeholder of byId('vouchers').querySelectorAll('.blank, .empty'))
        placeholder.remove();
    showShopper(); /* shows the orders only now, because the vouchers above would move them */
    for (const voucher of vouchers) {
        const card = cards.get(voucher.id);
        if (card) {
            card.update(voucher);
        } else {
            cards.set(voucher.id, new Card(voucher));
            byId('vouchers').append(cards.get(voucher.id).element);
            view.observe(cards.get(voucher.id).element);
        }
    }
    if (cards.size === 0)
        byId('vouchers').append(element('p', {class: 'empty'}, text('no_vouchers')));
    arrange();
}

async function refreshVouchers() {
    try {
        const queries = ['state=open&limit=50'];
        if (clock.device() - othersRefreshedAt > REFRESH_OTHERS_MS) {
            othersRefreshedAt = clock.device();
            queries.push('state=upcoming&limit=50', `state=ended&limit=${ENDED_SHOWN}`);
        }
        updateVouchers((await Promise.all(queries.map(listVouchers))).flat());
        setText(byId('notice'), '');
        return 0;
    } catch (problem) {
        othersRefreshedAt = -Infinity;
        setText(byId('notice'), text('offline'));
        return Math.max(5000, (problem.retryAfterS ?? 0) * 1000);
    }
}

/* -- the page -- */

/* Called at the beginning of each second of the server's clock, so that a sale opens on time. */
function tick() {
    for (const card of cards.values())
        card.tick();
    tickOrders();
    followStock();
    setTimeout(tick, 1000 - clock.now() % 1000 + 5);
}

function showShopper() {
    const isSignedIn = shopper.token !== null;
    setText(byId('shopper'), isSignedIn ? text('shopper', {id: shopper.id}) : '');
    byId('another').hidden = !(isSignedIn && shopper.isDev);
    byId('signout').hidden = !isSignedIn || shopper.isDev;
    byId('enter').hidden = isSignedIn;
    byId('orders-section').hidden = !isSignedIn || byId('vouchers').querySelector('.blank') !== null;
}

document.addEventListener('shopper', () => {
    clearOrders();
    for (const card of cards.values()) {
        card.showMessage('');
        card.renewTicket();
        card.tick();
    }
    showShopper();
    refreshOrders();
});
document.addEventListener('stock', refreshVouchers);
document.addEventListener('orders', () => {
    for (const card of cards.values())
        card.tick();
});
function enter() {
    if (!byId('signin').open)
        byId('signin').showModal();
}

if (takeToken())
    enter();
window.onhashchange = () => {
    if (takeToken())
        enter();
};
translatePage(languages);
document.title = text('shop');
byId('another').onclick = signInAsAnyone;
byId('signout').onclick = signOut;
byId('enter').onclick = enter;
for (const button of document.querySelectorAll('dialog .close'))
    button.onclick = () => button.closest('dialog').close();
byId('signin').querySelector('form').onsubmit = (event) => {
    event.preventDefault();
    const isIn = signIn(byId('token').value.trim());
    setText(byId('signin').querySelector('.error'), isIn ? '' : text('token_bad'));
    if (isIn)
        byId('signin').close();
};
document.addEventListener('visibilitychange', followStock);
await Promise.all([resume(), refreshVouchers()]);
every(vouchersPeriodMs, refreshVouchers, true);
every(ordersPeriodMs, refreshOrders, true);
tick();
