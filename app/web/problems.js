/* problems.js - the current problems in words, their ages, and the sections of the operator
   guide. */
import {text} from '/web/i18n.js';

const STOPPED_MS = 3500;    /* an instance is missing if its last report is older */
const FORGOTTEN_MS = 60000; /* an instance was removed on purpose if its last report is older */
const TAKEOVER_MS = 5000;   /* within this time another instance begins to expire orders */

/* The outcomes that are problems if orders have them. */
const failures = ['overloaded', 'unavailable', 'outcome_unknown', 'internal'];

/* Returns how long a condition has held in the instance where it began first. Returns undefined if
   it holds in no instance. */
function held(stats, condition) {
    const since = stats.instances().map((row) => row.stats.since_ms[condition]).filter((each) => each !== undefined);
    return since.length > 0 ? stats.nowMs() - Math.min(...since) : undefined;
}

/* Returns how long a condition has held in all instances. Returns undefined if it does not hold in
   all. */
function heldInAll(stats, condition) {
    const since = stats.instances().map((row) => row.stats.since_ms[condition]);
    return since.length > 0 && !since.includes(undefined) ? stats.nowMs() - Math.max(...since) : undefined;
}

/**
 * Finds the problems that the stats show, the worst first.
 *
 * @age  formats milliseconds
 *
 * Returns  a list of {text, section}; the section is one of app/docs/operator.md
 */
export function findProblems(stats, age) {
    const problems = [];
    const add = (name, values, section) => problems.push({text: text(name, values), section});
    const noPostgres = held(stats, 'no_postgres'), noRedis = held(stats, 'no_redis'), bypassed = held(stats, 'bypassing');
    const notDurable = held(stats, 'not_durable'), noStandby = held(stats, 'no_standby');
    const notExpiring = stats.isShared ? heldInAll(stats, 'not_expiring') : undefined;
    if (noPostgres !== undefined)
        add('no_postgres', {age: age(noPostgres)}, 'failures');
    if (bypassed !== undefined)
        add('bypassing', {age: age(bypassed)}, 'failures');
    else if (noRedis !== undefined)
        add('no_redis', {age: age(noRedis)}, 'failures');
    if (notDurable !== undefined)
        add('not_durable', {age: age(notDurable)}, 'postgres');
    if (noStandby !== undefined)
        add('no_standby', {age: age(noStandby)}, 'failures');
    if (noPostgres === undefined && notExpiring > TAKEOVER_MS)
        add('not_expiring', {age: age(notExpiring)}, 'alerts');
    const outcomes = stats.at(stats.lastSecond())?.outcomes ?? {};
    for (const outcome of failures) {
        if (outcomes[outcome] > 0)
            add(`n_${outcome}`, {n: Math.ceil(outcomes[outcome])}, 'alerts');
    }
    if (stats.isShared) {
        for (const [name, row] of stats.last) {
            const ms = stats.nowMs() - row.atMs;
            if (ms > STOPPED_MS && ms < FORGOTTEN_MS)
                add('not_reporting', {name, age: age(ms)}, 'failures');
        }
    }
    return problems;
}
