/*
 * stats.js - turns the counters of all instances into rates per second.
 *
 * Each instance reports its counters once per second; the difference of two reports is a delta.
 * Seconds are those of Redis, so the deltas of all instances can be added.
 */
export const KEPT_S = 600;

const GAP_MAX_MS = 10000; /* after a longer gap between two reports the delta is unknown */
const GONE_MS = 3500;     /* an instance counts as stopped if its last report is older */
const COMPLETE_MS = 1500; /* all instances have reported a second at this time after it */

function sum(list) {
    return list.reduce((all, each) => all + each, 0);
}

function addTo(target, list) {
    list.forEach((each, i) => { target[i] = (target[i] ?? 0) + each; });
}

/** Returns the percentile `p` of a histogram with these upper bounds. Assumes that the values
 *  within a bucket are evenly spread. */
export function percentile(buckets, bounds, p) {
    const all = sum(buckets);
    if (all === 0)
        return null;
    let below = 0;
    for (let i = 0; i < buckets.length; i++) {
        if (below + buckets[i] >= p * all && buckets[i] > 0) {
            const low = i > 0 ? bounds[i - 1] : 0;
            const high = bounds[i] ?? bounds[bounds.length - 1];
            return low + (high - low) * (p * all - below) / buckets[i];
        }
        below += buckets[i];
    }
    return bounds[bounds.length - 1];
}

/* Returns the delta of one instance between two reports. The outcomes and requests are per
   second. */
function difference(before, now, seconds) {
    const minus = (a, b) => a.map((each, i) => each - (b[i] ?? 0)); /* `b` may be shorter */
    const stage = (name) => minus(now.stages[name].buckets, before.stages[name].buckets);
    const outcomes = {};
    for (const [name, count] of Object.entries(now.outcomes))
        outcomes[name] = (count - (before.outcomes[name] ?? 0)) / seconds;
    return {
        outcomes, requests: (now.requests - before.requests) / seconds,
        total: stage('total'), lock: stage('lock'), commit: stage('commit'),
        batches: sum(minus(now.batches.buckets, before.batches.buckets)),
        batched: now.batches.sum - before.batches.sum,
        queue: now.queue, in_flight: now.in_flight, connections: now.connections,
    };
}

export class Stats {
    constructor() {
        this.lastId = null;
        this.last = new Map();    /* from an instance to {atMs, stats, delta} */
        this.seconds = new Map(); /* from a second to a Map from an instance to its delta */
        this.answeredMs = null;   /* time of the last answer, by the clock of the service */
        this.offsetMs = 0;        /* clock of the service minus clock of the device */
    }

    /** Add the answer of GET /v1/stats. */
    update(answer) {
        this.bounds = answer.stage_bounds_us;
        this.isShared = answer.is_shared;
        this.answeredMs = answer.now_ms;
        this.offsetMs = answer.now_ms - Date.now();
        for (const [id, instance, stats] of answer.items) {
            this.addReport(Number(id.split('-')[0]), instance, stats);
            if (answer.is_shared)
                this.lastId = id;
        }
        this.forget();
    }

    addReport(atMs, instance, stats) {
        const before = this.last.get(instance);
        const row = {atMs, stats, delta: null};
        const gapMs = before ? atMs - before.atMs : 0;
        if (before && gapMs <= 0)
            return;
        if (before && gapMs < GAP_MAX_MS && before.stats.started_ms === stats.started_ms) {
            row.delta = difference(before.stats, stats, gapMs / 1000);
            const second = Math.floor(atMs / 1000);
            if (!this.seconds.has(second))
                this.seconds.set(second, new Map());
            this.seconds.get(second).set(instance, row.delta);
        }
        this.last.set(instance, row);
    }

    nowMs() {
        return Date.now() + this.offsetMs;
    }

    forget() {
        const oldest = Math.floor(this.nowMs() / 1000) - KEPT_S;
        for (const second of this.seconds.keys()) {
            if (second < oldest)
                this.seconds.delete(second);
        }
        for (const [instance, row] of this.last) {
            if (row.atMs < oldest * 1000)
                this.last.delete(instance);
        }
    }

    /** Returns the instances that have a recent report. */
    instances() {
        const oldestMs = this.nowMs() - GONE_MS;
        return [...this.last].filter(([, row]) => row.atMs >= oldestMs)
            .map(([name, row]) => ({name, ...row}));
    }

    lastSecond() {
        return Math.floor((this.nowMs() - COMPLETE_MS) / 1000);
    }

    /** Returns the sum of the deltas of all instances in a second, or null if it is unknown. If an
     *  instance has no report in the second, because its clock differs a little, its delta of the
     *  second before is used. */
    at(second) {
        const deltas = new Map([...this.seconds.get(second - 1) ?? [], ...this.seconds.get(second) ?? []]);
        if (deltas.size === 0)
            return null;
        const all = {outcomes: {}, requests: 0, total: [], lock: [], commit: [], batches: 0, batched: 0,
                     queue: 0, in_flight: 0, connections: 0};
        for (const one of deltas.values()) {
            for (const [name, rate] of Object.entries(one.outcomes))
                all.outcomes[name] = (all.outcomes[name] ?? 0) + rate;
            for (const name of ['total', 'lock', 'commit'])
                addTo(all[name], one[name]);
            for (const name of ['requests', 'batches', 'batched', 'queue', 'in_flight', 'connections'])
                all[name] += one[name];
        }
        return all;
    }
}
