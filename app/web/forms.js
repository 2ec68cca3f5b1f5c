/* forms.js - the dashboard's dialogs: create or edit a voucher, restock one. */
import {call, moneyOf, setText} from '/web/common.js';

const {unit} = moneyOf('en');
const byId = (id) => document.getElementById(id);
let page; /* {token(), done(text)} */
let edited = null;

/* "2026-11-21T01:30:00" in the time zone of the device, the format of the input. */
function localTime(ms) {
    const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60000);
    return at.toISOString().slice(0, 19);
}

const numbers = ['stock', 'per_user_limit', 'pay_within_s', 'add'];
const amounts = ['price_cents', 'face_value_cents'];
const times = ['begin_at', 'end_at'];

/* An invalid number or time is sent unchanged: the service reports the error. */
function valueOf(input) {
    const text = input.value.trim();
    if (text !== '' && numbers.includes(input.name) && Number.isInteger(Number(text)))
        return Number(text);
    if (text !== '' && amounts.includes(input.name) && Number.isFinite(Number(text)))
        return Math.round(Number(text) * unit);
    if (times.includes(input.name) && !Number.isNaN(Date.parse(text)))
        return new Date(text).toISOString();
    return text;
}

function inputsOf(form) {
    return [...form.elements].filter((each) => each.name && !each.disabled);
}

function showErrors(form, errors, rest) {
    let first = null;
    for (const input of inputsOf(form)) {
        const error = errors.find((each) => each.field === input.name);
        setText(byId(`e-${input.name}`), error?.message ?? '');
        input.setAttribute('aria-invalid', String(error !== undefined));
        first ??= error ? input : null;
    }
    setText(form.querySelector('[role="alert"]'), first ? '' : rest);
    first?.focus();
}

async function send(form, method, path, text) {
    const body = Object.fromEntries(inputsOf(form).map((input) => [input.name, valueOf(input)]));
    try {
        const voucher = await call(method, path, {token: page.token(), body});
        form.closest('dialog').close();
        page.done(text(voucher));
    } catch (problem) {
        showErrors(form, problem.body?.errors ?? [], problem.message);
    }
}

function open(dialog, values) {
    const form = dialog.querySelector('form');
    for (const input of inputsOf(form))
        input.value = values[input.name] ?? '';
    showErrors(form, [], '');
    dialog.showModal();
}

/** @voucher  null: create one */
export function openEdit(voucher) {
    const dialog = byId('edit');
    edited = voucher;
    setText(byId('edit-head'), voucher ? 'Edit the voucher' : 'New voucher');
    for (const part of dialog.querySelectorAll('[data-new]')) {
        part.hidden = voucher !== null;
        part.querySelector('input').disabled = voucher !== null;
    }
    open(dialog, voucher ? {
        ...voucher, begin_at: localTime(Date.parse(voucher.begin_at)), end_at: localTime(Date.parse(voucher.end_at)),
    } : {
        price_cents: '9', face_value_cents: '100', stock: '100', per_user_limit: '1', pay_within_s: '900',
        begin_at: localTime(Date.now() + 60000), end_at: localTime(Date.now() + 3660000),
    });
}

export function openRestock(voucher) {
    edited = voucher;
    setText(byId('restock-what'), `${voucher.title}: ${voucher.stock_left} of ${voucher.stock_total} are left.`);
    open(byId('restock'), {add: ''});
}

export function initForms(given) {
    page = given;
    for (const button of document.querySelectorAll('dialog .close'))
        button.onclick = () => button.closest('dialog').close();
    byId('edit').querySelector('form').onsubmit = (event) => {
        event.preventDefault();
        if (edited === null)
            send(event.target, 'POST', '/v1/vouchers', (made) => `Created: ${made.title}.`);
        else
            send(event.target, 'PATCH', `/v1/vouchers/${edited.id}`, (made) => `Saved: ${made.title}.`);
    };
    byId('restock').querySelector('form').onsubmit = (event) => {
        event.preventDefault();
        send(event.target, 'POST', `/v1/vouchers/${edited.id}/restock`,
             (made) => `${made.title}: ${made.stock_left} of ${made.stock_total} are left.`);
    };
}
