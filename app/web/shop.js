/* shop.js - the shop page: sign-in, vouchers, the buy button, my orders. */
import {buy} from '/web/buy.js';
import {call, claims, clock, devToken, element, every, listVouchers, setText, takeToken} from '/web/common.js';
import {duration, hasText, moment, money, number, percent, text, translatePage} from '/web/i18n.js';
import {Ticket} from '/web/ticket.js';

const REFRESH_MS = 2000;         /* of the open vouchers, shortly before and after a change */
const REFRESH_CALM_MS = 5000;    /* of the open vouchers otherwise */
const BUSY_MS = 20000;           /* before and after a change */
const REFRESH_OTHERS_MS = 10000; /* of upcoming and ended vouchers, and of one that is followed */
const EARLY_MS = 60000;          /* before the opening, when work on a challenge may begin */
const ENDED_SHOWN = 3;
const TOKEN = 'seckill.token';

const byId = (id) => document.getElementById(id);
const shopper = {token: null, id: null, isDev: false};
const cards = new Map();  /* voucher id: Card */
const orders = new Map(); /* order id: Row */

/* -- sign-in -- */

function showShopper() {
    const isSignedIn = shopper.token !== null;
    setText(byId('shopper'), isSignedIn ? text('shopper', {id: shopper.id}) : '');
    byId('another').hidden = !(isSignedIn && shopper.isDev);
    byId('signout').hidden = !isSignedIn || shopper.isDev;
    byId('signin').hidden = isSignedIn;
    byId('orders-section').hidden = !isSignedIn;
}

function signIn(token) {
    const user = claims(token);
    if (!user?.sub)
        return false;
    shopper.token = token;
    shopper.id = user.sub;
    localStorage.setItem(TOKEN, token);
    for (const row of orders.values())
        row.element.remove();
    orders.clear();
    for (const card of cards.values()) {
        card.showMessage('');
        card.renewTicket();
    }
    showShopper();
    refreshOrders();
    return true;
}

function signOut() {
    localStorage.removeItem(TOKEN);
    shopper.token = null;
    showShopper();
}

async function signInAsAnyone() {
    const token = await devToken('shopper', 100000 + Math.floor(Math.random() * 900000));
    shopper.isDev = token !== null;
    if (token !== null)
        signIn(token);
}

async function start() {
    const kept = localStorage.getItem(TOKEN);
    const user = kept === null ? null : claims(kept);
    shopper.isDev = (await devToken('shopper', 1).catch(() => null)) !== null;
    if (user !== null && user.exp * 1000 > Date.now() + 60000)
        signIn(kept);
    else if (shopper.isDev)
        await signInAsAnyone();
    showShopper();
}

/* -- a voucher -- */

function openState(voucher) {
    const now = clock.now();
    if (now < voucher.beginMs)
        return 'upcoming';
    if (now >= voucher.endMs)
        return 'ended';
    return voucher.stock_left > 0 ? 'open' : 'sold_out';
}

const badgeOf = {upcoming: 'warn', open: 'good', ended: '', sold_out: 'bad'};

class Card {
    constructor(voucher) {
        const title = `voucher-${voucher.id}`;
        this.isBuying = false;
        this.badge = element('span', {class: 'badge'});
        this.timeName = element('span', {});
        this.time = element('strong', {class: 'number', role: 'timer', 'aria-live': 'off'});
        this.title = element('h3', {id: title});
        this.text = element('p', {class: 'text'});
        this.price = element('strong', {class: 'number'});
        this.worth = element('span', {class: 'muted'});
        this.off = element('span', {class: 'off small'});
        this.fill = element('div');
        this.left = element('span', {class: 'number'});
        this.limit = element('span', {class: 'muted'});
        this.workText = element('p', {class: 'small muted'});
        this.progress = element('progress', {max: 1, 'aria-label': text('work')});
        this.stop = element('button', {type: 'button', class: 'small', onclick: () => this.ticket.stop()}, text('stop'));
        this.work = element('div', {class: 'work'}, this.workText, this.stop, this.progress);
        this.button = element('button', {class: 'main', type: 'button', 'aria-describedby': title,
                                         onclick: () => this.press()});
        this.message = element('p', {class: 'message', role: 'status'});
        this.element = element('article', {class: 'card voucher', 'data-id': voucher.id, 'aria-labelledby': title},
            element('header', {}, this.badge, element('span', {class: 'small muted'}, this.timeName, ' ', this.time)),
            this.title, this.text,
            element('p', {class: 'price'}, this.price, this.worth, this.off),
            element('div', {class: 'supply'},
                element('div', {class: 'track', 'aria-hidden': 'true'}, this.fill),
                element('p', {class: 'stock'}, this.left, this.limit), this.work),
            this.button, this.message);
        this.voucher = {id: voucher.id};
        this.renewTicket();
        this.update(voucher);
    }

