/* problems.js - the current problems in words, their ages, and the sections of the operator
   guide. */

const STOPPED_MS = 3500;    /* an instance is missing if its last report is older */
const FORGOTTEN_MS = 60000; /* an instance was removed on purpose if its last report is older */
const TAKEOVER_MS = 5000;   /* within this time another instance begins to expire orders */

const failures = {
    overloaded: 'orders per second are refused because the queues are full',
    unavailable: 'orders per second are refused because a backend is away',
    outcome_unknown: 'orders per second have an outcome that their shoppers do not know',
    internal: 'orders per second are refused by Postgres',
};

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
    const add = (text, section) => problems.push({text, section});
    const noPostgres = held(stats, 'no_postgres'), noRedis = held(stats, 'no_redis'), bypassed = held(stats, 'bypassing');
    const notDurable = held(stats, 'not_durable'), noStandby = held(stats, 'no_standby');
    const notExpiring = stats.isShared ? heldInAll(stats, 'not_expiring') : undefined;
    if (noPostgres !== undefined)
        add(`Postgres has been away for ${age(noPostgres)}: nothing can be sold.`, 'failures');
    if (bypassed !== undefined)
        add(`Orders have been sold without locks for ${age(bypassed)}, because Redis is away.`, 'failures');
    else if (noRedis !== undefined)
        add(`Redis has been away or has refused writes for ${age(noRedis)}: nothing can be sold.`, 'failures');
    if (notDurable !== undefined)
        add(`Orders have not been durable for ${age(notDurable)}: a crash of Postgres can lose them.`, 'postgres');
    if (noStandby !== undefined)
        add(`Durability has been local only for ${age(noStandby)}: no synchronous standby is attached.`, 'failures');
    if (noPostgres === undefined && notExpiring > TAKEOVER_MS)
        add(`No instance has expired unpaid orders for ${age(notExpiring)}: their stock does not return.`, 'alerts');
    const outcomes = stats.at(stats.lastSecond())?.outcomes ?? {};
    for (const [outcome, text] of Object.entries(failures)) {
        if (outcomes[outcome] > 0)
            add(`${Math.ceil(outcomes[outcome])} ${text}.`, 'alerts');
    }
    if (stats.isShared) {
        for (const [name, row] of stats.last) {
            const ms = stats.nowMs() - row.atMs;
            if (ms > STOPPED_MS && ms < FORGOTTEN_MS)
                add(`Instance ${name} has not reported for ${age(ms)}.`, 'failures');
        }
    }
    return problems;
}
