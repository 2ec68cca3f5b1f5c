/* orders.js - the shopper's orders. When orders have changed, the document gets the event "orders".
   After a change that affects the stock of a voucher, it gets the event "stock". */
import {call, clock, devToken, element, setText} from '/web/common.js';
import {duration, failure, moment, money, text} from '/web/i18n.js';
import {shopper, signOut} from '/web/shopper.js';

const byId = (id) => document.getElementById(id);
const orders = new Map(); /* from an order id to its Row */

/** From a voucher id to its title, for all vouchers that the page has read. */
export const titles = new Map();

const live = ['unpaid', 'paid', 'redeemed'];
const orderBadge = {unpaid: 'warn', paid: 'good', redeemed: 'good', cancelled: '', expired: 'bad', refunded: ''};

class Row {
    constructor(order) {
        const name = `order-${order.id}`;
        this.title = element('h3', {tabindex: -1});
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
                    element('span', {id: name, class: 'small muted number'}, text('order', {id: order.id})),
                    element('time', {class: 'small muted number', datetime: order.created_at},
                            text('placed_at', {time: moment(Date.parse(order.created_at))})), this.time)),
            element('div', {class: 'acts'}, this.pay, this.cancel), this.message);
        this.update(order);
    }

    update(order) {
        this.order = order;
        this.tick();
    }

    tick() {
        const {status, expires_at, voucher_id, price_cents} = this.order;
        const title = titles.get(voucher_id) ?? text('voucher_n', {id: voucher_id});
        setText(this.title, `${title} · ${money(price_cents)}`);
        const left = Date.parse(expires_at) - clock.now();
        const isUnpaid = status === 'unpaid';
        this.element.dataset.status = status;
        this.badge.className = `badge ${orderBadge[status]}`;
        setText(this.badge, text(status));
        setText(this.time, isUnpaid ? (left > 0 ? text('pay_within', {time: duration(left)}) : text('time_over')) : '');
        this.pay.hidden = !isUnpaid || !shopper.isDev;
        this.cancel.hidden = !isUnpaid;
    }

    /* Scrolls to the order, and moves the focus to its first button, or else to its title. */
    focus() {
        this.element.scrollIntoView({block: 'center'});
        (this.pay.hidden ? this.title : this.pay).focus({preventScroll: true});
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
            setText(this.message, failure(problem));
        }
        this.pay.disabled = this.cancel.disabled = false;
        refreshOrders();
        document.dispatchEvent(new Event('stock'));
    }
}

export function showOrder(order) {
    const row = orders.get(order.id);
    byId('orders').querySelector('.empty')?.remove();
    if (row && order.status === 'unpaid' && row.order.status !== 'unpaid')
        return; /* a list may be older than a change that this page has made */
    if (row) {
        row.update(order);
        return;
    }
    orders.set(order.id, new Row(order));
    byId('orders').prepend(orders.get(order.id).element);
}

/** Returns the live orders of a voucher that the page has read. */
export function liveOrders(voucherId) {
    return [...orders.values()].map((row) => row.order)
        .filter((order) => order.voucher_id === voucherId && live.includes(order.status));
}

export function focusOrder(id) {
    orders.get(id).focus();
}

export async function refreshOrders() {
    if (shopper.token === null)
        return 0;
    try {
        const page = await call('GET', '/v1/orders?limit=50', {token: shopper.token});
        for (const order of page.items.reverse())
            showOrder(order);
        if (orders.size === 0 && !byId('orders').firstChild)
            byId('orders').append(element('li', {class: 'empty'}, text('no_orders')));
        document.dispatchEvent(new Event('orders'));
    } catch (problem) {
        if (problem.code === 'unauthenticated')
            signOut();
        return 5000;
    }
    return 0;
}

/* Orders are read often while an order may expire, and rarely otherwise. */
export function ordersPeriodMs() {
    return [...orders.values()].some((row) => row.order.status === 'unpaid') ? 3000 : 15000;
}

/** Updates all parts of the orders that change with time. */
export function tickOrders() {
    for (const row of orders.values())
        row.tick();
}

/** Removes all orders, because another shopper has signed in. */
export function clearOrders() {
    for (const row of orders.values())
        row.element.remove();
    orders.clear();
}
