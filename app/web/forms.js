/* forms.js - the dashboard's dialogs: create or edit a voucher, restock one, stop its sale; ask before a
   change. */
import {call, moneyOf, setText} from '/web/common.js';
import {showHistory} from '/web/history.js';
import {failure, hasText, language, text} from '/web/i18n.js';

const SOON_MS = 60000; /* until the sale of a new voucher begins */

const {unit} = moneyOf(language);
const byId = (id) => document.getElementById(id);
let page; /* {token(), time(iso), done(message, isBad)} */
let edited = null;

/* "2026-11-21T01:30:00" in the time zone of the device, the format of the input. */
function localTime(ms) {
    const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60000);
    return at.toISOString().slice(0, 19);
}

const numbers = ['stock', 'per_user_limit', 'pay_within_s', 'pow_bits', 'add'];
const amounts = ['price_cents', 'face_value_cents'];
const times = ['begin_at', 'end_at'];

/* An invalid number or time is sent unchanged: the service reports the error. */
function valueOf(input) {
    if (input.type === 'checkbox')
        return input.checked;
    const value = input.value.trim();
    if (value !== '' && numbers.includes(input.name) && Number.isInteger(Number(value)))
        return Number(value);
    if (value !== '' && amounts.includes(input.name) && Number.isFinite(Number(value)))
        return Math.round(Number(value) * unit);
    if (times.includes(input.name) && !Number.isNaN(Date.parse(value)))
        return new Date(value).toISOString();
    return value;
}

function inputsOf(form) {
    return [...form.elements].filter((each) => each.name && !each.disabled);
}

function showErrors(form, errors, rest) {
    let first = null;
    for (const input of inputsOf(form)) {
        const error = errors.find((each) => each.field === input.name);
        const own = `f_${input.name}`;
        setText(byId(`e-${input.name}`), error ? (hasText(own) ? text(own) : error.message) : '');
        input.setAttribute('aria-invalid', String(error !== undefined));
        first ??= error ? input : null;
    }
    setText(form.querySelector('[role="alert"]'), first ? '' : rest);
    first?.focus();
}

async function send(form, method, path, message) {
    const body = Object.fromEntries(inputsOf(form).map((input) => [input.name, valueOf(input)]));
    try {
        const voucher = await call(method, path, {token: page.token(), body});
        form.closest('dialog').close();
        page.done(message(voucher));
    } catch (problem) {
        showErrors(form, problem.body?.errors ?? [], failure(problem));
    }
}

function open(dialog, values) {
    const form = dialog.querySelector('form');
    for (const input of inputsOf(form)) {
        input.value = values[input.name] ?? '';
        input.checked = values[input.name] === true;
    }
    showErrors(form, [], '');
    dialog.showModal();
}

/* Opens the form of a voucher. If `voucher` is null, the form creates a voucher. */
function openForm(voucher, values) {
    const dialog = byId('edit');
    edited = voucher;
    setText(byId('edit-head'), text(voucher ? 'edit_head' : 'create'));
    for (const part of dialog.querySelectorAll('[data-new]')) {
        part.hidden = voucher !== null;
        part.querySelector('input, select').disabled = voucher !== null;
    }
    open(dialog, values);
}

/* The times of a sale that begins soon. */
function soon(lengthMs) {
    const beginMs = Date.now() + SOON_MS;
    return {begin_at: localTime(beginMs), end_at: localTime(beginMs + lengthMs)};
}

export function openNew() {
    openForm(null, {price_cents: '9', face_value_cents: '100', stock: '100', per_user_limit: '1', pay_within_s: '900',
                    pow_bits: '0', admission: 'first_come', ...soon(3600000)});
}

export function openEdit(voucher) {
    openForm(voucher, {
        ...voucher, begin_at: localTime(Date.parse(voucher.begin_at)), end_at: localTime(Date.parse(voucher.end_at)),
    });
}

/** Opens the form for a new voucher that is like another one. Its sale is as long, and begins soon. */
export function openCopy(voucher) {
    openForm(null, {
        ...voucher, price_cents: voucher.price_cents / unit, face_value_cents: voucher.face_value_cents / unit,
        stock: voucher.stock_total, ...soon(Date.parse(voucher.end_at) - Date.parse(voucher.begin_at)),
    });
}

const stockText = ({title, stock_left, stock_total}) => text('restocked', {title, left: stock_left, total: stock_total});

export function openRestock(voucher) {
    edited = voucher;
    setText(byId('restock-what'), stockText(voucher));
    open(byId('restock'), {add: ''});
}

/** Asks before a change. Returns whether the answer was yes. */
export function ask(question, about, verb) {
    const dialog = byId('confirm');
    setText(byId('confirm-head'), question);
    setText(byId('confirm-text'), about);
    setText(byId('confirm-yes'), verb);
    dialog.returnValue = '';
    dialog.showModal();
    return new Promise((resolve) => { dialog.onclose = () => resolve(dialog.returnValue === 'yes'); });
}

export async function openHistory({id, title}) {
    try {
        await showHistory(title, `/v1/vouchers/${id}/events?orders=false&`, page.token(), page.time);
    } catch (problem) {
        page.done(failure(problem), true);
    }
}

/** Ends the sale of a voucher at the current time of the database. */
export async function stopSale({id, title}) {
    if (!await ask(text('ask_stop', {title}), text('stop_effect'), text('stop')))
        return;
    try {
        const {server_time} = await call('GET', `/v1/vouchers/${id}`);
        await call('PATCH', `/v1/vouchers/${id}`, {token: page.token(), body: {end_at: server_time}});
        page.done(text('stopped', {title}));
        byId('vouchers-head').focus();
    } catch (problem) {
        page.done(failure(problem), true);
    }
}

export function initForms(given) {
    page = given;
    for (const button of document.querySelectorAll('dialog .close'))
        button.onclick = () => button.closest('dialog').close();
    byId('edit').querySelector('form').onsubmit = (event) => {
        event.preventDefault();
        if (edited === null)
            send(event.target, 'POST', '/v1/vouchers', ({title}) => text('created', {title}));
        else
            send(event.target, 'PATCH', `/v1/vouchers/${edited.id}`, ({title}) => text('saved', {title}));
    };
    byId('restock').querySelector('form').onsubmit = (event) => {
        event.preventDefault();
        send(event.target, 'POST', `/v1/vouchers/${edited.id}/restock`, stockText);
    };
}
