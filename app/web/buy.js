/*
 * buy.js - one press of the button: retries until the outcome is final.
 *
 * All attempts of a press carry the same Idempotency-Key, so they place at most one order even
 * if answers are lost. The key survives a reload of the page.
 */
import {call, Problem} from '/web/common.js';

const ATTEMPTS = 8;
const PAUSE_MS = 500;
const PAUSE_MAX_MS = 8000;
const HASHES_AT_ONCE = 256;

const retryable = new Set(['network', 'overloaded', 'unavailable', 'outcome_unknown', 'rate_limited', 'order_in_progress']);

function newKey() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (each) => each.toString(16).padStart(2, '0')).join('');
}

/* Half of the pause is random, so that shoppers who were refused together do not retry together. */
function pauseMs(attempt, problem) {
    const grown = Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** attempt);
    return Math.max(problem.retryAfterS * 1000, grown / 2) + Math.random() * grown / 2;
}

function leadingZeroBits(bytes) {
    let bits = 0;
    for (const each of bytes) {
        if (each !== 0)
            return bits + Math.clz32(each) - 24;
        bits += 8;
    }
    return bits;
}

async function solve(challenge, bits) {
    const encoder = new TextEncoder();
    for (let first = 0;; first += HASHES_AT_ONCE) {
        const tries = Array.from({length: HASHES_AT_ONCE}, async (_, i) => {
            const text = encoder.encode(`${challenge}:${first + i}`);
            return leadingZeroBits(new Uint8Array(await crypto.subtle.digest('SHA-256', text)));
        });
        const found = (await Promise.all(tries)).findIndex((each) => each >= bits);
        if (found >= 0)
            return String(first + found);
    }
}

async function fetchTicket(voucher, token, report) {
    const path = `/v1/vouchers/${voucher.id}/ticket`;
    let answer = await call('POST', path, {token});
    if (answer.challenge) {
        report('solving');
        const nonce = await solve(answer.challenge, answer.bits);
        answer = await call('POST', path, {token, body: {challenge: answer.challenge, nonce}});
    }
    return answer.ticket;
}

async function attempt(voucher, token, key, report) {
    const headers = {'Idempotency-Key': key};
    if (voucher.requires_ticket)
        headers['Purchase-Ticket'] = await fetchTicket(voucher, token, report);
    return call('POST', `/v1/vouchers/${voucher.id}/orders`, {token, headers});
}

/**
 * Place an order.
 *
 * @report  called with a text to show meanwhile: report(name, values)
 *
 * Returns the order, with `http` 201 or 200; throws the Problem that is the outcome, or after the
 * last attempt the last Problem with `gave_up` set.
 */
export async function buy(voucher, userId, token, report) {
    const place = `seckill.key.${userId}.${voucher.id}`;
    const key = sessionStorage.getItem(place) ?? newKey();
    sessionStorage.setItem(place, key);
    for (let n = 0;; n++) {
        try {
            const order = await attempt(voucher, token, key, report);
            sessionStorage.removeItem(place);
            return order;
        } catch (problem) {
            if (!(problem instanceof Problem))
                throw problem;
            const isFinal = !retryable.has(problem.code);
            if (isFinal)
                sessionStorage.removeItem(place);
            problem.gave_up = !isFinal && n + 1 === ATTEMPTS;
            if (isFinal || problem.gave_up)
                throw problem;
            const waitMs = pauseMs(n, problem);
            const texts = {order_in_progress: 'order_in_progress', outcome_unknown: 'look_up'};
            report(texts[problem.code] ?? 'busy', {s: Math.ceil(waitMs / 1000), n: n + 1, of: ATTEMPTS - 1});
            await new Promise((done) => setTimeout(done, waitMs));
        }
    }
}
