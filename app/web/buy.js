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

/** Codes of problems after which the request may be repeated. */
export const retryable = new Set(['network', 'overloaded', 'unavailable', 'outcome_unknown', 'rate_limited', 'order_in_progress']);

function newKey() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (each) => each.toString(16).padStart(2, '0')).join('');
}

/* Half of the pause is random, so that shoppers who were refused together do not retry together. */
function pauseMs(attempt, problem) {
    const grown = Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** attempt);
    return Math.max(problem.retryAfterS * 1000, grown / 2) + Math.random() * grown / 2;
}

async function attempt(voucher, ticket, token, key) {
    const headers = {'Idempotency-Key': key};
    if (voucher.requires_ticket)
        headers['Purchase-Ticket'] = await ticket.take(token);
    return call('POST', `/v1/vouchers/${voucher.id}/orders`, {token, headers});
}

/**
 * Place an order.
 *
 * @ticket  taken if the voucher requires one
 * @report  called as report(name, values) before each pause, with a text to show
 *
 * Returns the order, with `http` 201 or 200. If the outcome is an error, throws its Problem. After
 * the last attempt, throws the last Problem with `gave_up` set.
 */
export async function buy(voucher, ticket, userId, token, report) {
    const place = `seckill.key.${userId}.${voucher.id}`;
    const key = sessionStorage.getItem(place) ?? newKey();
    sessionStorage.setItem(place, key);
    for (let n = 0;; n++) {
        try {
            const order = await attempt(voucher, ticket, token, key);
            sessionStorage.removeItem(place);
            return order;
        } catch (problem) {
            if (!(problem instanceof Problem) || problem.code === 'stopped')
                throw problem; /* the key remains for the next press */
            if (problem.code === 'ticket_required')
                ticket.drop();
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
