/* common.js - shared by both pages: requests, the clock of the server, tokens, elements. */

import {currency} from '/web/settings.js';

const TIMEOUT_MS = 15000;

/** A failed request. If there was no answer, the status is 0 and the code is "network". */
export class Problem extends Error {
    constructor(status, body, retryAfterS) {
        super(body.detail ?? body.title ?? body.code);
        this.status = status;
        this.code = body.code ?? 'unavailable';
        this.body = body;
        this.retryAfterS = retryAfterS;
    }
}

/** Send a request and return the JSON of the answer; throws a Problem. */
export async function call(method, path, {token, body, headers = {}} = {}) {
    const sent = {...headers};
    if (token)
        sent.Authorization = `Bearer ${token}`;
    if (body !== undefined)
        sent['Content-Type'] = 'application/json';
    let reply, answer;
    try {
        reply = await fetch(path, {
            method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body),
            cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT_MS),
        });
        answer = await reply.json();
    } catch (failure) {
        throw new Problem(reply?.status ?? 0, {code: 'network', detail: failure.message}, 0);
    }
    if (!reply.ok)
        throw new Problem(reply.status, answer, Number(reply.headers.get('Retry-After')) || 0);
    return {...answer, http: reply.status};
}

/**
 * The clock of the server. It is computed from the recent answer with the shortest round trip,
 * because the server reads its clock between the request and the answer. Changes of the device's
 * clock have no effect.
 */
export const clock = {
    offsetMs: 0,
    errorMs: Infinity,
    updatedAt: 0,

    device: () => performance.timeOrigin + performance.now(),

    now() {
        return this.device() + this.offsetMs;
    },

    update(serverTime, sentAt, receivedAt) {
        const errorMs = (receivedAt - sentAt) / 2;
        const drifted = this.errorMs + (receivedAt - this.updatedAt) / 1000;
        if (errorMs > drifted)
            return;
        this.offsetMs = Date.parse(serverTime) - (sentAt + receivedAt) / 2;
        this.errorMs = errorMs;
        this.updatedAt = receivedAt;
    },
};

/** List vouchers; also updates the clock. */
export async function listVouchers(query) {
    const sentAt = clock.device();
    const page = await call('GET', `/v1/vouchers?${query}`);
    if (page.items.length > 0)
        clock.update(page.items[0].server_time, sentAt, clock.device());
    return page.items;
}

/** Print amounts of money. An amount is a whole number of the smallest units of the currency, such
 *  as cents. `unit` is how many smallest units make one unit: 100 cents are one euro, 1000 fils are
 *  one dinar, and yen have `unit` 1. */
export function moneyOf(language, options = {}) {
    const format = new Intl.NumberFormat(language, {
        style: 'currency', currency, currencyDisplay: 'narrowSymbol', ...options,
    });
    const unit = 10 ** format.resolvedOptions().maximumFractionDigits;
    return {unit, print: (amount) => format.format(amount / unit)};
}

/** Returns a token for development, or null if the service issues none. It issues them only at
 *  loopback addresses. */
export async function devToken(role, userId) {
    if (!/^(localhost|127\.[\d.]+|\[::1\])$/.test(location.hostname))
        return null;
    try {
        return (await call('POST', '/v1/dev/token', {body: {role, user_id: userId}})).token;
    } catch (problem) {
        if (problem.status === 404)
            return null;
        throw problem;
    }
}

/** Returns the claims of a token, or null if the text is no token. They are not verified, and used
 *  only for display. */
export function claims(token) {
    try {
        return JSON.parse(atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/')));
    } catch {
        return null;
    }
}

/**
 * Move the token of a link (#token=...) from the address into the form. The user must still press
 * the button, so that a foreign link cannot sign anybody in. Returns whether there is a token.
 */
export function takeToken() {
    const token = new URLSearchParams(location.hash.slice(1)).get('token');
    if (token === null)
        return false;
    history.replaceState(null, '', location.pathname + location.search);
    document.getElementById('token').value = token;
    return true;
}

/** Creates an element, for example element('p', {class: 'small', onclick: f}, 'text', child). */
export function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === 'function')
            made[name] = value;
        else
            made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
}

/** Change the text only if it differs, so that a screen reader does not read it twice. */
export function setText(target, text) {
    if (target.textContent !== text)
        target.textContent = text;
}

/**
 * Call `work` periodically, never twice at the same time, and not while the page is hidden.
 *
 * @isDone  `work` has been called for the first time before this function was called
 */
export function every(periodMs, work, isDone = false) {
    let timer;
    const wait = (pauseMs) => { timer = setTimeout(turn, pauseMs * (0.9 + 0.2 * Math.random())); };
    const turn = async () => {
        clearTimeout(timer);
        let pauseMs = periodMs();
        if (!document.hidden)
            pauseMs = Math.max(pauseMs, (await work()) ?? 0);
        wait(pauseMs);
    };
    document.addEventListener('visibilitychange', () => {
        if (!document.hidden) {
            clearTimeout(timer);
            timer = setTimeout(turn, 0);
        }
    });
    if (isDone)
        wait(periodMs());
    else
        turn();
}
