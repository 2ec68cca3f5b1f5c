/*
 * ticket.js - the ticket of a shopper for a voucher, and the proof of work that earns it.
 *
 * A worker solves the challenge. The service issues challenges from shortly before the sale opens.
 * A ticket is kept, because retries of the order may use it again.
 */
import {call, clock, Problem} from '/web/common.js';

const MARGIN_MS = 2000; /* a ticket or a challenge that expires sooner is not used */

function isFresh(answer) {
    return answer !== null && Date.parse(answer.expires_at) - clock.now() > MARGIN_MS;
}

export class Ticket {
    /** @changed  called when the state or the share has changed */
    constructor(voucherId, changed) {
        this.path = `/v1/vouchers/${voucherId}/ticket`;
        this.changed = changed;
        this.share = 0; /* the part of all devices that would have solved the challenge by now */
        this.ticket = null;
        this.proof = null;
        this.preparing = null;
        this.worker = null;
        this.isStopped = false;
    }

    get state() {
        if (this.preparing)
            return 'solving';
        if (isFresh(this.ticket) || isFresh(this.proof))
            return 'solved';
        return this.isStopped ? 'stopped' : 'idle';
    }

    /** Get a challenge and solve it, unless this work is under way already. Throws a Problem. */
    prepare(token) {
        this.isStopped = false;
        this.preparing ??= this.#prepare(token).finally(() => {
            this.preparing = null;
            this.changed();
        });
        this.changed();
        return this.preparing;
    }

    async #prepare(token) {
        this.share = 0;
        const answer = await call('POST', this.path, {token});
        if (answer.ticket)
            this.ticket = answer;
        else
            this.proof = {...answer, nonce: await this.#solve(answer)};
    }

    #solve({challenge, bits}) {
        return new Promise((solved, failed) => {
            const end = (settle, value) => {
                this.worker?.terminate();
                this.worker = null;
                settle(value);
            };
            this.fail = (code) => end(failed, new Problem(0, {code}, 0));
            if (this.isStopped) {
                this.fail('stopped');
                return;
            }
            this.worker = new Worker('/web/solver.js');
            this.worker.onerror = () => this.fail('network');
            this.worker.onmessage = ({data}) => {
                if (data.nonce !== undefined) {
                    end(solved, data.nonce);
                    return;
                }
                this.share = data.share;
                this.changed();
            };
            this.worker.postMessage({challenge, bits});
        });
    }

    /** Stop the work: prepare() and take() then throw a Problem with the code "stopped". */
    stop() {
        this.isStopped = true;
        if (this.worker)
            this.fail('stopped');
    }

    /** The ticket for an order. Throws a Problem. */
    async take(token) {
        if (!isFresh(this.ticket) && !isFresh(this.proof))
            await this.prepare(token);
        if (!isFresh(this.ticket))
            this.ticket = await this.#redeem(token);
        return this.ticket.ticket;
    }

    async #redeem(token) {
        const {challenge, nonce} = this.proof;
        try {
            return await call('POST', this.path, {token, body: {challenge, nonce}});
        } catch (problem) {
            if (problem.code !== 'invalid')
                throw problem;
            this.drop();
            throw new Problem(problem.status, {code: 'ticket_required'}, 0);
        }
    }

    /** The service has refused the ticket. */
    drop() {
        this.ticket = this.proof = null;
    }
}