    /* A ticket is of one shopper. */
    renewTicket() {
        this.ticket?.stop();
        this.ticket = new Ticket(this.voucher.id, () => this.showWork());
        /* Half of it is random, so that shoppers who wait do not ask at the same time. */
        this.earlyMs = EARLY_MS * (1 + Math.random()) / 2;
    }

    update(voucher) {
        if (voucher.stock_left !== this.voucher?.stock_left)
            changedAt = clock.device();
        this.voucher = {...voucher, beginMs: Date.parse(voucher.begin_at), endMs: Date.parse(voucher.end_at)};
        const off = 1 - voucher.price_cents / voucher.face_value_cents;
        setText(this.title, voucher.title);
        setText(this.text, voucher.description ?? '');
        this.text.hidden = !voucher.description;
        setText(this.price, money(voucher.price_cents));
        setText(this.worth, text('worth', {money: money(voucher.face_value_cents)}));
        setText(this.off, off > 0 ? text('off', {percent: percent(off)}) : '');
        setText(this.left, text('left', {left: number(voucher.stock_left), total: number(voucher.stock_total)}));
        setText(this.limit, voucher.per_user_limit > 1 ? text('limit', {n: voucher.per_user_limit}) : '');
        this.fill.style.width = `${100 * voucher.stock_left / Math.max(1, voucher.stock_total)}%`;
        this.tick();
    }

    /* Show what depends on the time; called every second, and by update(). */
    tick() {
        const state = openState(this.voucher);
        const hasOpened = this.state === 'upcoming' && state === 'open';
        this.state = state;
        this.element.dataset.state = state;
        this.element.classList.toggle('over', state === 'ended' || state === 'sold_out');
        this.badge.className = `badge ${badgeOf[state]}`;
        setText(this.badge, text(state));
        this.showTime(state);
        if (hasOpened)
            this.showMessage('now_open', {}, 'good');
        if (!this.isBuying)
            this.showButton(state);
        this.showWork();
        if (state === 'upcoming' && this.needsWork() && this.ticket.state === 'idle' && shopper.token !== null &&
            !document.hidden && this.voucher.beginMs - clock.now() < this.earlyMs)
            this.prepareTicket();
    }

    needsWork() {
        return this.voucher.requires_ticket && this.voucher.pow_bits > 0;
    }

    /* After a failure later again. */
    async prepareTicket() {
        this.earlyMs /= 2;
        await this.ticket.prepare(shopper.token).catch(() => {});
    }

    showWork() {
        const state = this.ticket.state;
        this.work.hidden = !this.needsWork();
        this.work.dataset.state = state;
        setText(this.workText, text(`work_${state}`, {percent: percent(this.ticket.share)}));
        this.progress.value = state === 'solving' ? this.ticket.share : Number(state === 'solved');
    }

    showTime(state) {
        const {beginMs, endMs} = this.voucher;
        if (state === 'ended') {
            setText(this.timeName, text('ended_at', {time: moment(endMs)}));
            setText(this.time, '');
            return;
        }
        setText(this.timeName, text(state === 'upcoming' ? 'opens_in' : 'ends_in'));
        setText(this.time, duration((state === 'upcoming' ? beginMs : endMs) - clock.now()));
    }

    showButton(state) {
        const price = money(this.voucher.price_cents);
        const labels = {
            upcoming: () => text('opens_at', {time: moment(this.voucher.beginMs)}),
            open: () => text('buy', {money: price}),
            ended: () => text('ended'),
            sold_out: () => text('sold_out'),
        };
        setText(this.button, labels[state]());
        this.button.setAttribute('aria-disabled', String(state !== 'open'));
    }

    showMessage(name, values = {}, tone = '') {
        this.message.className = `message ${tone}`;
        setText(this.message, name === '' ? '' : text(name, values));
    }

    async press() {
        if (this.isBuying)
            return;
        if (this.state === 'upcoming' || this.state === 'ended') {
            this.showOutcome(this.state === 'upcoming' ? 'not_started' : 'sale_ended', {});
            return;
        }
        if (shopper.token === null) {
            this.showMessage('unauthenticated', {}, 'warn');
            byId('token').focus();
            return;
        }
        this.isBuying = true;
        this.button.setAttribute('aria-busy', 'true');
        setText(this.button, text('buying'));
        this.showMessage(this.needsWork() && this.ticket.state !== 'solved' ? 'solving' : '');
        try {
            this.showPlaced(await buy(this.voucher, this.ticket, shopper.id, shopper.token,
                                      (name, values) => this.showMessage(name, values, 'warn')));
        } catch (problem) {
            this.showOutcome(problem.gave_up ? 'gave_up' : problem.code, problem);
        }
        this.isBuying = false;
        this.button.removeAttribute('aria-busy');
        this.tick();
        refreshVouchers();
    }

