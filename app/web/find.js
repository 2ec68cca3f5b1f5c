/* find.js - the dashboard's orders: find them, read their history, change them. */
import {call, element, setText} from '/web/common.js';

const byId = (id) => document.getElementById(id);
const badges = {unpaid: 'warn', paid: 'good', redeemed: 'good', cancelled: '', expired: 'bad', refunded: ''};
/* The changes that an admin can make, by the status of the order. */
const changes = {unpaid: ['Cancel'], paid: ['Redeem', 'Refund']};
const effects = {
    Cancel: 'The shopper can no longer pay. The piece goes back on sale.',
    Redeem: 'The shopper has used the voucher. This cannot be undone.',
    Refund: 'Return the money first. The piece goes back on sale. This cannot be undone.',
};

let page; /* {token(), time(iso), money(cents)} */
let query = null;
let cursor = null;

function say(text, isBad = false) {
    byId('found').className = `message ${isBad ? 'bad' : 'good'}`;
    setText(byId('found'), text);
}

/* -- changes -- */

/* Asks for confirmation, and then changes the order. */
function confirmChange(row, verb) {
    const dialog = byId('confirm');
    setText(byId('confirm-head'), `${verb} order ${row.order.id}?`);
    setText(byId('confirm-text'), `Shopper ${row.order.user_id}, ${page.money(row.order.price_cents)}. ${effects[verb]}`);
    setText(byId('confirm-yes'), verb);
    dialog.returnValue = '';
    dialog.onclose = () => {
        if (dialog.returnValue === 'yes')
            change(row, verb);
    };
    dialog.showModal();
}

async function change(row, verb) {
    try {
        const order = await call('POST', `/v1/orders/${row.order.id}/${verb.toLowerCase()}`, {token: page.token()});
        fill(row, order);
        say(`Order ${order.id} is ${order.status}.`);
        byId('orders-head').focus();
    } catch (problem) {
        say(problem.message, true);
    }
}

async function showHistory(order) {
    try {
        const {items} = await call('GET', `/v1/orders/${order.id}/events?limit=100`, {token: page.token()});
        setText(byId('history-head'), `Order ${order.id}`);
        byId('history-list').replaceChildren(...items.map((event) => element('li', {},
            `${page.time(event.at)}: ${event.to_status} by ${event.actor}${event.detail ? ` (${event.detail})` : ''}`)));
        byId('history').showModal();
    } catch (problem) {
        say(problem.message, true);
    }
}

/* -- list -- */

function button(text, order, onclick) {
    return element('button', {type: 'button', class: 'small', 'aria-label': `${text} order ${order.id}`, onclick}, text);
}

function fill(row, order) {
    row.order = order;
    row.replaceChildren(
        element('td', {}, order.id), element('td', {}, order.voucher_id), element('td', {}, order.user_id),
        element('td', {}, element('span', {class: `badge ${badges[order.status]}`}, order.status)),
        element('td', {class: 'right'}, page.money(order.price_cents)), element('td', {}, page.time(order.created_at)),
        element('td', {class: 'acts'}, button('History', order, () => showHistory(order)),
                ...(changes[order.status] ?? []).map((verb) => button(verb, order, () => confirmChange(row, verb)))));
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
        say(`${count} ${count === 1 ? 'order' : 'orders'}${cursor === null ? '' : ', and more may follow'}.`);
    } catch (problem) {
        say(problem.message, true);
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
