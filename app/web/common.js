/* common.js - what both pages stand on: requests, the server's clock, tokens, elements. */

const ANSWER_WITHIN_MS = 15000;

/** An answer that is not what was asked for; status 0 and code "network": none came. */
export class Problem extends Error {
    constructor(status, body, retryAfterS) {
        super(body.detail ?? body.title ?? body.code);
        this.status = status;
        this.code = body.code ?? 'unavailable';
        this.body = body;
        this.retryAfterS = retryAfterS;
    }
}

/** One request; its JSON, or a Problem thrown. */
export async function call(method, path, {token, body, headers = {}} = {}) {
    const sent = {...headers};
    if (token)
        sent.Authorization = `Bearer ${token}`;
    if (body !== undefined)
        sent['Content-Type'] = 'application/json';
    let reply, told;
    try {
        reply = await fetch(path, {
            method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body),
            cache: 'no-store', signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
        });
        told = await reply.json();
    } catch (failure) {
        throw new Problem(reply?.status ?? 0, {code: 'network', detail: failure.message}, 0);
    }
    if (!reply.ok)
        throw new Problem(reply.status, told, Number(reply.headers.get('Retry-After')) || 0);
    return {...told, http: reply.status};
}

/**
 * The server's clock, by the answer that came back the quickest of late: an answer tells
 * the time somewhere between asking and hearing. Changes of this device's clock do nothing.
 */
export const clock = {
    offsetMs: 0,
    errorMs: Infinity,
    learnedAt: 0,

    device: () => performance.timeOrigin + performance.now(),

    now() {
        return this.device() + this.offsetMs;
    },

    learn(serverTime, askedAt, heardAt) {
        const errorMs = (heardAt - askedAt) / 2;
        const drifted = this.errorMs + (heardAt - this.learnedAt) / 1000;
        if (errorMs > drifted)
            return;
        this.offsetMs = Date.parse(serverTime) - (askedAt + heardAt) / 2;
        this.errorMs = errorMs;
        this.learnedAt = heardAt;
    },
};

/** Vouchers of the shop, and with them the time. */
export async function listVouchers(query) {
    const askedAt = clock.device();
    const page = await call('GET', `/v1/vouchers?${query}`);
    if (page.items.length > 0)
        clock.learn(page.items[0].server_time, askedAt, clock.device());
    return page.items;
}

/** A token for development, or null where the service gives none. */
export async function devToken(role, userId) {
    try {
        return (await call('POST', '/v1/dev/token', {body: {role, user_id: userId}})).token;
    } catch (problem) {
        if (problem.status === 404)
            return null;
        throw problem;
    }
}

/** The claims of a token, unproven: for telling who is signed in. Null: it is none. */
export function claims(token) {
    try {
        return JSON.parse(atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/')));
    } catch {
        return null;
    }
}

/**
 * A link may bring a token, #token=...: it goes into the form, and out of the address. To
 * sign in stays the press of a button, so that nobody's link signs in anybody.
 */
export function takeToken() {
    const token = new URLSearchParams(location.hash.slice(1)).get('token');
    if (token === null)
        return;
    history.replaceState(null, '', location.pathname + location.search);
    document.getElementById('token').value = token;
}

/** An element: element('p', {class: 'small', onclick: f}, 'text', child). */
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

/** Change the text only where it differs, so that nothing is read out twice. */
export function setText(target, text) {
    if (target.textContent !== text)
        target.textContent = text;
}

/** Call `work` every so often, never twice at once, and not while nobody looks. */
export function every(periodMs, work) {
    let timer;
    const turn = async () => {
        clearTimeout(timer);
        let pauseMs = periodMs();
        if (!document.hidden)
            pauseMs = Math.max(pauseMs, (await work()) ?? 0);
        timer = setTimeout(turn, pauseMs * (0.9 + 0.2 * Math.random()));
    };
    document.addEventListener('visibilitychange', () => {
        if (!document.hidden) {
            clearTimeout(timer);
            timer = setTimeout(turn, 0);
        }
    });
    turn();
}
