/* find.js - the dashboard's orders: find them, read their history, change them. */
import {call, element, setText} from '/web/common.js';
import {ask} from '/web/forms.js';
import {showHistory} from '/web/history.js';
import {failure, text} from '/web/i18n.js';

const byId = (id) => document.getElementById(id);
const badges = {unpaid: 'warn', paid: 'good', redeemed: 'good', cancelled: '', expired: 'bad', refunded: ''};
/* The changes that an admin can make, by the status of the order. */
const changes = {unpaid: ['cancel'], paid: ['redeem', 'refund']};

let page; /* {token(), time(iso), money(cents)} */
let query = null;
let cursor = null;

function say(message, isBad = false) {
    byId('found').className = `message ${isBad ? 'bad' : 'good'}`;
    setText(byId('found'), message);
}

/* -- changes -- */

/* Asks, and then changes the order. */
async function change(row, verb) {
    const {id, user_id, price_cents} = row.order;
    if (!await ask(text('ask_order', {verb: text(verb), id}),
                   text('about_order', {shopper: user_id, price: page.money(price_cents), effect: text(`${verb}_effect`)}),
                   text(verb)))
        return;
    try {
        const order = await call('POST', `/v1/orders/${id}/${verb}`, {token: page.token()});
        fill(row, order);
        say(text('changed', {id, status: text(order.status)}));
        byId('orders-head').focus();
    } catch (problem) {
        say(failure(problem), true);
    }
}

async function openHistory({id}) {
    try {
        await showHistory(text('of_order', {id}), `/v1/orders/${id}/events?`, page.token(), page.time);
    } catch (problem) {
        say(failure(problem), true);
    }
}

/* -- list -- */

function button(verb, order, onclick) {
    return element('button', {type: 'button', class: 'small', onclick,
                              'aria-label': text('verb_order', {verb: text(verb), id: order.id})}, text(verb));
}

function fill(row, order) {
    row.order = order;
    row.replaceChildren(
        element('td', {}, order.id), element('td', {}, order.voucher_id), element('td', {}, order.user_id),
        element('td', {}, element('span', {class: `badge ${badges[order.status]}`}, text(order.status))),
        element('td', {class: 'right'}, page.money(order.price_cents)), element('td', {}, page.time(order.created_at)),
        element('td', {class: 'acts'}, button('history', order, () => openHistory(order)),
                ...(changes[order.status] ?? []).map((verb) => button(verb, order, () => change(row, verb)))));
}

async function readPage() {
    try {
        const answer = await call('GET', `/v1/orders?${query}${cursor ? `&cursor=${cursor}` : ''}`, {token: page.token()});
        for (const order of answer.items) {
            const row = element('tr', {'data-order': order.id});
            fill(row, order);
            byId('orders').append(row);
        }
        cursor = answer.next_cursor;
        byId('more').hidden = cursor === null;
        const count = byId('orders').rows.length;
        say(text(cursor !== null ? 'found_more' : count === 1 ? 'found_one' : 'found', {n: count}));
    } catch (problem) {
        say(failure(problem), true);
    }
}

function find(event) {
    event.preventDefault();
    const values = {[byId('find-by').value]: byId('find-text').value.trim(), status: byId('find-status').value};
    query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ''));
    cursor = null;
    byId('orders').replaceChildren();
    readPage();
}

/** @given  {token(), time(iso), money(cents)} */
export function initFind(given) {
    page = given;
    byId('find').onsubmit = find;
    byId('more').onclick = readPage;
}
