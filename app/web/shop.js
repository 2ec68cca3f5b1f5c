/* shop.js - the shop page: who is here, the vouchers, the button, my orders. */
import {buy} from '/web/buy.js';
import {call, claims, clock, devToken, element, every, listVouchers, setText, takeToken} from '/web/common.js';
import {duration, has, moment, money, number, percent, say, translate} from '/web/i18n.js';

const LOOK_MS = 2000;        /* at the vouchers on sale, while something happens there */
const LOOK_CALM_MS = 5000;
const LIVELY_MS = 20000;     /* for how long after a change, and before one that is due */
const LOOK_AHEAD_MS = 10000; /* at those to come */
const ENDED_SHOWN = 3;
const TOKEN = 'seckill.token';

const byId = (id) => document.getElementById(id);
const shopper = {token: null, id: null, isDev: false};
const cards = new Map();  /* voucher id: Card */
const orders = new Map(); /* order id: Row */

/* -- who -- */

function showShopper() {
    const isHere = shopper.token !== null;
    setText(byId('who'), isHere ? say('shopper', {id: shopper.id}) : '');
    byId('another').hidden = !(isHere && shopper.isDev);
    byId('signout').hidden = !isHere || shopper.isDev;
    byId('signin').hidden = isHere;
    byId('orders-section').hidden = !isHere;
}

function enter(token) {
    const told = claims(token);
    if (!told?.sub)
        return false;
    shopper.token = token;
    shopper.id = told.sub;
    localStorage.setItem(TOKEN, token);
    for (const row of orders.values())
        row.element.remove();
    orders.clear();
    for (const card of cards.values())
        card.say('');
    showShopper();
    refreshOrders();
    return true;
}

function leave() {
    localStorage.removeItem(TOKEN);
    shopper.token = null;
    showShopper();
}

async function enterAsAnybody() {
    const token = await devToken('shopper', 100000 + Math.floor(Math.random() * 900000));
    shopper.isDev = token !== null;
    if (token !== null)
        enter(token);
}

