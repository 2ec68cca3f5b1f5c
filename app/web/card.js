/* card.js - a voucher with its countdown, its stock and the button. */
import {buy, retryable} from '/web/buy.js';
import {call, clock, element, setText} from '/web/common.js';
import {duration, hasText, moment, money, number, percent, text} from '/web/i18n.js';
import {focusOrder, liveOrders, refreshOrders, showOrder, titles} from '/web/orders.js';
import {shopper, signOut} from '/web/shopper.js';
import {Ticket} from '/web/ticket.js';

const EARLY_MS = 60000; /* the work on a challenge may begin this time before the sale opens */
const PAUSE_MS = 1000; /* before an entry is read again */
const SPREAD_MS = 700; /* within which all pages read their entry after the draw */

function isLottery(voucher) {
    return voucher.admission === 'lottery';
}

function openState(voucher) {
    const now = clock.now();
    if (now < voucher.beginMs)
        return 'upcoming';
    if (now >= voucher.endMs)
        return isLottery(voucher) && !voucher.drawn_at ? 'drawing' : 'ended';
    return voucher.stock_left > 0 ? 'open' : 'sold_out';
}

/* Where a text is cut off, a button opens the whole text. */
const cutOff = new ResizeObserver((changes) => {
    for (const {target} of changes)
        target.nextElementSibling.hidden = target.scrollHeight <= target.clientHeight;
});

const badgeOf = {upcoming: 'warn', open: 'good', drawing: 'warn', ended: '', sold_out: 'bad'};

export class Card {
    constructor(voucher) {
        const title = `voucher-${voucher.id}`;
        this.isBuying = false;
        this.badge = element('span', {class: 'badge'});
        this.timeName = element('span', {});
        this.time = element('strong', {class: 'number', role: 'timer', 'aria-live': 'off'});
        this.title = element('h3', {id: title});
        this.text = element('p', {class: 'text'});
        this.more = element('button', {type: 'button', class: 'more small', 'aria-describedby': title, hidden: '',
                                       onclick: () => this.showAll()}, text('more'));
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
        this.note = element('p', {class: 'note small muted'});
        this.message = element('p', {class: 'message', role: 'status'});
        this.element = element('article', {class: 'card voucher', 'data-id': voucher.id, 'aria-labelledby': title},
            element('header', {}, this.badge, element('span', {class: 'small muted'}, this.timeName, ' ', this.time)),
            element('div', {class: 'what'}, this.title, element('div', {class: 'about'}, this.text, this.more)),
            element('p', {class: 'price'}, this.price, this.worth, this.off),
            element('div', {class: 'supply'},
                element('div', {class: 'track', 'aria-hidden': 'true'}, this.fill),
                element('p', {class: 'stock'}, this.left, this.limit)),
            this.button,
            element('div', {class: 'after'}, this.work, element('div', {class: 'outcome'}, this.message, this.note)));
        this.voucher = {id: voucher.id};
        this.renewTicket();
        this.update(voucher);
    }

    /* Called for a new shopper, because a ticket belongs to one shopper. */
    renewTicket() {
        this.ticket?.stop();
        this.ticket = new Ticket(this.voucher.id, () => this.showWork());
        /* Half of the time is random, so that waiting shoppers do not ask at the same time. */
        this.earlyMs = EARLY_MS * (1 + Math.random()) / 2;
        this.entry = null; /* 'entered', 'won' or 'lost' */
        this.readEntry();
    }

    update(voucher) {
        const {admission, drawn_at} = this.voucher;
        if (voucher.stock_left !== this.voucher?.stock_left)
            this.changedAt = clock.device();
        this.voucher = {...voucher, beginMs: Date.parse(voucher.begin_at), endMs: Date.parse(voucher.end_at)};
        const off = 1 - voucher.price_cents / voucher.face_value_cents;
        titles.set(voucher.id, voucher.title);
        setText(this.title, voucher.title);
        if (this.text.textContent !== voucher.description) {
            this.text.textContent = voucher.description;
            cutOff.unobserve(this.text);
            cutOff.observe(this.text);
        }
        setText(this.price, money(voucher.price_cents));
        setText(this.worth, text('worth', {money: money(voucher.face_value_cents)}));
        setText(this.off, off > 0 ? text('off', {percent: percent(off)}) : '');
        setText(this.left, text('left', {left: number(voucher.stock_left), total: number(voucher.stock_total)}));
        setText(this.limit, voucher.per_user_limit > 1 ? text('limit', {n: voucher.per_user_limit}) : '');
        setText(this.note, text(isLottery(voucher) ? 'lottery_note' : 'note',
                                {time: duration(1000 * voucher.pay_within_s)}));
        if (voucher.admission !== admission)
            this.readEntry();
        else if (voucher.drawn_at !== drawn_at) /* all pages learn of the end of the draw at the same time */
            setTimeout(() => this.readEntry(), SPREAD_MS * Math.random());
        this.fill.style.width = `${100 * voucher.stock_left / Math.max(1, voucher.stock_total)}%`;
        this.tick();
    }

