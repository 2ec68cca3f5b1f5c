/* history.js - the dialog with the history of an order or of a voucher. */
import {call, element, setText} from '/web/common.js';
import {text} from '/web/i18n.js';

const byId = (id) => document.getElementById(id);
const names = {title: 'voucher_title', begin_at: 'opens', end_at: 'ends', pay_within_s: 'pay_within'};

/* Returns the value of a field of a voucher in words. */
function inWords(field, value, time) {
    if (typeof value === 'boolean')
        return text(value ? 'yes' : 'no');
    return field.endsWith('_at') ? time(value) : String(value);
}

/* Returns what happened, in words. An event of an order has a status. Of a voucher, only an edit has a
   detail. */
function describe({to_status, stock_change, detail}, time) {
    if (to_status)
        return text(to_status) + (detail ? ` (${detail})` : '');
    if (!detail)
        return text('stock_change', {n: stock_change > 0 ? `+${stock_change}` : stock_change});
    return Object.entries(JSON.parse(detail)).map(([field, values]) => {
        const [before, after] = values.map((value) => inWords(field, value, time));
        return text('field_change', {field: text(names[field] ?? field), before, after});
    }).join('; ');
}

async function readEvents(token, path) {
    const items = [];
    let page, after = '';
    do {
        page = await call('GET', `${path}limit=100${after}`, {token});
        items.push(...page.items);
        after = `&after=${page.next_cursor}`;
    } while (page.next_cursor !== null);
    return items;
}

/**
 * Reads a history and shows it, the oldest event first. Throws a Problem.
 *
 * @path  of the events, up to the parameter "limit"
 * @time  formats a time of the service
 */
export async function showHistory(head, path, token, time) {
    const events = await readEvents(token, path);
    setText(byId('history-head'), head);
    byId('history-list').replaceChildren(...events.map((event) => element('li', {},
        text('event', {time: time(event.at), what: describe(event, time), actor: event.actor}))));
    byId('history').showModal();
}