async function begin() {
    const kept = localStorage.getItem(TOKEN);
    const told = kept === null ? null : claims(kept);
    shopper.isDev = (await devToken('shopper', 1).catch(() => null)) !== null;
    if (told !== null && told.exp * 1000 > Date.now() + 60000)
        enter(kept);
    else if (shopper.isDev)
        await enterAsAnybody();
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
        this.button = element('button', {class: 'main', type: 'button', 'aria-describedby': title,
                                         onclick: () => this.press()});
        this.message = element('p', {class: 'message', role: 'status'});
        this.element = element('article', {class: 'card voucher', 'aria-labelledby': title},
            element('header', {}, this.badge, element('span', {class: 'small muted'}, this.timeName, ' ', this.time)),
            this.title, this.text,
            element('p', {class: 'price'}, this.price, this.worth, this.off),
            element('div', {class: 'supply'},
                element('div', {class: 'track', 'aria-hidden': 'true'}, this.fill),
                element('p', {class: 'stock'}, this.left, this.limit)),
            this.button, this.message);
        this.learn(voucher);
    }

    learn(voucher) {
        if (voucher.stock_left !== this.voucher?.stock_left)
            changedAt = clock.device();
        this.voucher = {...voucher, beginMs: Date.parse(voucher.begin_at), endMs: Date.parse(voucher.end_at)};
        const off = 1 - voucher.price_cents / voucher.face_value_cents;
        setText(this.title, voucher.title);
        setText(this.text, voucher.description ?? '');
        this.text.hidden = !voucher.description;
        setText(this.price, money(voucher.price_cents));
        setText(this.worth, say('worth', {money: money(voucher.face_value_cents)}));
        setText(this.off, off > 0 ? say('off', {percent: percent(off)}) : '');
        setText(this.left, say('left', {left: number(voucher.stock_left), total: number(voucher.stock_total)}));
        setText(this.limit, voucher.per_user_limit > 1 ? say('limit', {n: voucher.per_user_limit}) : '');
        this.fill.style.width = `${100 * voucher.stock_left / Math.max(1, voucher.stock_total)}%`;
        this.tick();
    }

    /* What time alone changes; called every second, and by learn(). */
    tick() {
        const state = openState(this.voucher);
        const hasOpened = this.state === 'upcoming' && state === 'open';
        this.state = state;
        this.element.dataset.state = state;
        this.element.classList.toggle('over', state === 'ended' || state === 'sold_out');
        this.badge.className = `badge ${badgeOf[state]}`;
        setText(this.badge, say(state));
        this.tellTime(state);
        if (hasOpened)
            this.say('told_open', {}, 'good');
        if (!this.isBuying)
            this.tellButton(state);
    }

    tellTime(state) {
        const {beginMs, endMs} = this.voucher;
        if (state === 'ended') {
            setText(this.timeName, say('ended_at', {time: moment(endMs)}));
            setText(this.time, '');
            return;
        }
        setText(this.timeName, say(state === 'upcoming' ? 'opens_in' : 'ends_in'));
        setText(this.time, duration((state === 'upcoming' ? beginMs : endMs) - clock.now()));
    }

    tellButton(state) {
        const price = money(this.voucher.price_cents);
        const words = {
            upcoming: () => say('opens_at', {time: moment(this.voucher.beginMs)}),
            open: () => say('buy', {money: price}),
            ended: () => say('ended'),
            sold_out: () => say('sold_out'),
        };
        setText(this.button, words[state]());
        this.button.setAttribute('aria-disabled', String(state !== 'open'));
    }

    say(name, holes = {}, tone = '') {
        this.message.className = `message ${tone}`;
        setText(this.message, name === '' ? '' : say(name, holes));
    }

    async press() {
        if (this.isBuying)
            return;
        if (this.state === 'upcoming' || this.state === 'ended') {
            this.tellVerdict(this.state === 'upcoming' ? 'not_started' : 'sale_ended', {});
            return;
        }
        if (shopper.token === null) {
            this.say('unauthenticated', {}, 'warn');
            byId('token').focus();
            return;
        }
        this.isBuying = true;
        this.button.setAttribute('aria-busy', 'true');
        setText(this.button, say('buying'));
        this.say('');
        try {
            this.tellPlaced(await buy(this.voucher, shopper.id, shopper.token,
                                      (name, holes) => this.say(name, holes, 'warn')));
        } catch (problem) {
            this.tellVerdict(problem.gave_up ? 'gave_up' : problem.code, problem);
        }
        this.isBuying = false;
        this.button.removeAttribute('aria-busy');
        this.tick();
        refreshVouchers();
    }

    tellPlaced(order) {
        const left = Date.parse(order.expires_at) - clock.now();
        this.say(order.http === 201 || order.status === 'unpaid' ? 'placed' : 'repeated',
                 {id: order.id, time: duration(left)}, 'good');
        showOrder(order);
    }

    tellVerdict(code, problem) {
        const id = problem.body?.order_id;
        const time = duration(this.voucher.beginMs - clock.now());
        if (code === 'sold_out')
            this.say('say_sold_out', {}, 'bad');
        else if (code === 'already_ordered')
            this.say(this.voucher.per_user_limit > 1 ? 'already_limit' : code, {id}, 'good');
        else if (has(code))
            this.say(code, {id, time}, 'warn');
        else
            this.say('failed', {detail: problem.message}, 'bad');
        if (code === 'unauthenticated')
            leave();
        if (code === 'not_started')
            clock.errorMs = Infinity; /* the next answer sets it anew */
    }
}

/* -- the vouchers -- */

const ranks = {open: 0, upcoming: 1, sold_out: 2, ended: 3};
let lookedAheadAt = -Infinity;
let changedAt = -Infinity;

function lookMs() {
    const now = clock.now();
    const isDue = [...cards.values()].some(({state, voucher}) =>
        state === 'upcoming' && voucher.beginMs - now < LIVELY_MS);
    return isDue || clock.device() - changedAt < LIVELY_MS ? LOOK_MS : LOOK_CALM_MS;
}

/* Those on sale first, in the order of what happens next; a card that has the focus is
   not moved from under it. */
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

function learnVouchers(vouchers) {
    for (const voucher of vouchers) {
        const card = cards.get(voucher.id);
        if (card) {
            card.learn(voucher);
        } else {
            cards.set(voucher.id, new Card(voucher));
            byId('vouchers').append(cards.get(voucher.id).element);
        }
    }
    arrange();
}