    /* Updates all parts of the card that change with time. Called every second, and by update(). */
    tick() {
        const state = openState(this.voucher);
        const hasOpened = this.state === 'upcoming' && state === 'open';
        this.state = state;
        this.element.dataset.state = state;
        this.element.classList.toggle('over', state === 'ended' || state === 'sold_out');
        this.badge.className = `badge ${badgeOf[state]}`;
        setText(this.badge, text(state));
        this.showTime(state);
        this.showOwn();
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

    /* If this fails, tick() tries again when half of the time is left. */
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

    showAll() {
        setText(document.getElementById('about-head'), this.voucher.title);
        setText(document.getElementById('about-text'), this.voucher.description);
        document.getElementById('about').showModal();
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

    /* If the shopper has reached the limit of orders, the button leads to the order. */
    showOwn() {
        const had = this.own;
        const orders = liveOrders(this.voucher.id);
        this.own = orders.length < this.voucher.per_user_limit ? null
            : orders.find(({status}) => status === 'unpaid') ?? orders.at(-1);
        this.element.classList.toggle('own', this.own !== null);
        if (had && !this.own)
            this.showMessage(''); /* the message said that the shopper has an order */
    }

    showButton(state) {
        const price = money(this.voucher.price_cents);
        const labels = {
            upcoming: () => text('opens_at', {time: moment(this.voucher.beginMs)}),
            open: () => text(isLottery(this.voucher) ? this.entry ?? 'enter' : 'buy', {money: price}),
            drawing: () => text('drawing'),
            ended: () => text('ended'),
            sold_out: () => text('sold_out'),
        };
        const canPay = this.own?.status === 'unpaid' && shopper.isDev;
        setText(this.button, this.own ? text(canPay ? 'own_unpaid' : 'own') : labels[state]());
        this.button.setAttribute('aria-disabled', String((state !== 'open' || this.entry !== null) && !this.own));
    }

    showMessage(name, values = {}, tone = '') {
        this.message.className = `message ${tone}`;
        setText(this.message, name === '' ? '' : text(name, values));
    }

    async press() {
        if (this.isBuying)
            return;
        if (this.own) {
            focusOrder(this.own.id);
            return;
        }
        if (this.entry !== null)
            return;
        if (this.state === 'upcoming' || this.state === 'ended' || this.state === 'drawing') {
            this.showOutcome(this.state === 'upcoming' ? 'not_started' : 'sale_ended', {});
            return;
        }
        if (shopper.token === null) {
            this.showMessage('unauthenticated', {}, 'warn');
            document.getElementById('signin').showModal();
            return;
        }
        this.isBuying = true;
        this.button.setAttribute('aria-busy', 'true');
        setText(this.button, text(isLottery(this.voucher) ? 'entering' : 'buying'));
        this.showMessage(this.needsWork() && this.ticket.state !== 'solved' ? 'solving' : '');
        try {
            this.showPlaced(await buy(this.voucher, this.ticket, shopper.id, shopper.token,
                                      (name, values) => this.showMessage(name, values, 'warn')));
        } catch (problem) {
            this.showOutcome(problem.gave_up ? 'gave_up' : problem.code, problem);
            if (problem.code === 'already_ordered')
                await this.readOrder(problem.body.order_id);
        }
        this.isBuying = false;
        this.button.removeAttribute('aria-busy');
        this.tick();
        document.dispatchEvent(new Event('stock'));
    }

    /* Reads an order that was placed in another tab or on another device. */
    async readOrder(id) {
        try {
            showOrder(await call('GET', `/v1/orders/${id}`, {token: shopper.token}));
        } catch {
            /* refreshOrders() will read the order later */
        }
    }

    /* Reads the shopper's entry in a lottery, which another device may have made. */
    async readEntry() {
        const {token} = shopper;
        if (!isLottery(this.voucher) || token === null)
            return;
        try {
            const {status} = await call('GET', `/v1/vouchers/${this.voucher.id}/entry`, {token});
            if (shopper.token === token)
                this.showEntry(status);
        } catch (problem) {
            if (retryable.has(problem.code)) /* otherwise the shopper has not entered */
                setTimeout(() => this.readEntry(), PAUSE_MS * (1 + Math.random()));
        }
    }

    showEntry(status) {
        this.entry = status;
        this.showMessage(`${status}_message`, {}, status === 'lost' ? '' : 'good');
        if (status === 'won')
            refreshOrders();
        this.tick();
    }

    showPlaced(order) {
        if (order.http === 202) {
            this.showEntry(order.status);
            return;
        }
        const left = Date.parse(order.expires_at) - clock.now();
        this.showMessage(order.http === 201 || order.status === 'unpaid' ? 'placed' : 'repeated',
                 {id: order.id, time: duration(left)}, 'good');
        showOrder(order);
    }

    showOutcome(code, problem) {
        const id = problem.body?.order_id;
        const time = duration(this.voucher.beginMs - clock.now());
        if (code === 'unauthenticated')
            signOut(); /* clears all messages, so this call comes first */
        if (code === 'sold_out')
            this.showMessage('sold_out_message', {}, 'bad');
        else if (code === 'already_ordered')
            this.showMessage(this.voucher.per_user_limit > 1 ? 'already_limit' : code, {id}, 'good');
        else if (hasText(code))
            this.showMessage(code, {id, time}, 'warn');
        else
            this.showMessage('failed', {detail: problem.message}, 'bad');
        if (code === 'not_started')
            clock.errorMs = Infinity; /* the next answer sets the clock */
    }
}