    showPlaced(order) {
        const left = Date.parse(order.expires_at) - clock.now();
        this.showMessage(order.http === 201 || order.status === 'unpaid' ? 'placed' : 'repeated',
                 {id: order.id, time: duration(left)}, 'good');
        showOrder(order);
    }

    showOutcome(code, problem) {
        const id = problem.body?.order_id;
        const time = duration(this.voucher.beginMs - clock.now());
        if (code === 'sold_out')
            this.showMessage('sold_out_message', {}, 'bad');
        else if (code === 'already_ordered')
            this.showMessage(this.voucher.per_user_limit > 1 ? 'already_limit' : code, {id}, 'good');
        else if (hasText(code))
            this.showMessage(code, {id, time}, 'warn');
        else
            this.showMessage('failed', {detail: problem.message}, 'bad');
        if (code === 'unauthenticated')
            signOut();
        if (code === 'not_started')
            clock.errorMs = Infinity; /* the next answer sets the clock */
    }
}

/* -- live stock -- */

/* Of one voucher, because a browser allows few connections. If it fails, the refreshes remain. */
const live = {card: null, source: null};

function isLive() {
    return live.source?.readyState === EventSource.OPEN;
}

/* Follow the first voucher that sells, as long as somebody looks. */
function followStock() {
    const card = document.hidden ? null
        : [...byId('vouchers').children].map((child) => cards.get(child.dataset.id))
            .find((each) => each?.state === 'open') ?? null;
    if (card === live.card)
        return;
    live.source?.close();
    live.card = card;
    live.source = card && new EventSource(`/v1/vouchers/${card.voucher.id}/stream`);
    if (card)
        live.source.onmessage = ({data}) => card.update({...card.voucher, stock_left: JSON.parse(data).stock_left});
}

/* -- the vouchers -- */

const ranks = {open: 0, upcoming: 1, sold_out: 2, ended: 3};
let othersRefreshedAt = -Infinity;
let changedAt = -Infinity;

function vouchersPeriodMs() {
    const now = clock.now();
    const isDue = [...cards.values()].some(({state, voucher}) =>
        state === 'upcoming' && voucher.beginMs - now < BUSY_MS);
    if (isLive() && !isDue && [...cards.values()].filter(({state}) => state === 'open').length === 1)
        return REFRESH_OTHERS_MS;
    return isDue || clock.device() - changedAt < BUSY_MS ? REFRESH_MS : REFRESH_CALM_MS;
}

/* Open vouchers first, then by the time of their next change. A card that has the focus does not
   move. */
function arrange() {
    const shelf = byId('vouchers');
    const sorted = [...cards.values()].sort((a, b) =>
        ranks[a.state] - ranks[b.state] ||
        (a.state === 'upcoming' ? a.voucher.beginMs - b.voucher.beginMs : b.voucher.id.length - a.voucher.id.length ||
            (b.voucher.id > a.voucher.id ? 1 : -1)));
    if (shelf.contains(document.activeElement))
        return;
    sorted.forEach((card, i) => {
        if (shelf.children[i] !== card.element)
            shelf.insertBefore(card.element, shelf.children[i] ?? null);
    });
}

function updateVouchers(vouchers) {
    for (const voucher of vouchers) {
        const card = cards.get(voucher.id);
        if (card) {
            card.update(voucher);
        } else {
            cards.set(voucher.id, new Card(voucher));
            byId('vouchers').append(cards.get(voucher.id).element);
        }
    }
    arrange();
}

async function refreshVouchers() {
    try {
        if (clock.device() - othersRefreshedAt > REFRESH_OTHERS_MS) {
            othersRefreshedAt = clock.device();
            updateVouchers(await listVouchers(`state=ended&limit=${ENDED_SHOWN}`));
            updateVouchers(await listVouchers('state=upcoming&limit=50'));
        }
        updateVouchers(await listVouchers('state=open&limit=50'));
        setText(byId('notice'), cards.size === 0 ? text('no_vouchers') : '');
        return 0;
    } catch (problem) {
        othersRefreshedAt = -Infinity;
        setText(byId('notice'), text('offline'));
        return Math.max(5000, (problem.retryAfterS ?? 0) * 1000);
    }
}

/* -- my orders -- */

const orderBadge = {unpaid: 'warn', paid: 'good', redeemed: 'good', cancelled: '', expired: 'bad', refunded: ''};