async function refreshVouchers() {
    try {
        if (clock.device() - lookedAheadAt > LOOK_AHEAD_MS) {
            lookedAheadAt = clock.device();
            learnVouchers(await listVouchers(`state=ended&limit=${ENDED_SHOWN}`));
            learnVouchers(await listVouchers('state=upcoming&limit=50'));
        }
        learnVouchers(await listVouchers('state=open&limit=50'));
        setText(byId('trouble'), cards.size === 0 ? say('no_vouchers') : '');
        return 0;
    } catch (problem) {
        lookedAheadAt = -Infinity;
        setText(byId('trouble'), say('offline'));
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
                                      onclick: () => this.act(() => this.doPay(), 'told_paid')}, say('pay'));
        this.cancel = element('button', {type: 'button', class: 'small', 'aria-describedby': name,
                                         onclick: () => this.askCancel()}, say('cancel_short'));
        this.message = element('p', {class: 'message bad small', role: 'status'});
        this.element = element('li', {class: 'order', 'data-order': order.id},
            element('div', {class: 'what'}, this.title,
                element('p', {class: 'facts'}, this.badge,
                    element('span', {id: name, class: 'small muted number'}, say('order', {id: order.id})), this.time)),
            element('div', {class: 'acts'}, this.pay, this.cancel), this.message);
        this.learn(order);
    }

    learn(order) {
        this.order = order;
        const title = cards.get(order.voucher_id)?.voucher.title ?? say('voucher_n', {id: order.voucher_id});
        setText(this.title, `${title} · ${money(order.price_cents)}`);
        this.tick();
    }

    tick() {
        const {status, expires_at} = this.order;
        const left = Date.parse(expires_at) - clock.now();
        const isUnpaid = status === 'unpaid';
        this.element.dataset.status = status;
        this.badge.className = `badge ${orderBadge[status]}`;
        setText(this.badge, say(status));
        setText(this.time, isUnpaid ? (left > 0 ? say('pay_within', {time: duration(left)}) : say('time_over')) : '');
        this.pay.hidden = !isUnpaid || !shopper.isDev;
        this.cancel.hidden = !isUnpaid;
    }

    async doPay() {
        const token = await devToken('payment', 1);
        return call('POST', `/v1/orders/${this.order.id}/pay`, {
            token, body: {payment_ref: `demo-${this.order.id}`, amount_cents: this.order.price_cents},
        });
    }

    async askCancel() {
        const sure = byId('sure');
        setText(byId('sure-what'), say('sure_what', {title: this.title.textContent}));
        sure.returnValue = '';
        sure.onclose = () => {
            if (sure.returnValue === 'yes')
                this.act(() => call('POST', `/v1/orders/${this.order.id}/cancel`, {token: shopper.token}),
                         'told_cancelled');
        };
        sure.showModal();
    }

    /* The buttons go away with the state: the focus goes to the heading. */
    async act(work, told) {
        this.pay.disabled = this.cancel.disabled = true;
        setText(this.message, '');
        try {
            this.learn(await work());
            setText(byId('news'), say(told, {id: this.order.id}));
            byId('orders-head').focus();
        } catch (problem) {
            setText(this.message, has(problem.code) ? say(problem.code) : say('failed', {detail: problem.message}));
        }
        this.pay.disabled = this.cancel.disabled = false;
        refreshOrders();
        refreshVouchers();
    }
}

function showOrder(order) {
    const row = orders.get(order.id);
    byId('orders').querySelector('.empty')?.remove();
    if (row) {
        row.learn(order);
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
            byId('orders').append(element('li', {class: 'empty'}, say('no_orders')));
    } catch (problem) {
        if (problem.code === 'unauthenticated')
            leave();
        return 5000;
    }
    return 0;
}

/* Every few seconds where an order may change by itself, else seldom. */
function ordersPeriodMs() {
    return [...orders.values()].some((row) => row.order.status === 'unpaid') ? 3000 : 15000;
}

/* -- the page -- */

/* At the beginning of each second of the nearest countdown, so that a sale opens in time. */
function tick() {
    for (const card of cards.values())
        card.tick();
    for (const row of orders.values())
        row.tick();
    setTimeout(tick, 1000 - clock.now() % 1000 + 5);
}

takeToken();
window.onhashchange = takeToken;
translate();
document.title = say('shop');
byId('another').onclick = enterAsAnybody;
byId('signout').onclick = leave;
byId('signin').querySelector('form').onsubmit = (event) => {
    event.preventDefault();
    const isIn = enter(byId('token').value.trim());
    setText(byId('signin').querySelector('.fault'), isIn ? '' : say('token_bad'));
};
await Promise.all([begin(), refreshVouchers()]);
every(lookMs, refreshVouchers);
every(ordersPeriodMs, refreshOrders);
tick();