class Row {
    constructor(order) {
        const name = `order-${order.id}`;
        this.title = element('h3', {});
        this.badge = element('span', {class: 'badge'});
        this.time = element('span', {class: 'small muted number'});
        this.pay = element('button', {type: 'button', class: 'small main', 'aria-describedby': name,
                                      onclick: () => this.act(() => this.doPay(), 'order_paid')}, text('pay'));
        this.cancel = element('button', {type: 'button', class: 'small', 'aria-describedby': name,
                                         onclick: () => this.confirmCancel()}, text('cancel_short'));
        this.message = element('p', {class: 'message bad small', role: 'status'});
        this.element = element('li', {class: 'order', 'data-order': order.id},
            element('div', {class: 'what'}, this.title,
                element('p', {class: 'facts'}, this.badge,
                    element('span', {id: name, class: 'small muted number'}, text('order', {id: order.id})), this.time)),
            element('div', {class: 'acts'}, this.pay, this.cancel), this.message);
        this.update(order);
    }

    update(order) {
        this.order = order;
        const title = cards.get(order.voucher_id)?.voucher.title ?? text('voucher_n', {id: order.voucher_id});
        setText(this.title, `${title} · ${money(order.price_cents)}`);
        this.tick();
    }

    tick() {
        const {status, expires_at} = this.order;
        const left = Date.parse(expires_at) - clock.now();
        const isUnpaid = status === 'unpaid';
        this.element.dataset.status = status;
        this.badge.className = `badge ${orderBadge[status]}`;
        setText(this.badge, text(status));
        setText(this.time, isUnpaid ? (left > 0 ? text('pay_within', {time: duration(left)}) : text('time_over')) : '');
        this.pay.hidden = !isUnpaid || !shopper.isDev;
        this.cancel.hidden = !isUnpaid;
    }

    async doPay() {
        const token = await devToken('payment', 1);
        return call('POST', `/v1/orders/${this.order.id}/pay`, {
            token, body: {payment_ref: `demo-${this.order.id}`, amount_cents: this.order.price_cents},
        });
    }

    async confirmCancel() {
        const dialog = byId('confirm');
        setText(byId('confirm-text'), text('confirm_text', {title: this.title.textContent}));
        dialog.returnValue = '';
        dialog.onclose = () => {
            if (dialog.returnValue === 'yes')
                this.act(() => call('POST', `/v1/orders/${this.order.id}/cancel`, {token: shopper.token}),
                         'order_cancelled');
        };
        dialog.showModal();
    }

    /* The buttons disappear with the new status, so the focus moves to the heading. */
    async act(work, message) {
        this.pay.disabled = this.cancel.disabled = true;
        setText(this.message, '');
        try {
            this.update(await work());
            setText(byId('announcement'), text(message, {id: this.order.id}));
            byId('orders-head').focus();
        } catch (problem) {
            setText(this.message, hasText(problem.code) ? text(problem.code) : text('failed', {detail: problem.message}));
        }
        this.pay.disabled = this.cancel.disabled = false;
        refreshOrders();
        refreshVouchers();
    }
}

function showOrder(order) {
    const row = orders.get(order.id);
    byId('orders').querySelector('.empty')?.remove();
    if (row && order.status === 'unpaid' && row.order.status !== 'unpaid')
        return; /* a list may be older than what this page has done */
    if (row) {
        row.update(order);
        return;
    }
    orders.set(order.id, new Row(order));
    byId('orders').prepend(orders.get(order.id).element);
}

async function refreshOrders() {
    if (shopper.token === null)
        return 0;
    try {
        const page = await call('GET', '/v1/orders?limit=50', {token: shopper.token});
        for (const order of page.items.reverse())
            showOrder(order);
        if (orders.size === 0 && !byId('orders').firstChild)
            byId('orders').append(element('li', {class: 'empty'}, text('no_orders')));
    } catch (problem) {
        if (problem.code === 'unauthenticated')
            signOut();
        return 5000;
    }
    return 0;
}

/* Often while an order may expire, otherwise rarely. */
function ordersPeriodMs() {
    return [...orders.values()].some((row) => row.order.status === 'unpaid') ? 3000 : 15000;
}

/* -- the page -- */

/* At the beginning of each second of the server's clock, so that a sale opens on time. */
function tick() {
    for (const card of cards.values())
        card.tick();
    for (const row of orders.values())
        row.tick();
    followStock();
    setTimeout(tick, 1000 - clock.now() % 1000 + 5);
}

takeToken();
window.onhashchange = takeToken;
translatePage();
document.title = text('shop');
byId('another').onclick = signInAsAnyone;
byId('signout').onclick = signOut;
byId('signin').querySelector('form').onsubmit = (event) => {
    event.preventDefault();
    const isIn = signIn(byId('token').value.trim());
    setText(byId('signin').querySelector('.error'), isIn ? '' : text('token_bad'));
};
document.addEventListener('visibilitychange', followStock);
await Promise.all([start(), refreshVouchers()]);
every(vouchersPeriodMs, refreshVouchers);
every(ordersPeriodMs, refreshOrders);
tick();
