/* admin.js - the dashboard: sign-in, the stats of each second, the vouchers. */
import {languages} from '/web/admin_texts.js';
import {Chart} from '/web/charts.js';
import {findProblems} from '/web/problems.js';
import {Stats, KEPT_S, percentile} from '/web/stats.js';
import {call, claims, devToken, element, every, moneyOf, setText, takeToken} from '/web/common.js';
import {initFind} from '/web/find.js';
import {initForms, openCopy, openEdit, openHistory, openNew, openRestock, stopSale} from '/web/forms.js';
import {language, text, translatePage} from '/web/i18n.js';

translatePage(languages);

const TOKEN = 'seckill.admin';
const STOCK_LINES_MAX = 5;
const SHOWN_MIN_S = 60;
const LOST_MS = 5000; /* after this time without an answer, the service counts as lost */

const byId = (id) => document.getElementById(id);
const stats = new Stats();
const stock = new Map(); /* from a second to a Map from a voucher id to the stock left */
let token = sessionStorage.getItem(TOKEN);
let vouchers = [];
let areVouchersKnown = false;
let isStarted = false;
let isLost = false;
let askedAt = Infinity; /* performance.now() when the unanswered request for the stats was sent */
let failure = null;     /* the Problem of the last request for the stats, or null */

/* -- number formats -- */

const whole = new Intl.NumberFormat(language, {maximumFractionDigits: 0});
const short = new Intl.NumberFormat(language, {notation: 'compact', maximumSignificantDigits: 3});
const count = (value) => (value >= 10000 ? short : whole).format(value);
const rate = (value) => value > 0 && value < 10 ? value.toFixed(1) : count(value);
const time = new Intl.DateTimeFormat(language, {
    year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23',
});
const money = moneyOf(language).print;

function formatDuration(us) {
    if (us === 0)
        return '0';
    if (us >= 1e6)
        return `${(us / 1e6).toFixed(1)} s`;
    return us >= 10000 ? `${Math.round(us / 1000)} ms` : `${(us / 1000).toFixed(1)} ms`;
}

function age(ms) {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 120)
        return text('age_s', {n: s});
    return s < 7200 ? text('age_min', {n: Math.floor(s / 60)}) : text('age_h', {n: Math.floor(s / 3600)});
}

/* -- charts -- */

const refusals = {
    s_sold_out: ['sold_out'],
    s_already: ['already_ordered', 'repeated'],
    s_closed: ['not_started', 'sale_ended'],
    s_in_progress: ['order_in_progress'],
    s_overloaded: ['overloaded', 'unavailable', 'outcome_unknown', 'internal'],
    s_other: ['ticket_required', 'not_found', 'misdirected'],
};
const refused = (delta) => Object.values(refusals).map((names) =>
    names.reduce((all, name) => all + (delta.outcomes[name] ?? 0), 0));
const spread = (name, ...parts) => (delta) => parts.map((p) => percentile(delta[name], stats.bounds, p));

const charts = [
    {id: 'orders', title: text('chart_orders'), series: [text('s_placed'), text('s_entered')], format: rate,
     value: ({outcomes}) => [outcomes.placed ?? 0, outcomes.entered ?? 0]},
    {id: 'refusals', title: text('chart_refusals'), series: Object.keys(refusals).map((name) => text(name)),
     format: rate, stacked: true, value: refused},
    {id: 'latency', title: text('chart_latency'), series: ['p50', 'p95', 'p99'], format: formatDuration,
     value: spread('total', 0.5, 0.95, 0.99)},
    {id: 'locks', title: text('chart_locks'), series: ['p50', 'p99'], format: formatDuration,
     value: spread('lock', 0.5, 0.99)},
    {id: 'commit', title: text('chart_commit'), series: ['p50', 'p99'], format: formatDuration,
     value: spread('commit', 0.5, 0.99)},
    {id: 'batch', title: text('chart_batch'), series: [text('s_mean')], format: rate,
     value: (delta) => [delta.batches > 0 ? delta.batched / delta.batches : null]},
    {id: 'queue', title: text('chart_queue'), series: [text('s_queued'), text('s_in_flight')], format: rate,
     value: (delta) => [delta.queue, delta.in_flight]},
    {id: 'requests', title: text('chart_requests'), series: [text('s_all')], format: rate,
     value: (delta) => [delta.requests]},
].map((each) => ({...each, chart: new Chart(each)}));
const stockChart = new Chart({id: 'stock', title: text('chart_stock'), series: [], format: count, filled: false});

/* Draws the seconds since the first known second, but at least the last minute. */
function drawCharts() {
    const last = stats.lastSecond();
    const known = Math.min(...stats.seconds.keys(), ...stock.keys());
    const first = Math.min(last - SHOWN_MIN_S, Math.max(known, last - KEPT_S + 1));
    const seconds = Array.from({length: last - first + 1}, (_, i) => first + i);
    const deltas = seconds.map((second) => stats.at(second));
    for (const {chart, value, series} of charts) {
        chart.draw(seconds.map((second, i) =>
            [new Date(second * 1000), ...(deltas[i] ? value(deltas[i]) : series.map(() => null))]),
            first * 1000, last * 1000);
    }
    drawStock(seconds, first, last);
}

/* Returns the open vouchers, or the newest voucher if none is open. */
function chartedVouchers() {
    const open = vouchers.filter((each) => each.state === 'open');
    return open.length > 0 ? open.slice(0, STOCK_LINES_MAX) : vouchers.slice(0, 1);
}

function drawStock(seconds, first, last) {
    const charted = chartedVouchers();
    const names = charted.map((each) => each.title.length > 24 ? `${each.title.slice(0, 22)}…` : each.title);
    stockChart.setSeries(names.map((name, i) => names.indexOf(name) === i ? name : `${name} (${charted[i].id})`));
    const left = (second, id) => (stock.get(second) ?? stock.get(second - 1))?.get(id) ?? null;
    stockChart.draw(seconds.map((second) =>
        [new Date(second * 1000), ...charted.map((each) => left(second, each.id))]),
        first * 1000, last * 1000);
}

/* -- current values -- */

const tiles = {};

function tile(name, value, unit = '') {
    if (!tiles[name]) {
        tiles[name] = {value: element('span', {}), unit: element('small', {})};
        byId('now').append(element('div', {'data-now': name}, element('dt', {}, text(name)),
            element('dd', {}, tiles[name].value, ' ', tiles[name].unit)));
    }
    setText(tiles[name].value, value);
    setText(tiles[name].unit, unit);
}

function drawNow() {
    const delta = stats.at(stats.lastSecond());
    const p99 = delta ? percentile(delta.total, stats.bounds, 0.99) : null;
    const left = chartedVouchers().filter((each) => each.state === 'open')
        .reduce((all, each) => all + each.stock_left, 0);
    tile('stock_on_sale', areVouchersKnown ? count(left) : '–');
    tile('placed', delta ? rate(delta.outcomes.placed ?? 0) : '–', '/s');
    tile('refused', delta ? rate(refused(delta).reduce((a, b) => a + b, 0)) : '–', '/s');
    tile('requests', delta ? rate(delta.requests) : '–', '/s');
    tile('latency_p99', p99 === null ? '–' : formatDuration(p99));
    tile('in_flight', delta ? count(delta.in_flight) : '–');
    tile('connections', delta ? count(delta.connections) : '–');
}

/* A screen reader announces a new problem, but not each change of its age (see aria-relevant). */
function drawProblems() {
    const list = byId('problems');
    const problems = findProblems(stats, age);
    while (list.children.length > problems.length)
        list.lastChild.remove();
    problems.forEach((problem, i) => {
        if (!list.children[i])
            list.append(element('li', {class: 'message bad'}, element('span', {}), ' ', element('code', {})));
        setText(list.children[i].firstChild, problem.text);
        setText(list.children[i].lastChild, `operator.md#${problem.section}`);
    });
}

function drawHealth() {
    const rows = stats.instances();
    const isUp = (name) => rows.length > 0 && rows.every((row) => row.stats[name] === row.stats.loops);
    const isBypassing = rows.some((row) => row.stats.bypassing > 0);
    const badges = isLost ? [['Postgres', '', 'unknown'], ['Redis', '', 'unknown'], ['', '', 'no_contact']] : [
        ['Postgres', isUp('postgres_up') ? 'good' : 'bad', isUp('postgres_up') ? 'up' : 'down'],
        ['Redis', isUp('redis_up') ? 'good' : isBypassing ? 'warn' : 'bad',
         isUp('redis_up') ? 'up' : isBypassing ? 'bypassed' : 'down'],
        ['', rows.length > 0 ? 'good' : 'bad', rows.length === 1 ? 'n_instance' : 'n_instances'],
    ];
    const list = byId('health');
    badges.forEach(([name, tone, state], i) => {
        const badge = list.children[i]?.firstChild ?? element('span', {});
        badge.className = `badge ${tone}`;
        setText(badge, `${name} ${text(state, {n: rows.length})}`.trim());
        if (!list.children[i])
            list.append(element('li', {}, badge));
    });
}

/* Updates the texts of a row. The row is not replaced, so the focus and the position of a screen
   reader stay. */
function fillRow(body, key, cells) {
    let row = body.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (!row) {
        row = element('tr', {'data-key': key}, ...cells.map(([, style]) => element('td', {class: style ?? ''})));
        body.append(row);
    }
    cells.forEach(([value], i) => { if (value !== undefined) setText(row.cells[i], value); });
    return row;
}

function keepRows(body, keys) {
    for (const row of [...body.rows]) {
        if (!keys.has(row.dataset.key))
            row.remove();
    }
}

function drawInstances() {
    const rows = stats.instances();
    for (const {name, stats: now, delta} of rows) {
        const p99 = delta ? percentile(delta.total, stats.bounds, 0.99) : null;
        fillRow(byId('instances'), name, [
            [name, 'title'], [age(stats.nowMs() - now.started_ms)], [count(now.loops), 'right'],
            [delta ? rate(delta.requests) : '–', 'right'], [delta ? rate(delta.outcomes.placed ?? 0) : '–', 'right'],
            [p99 === null ? '–' : formatDuration(p99), 'right'], [count(now.connections), 'right'],
            [count(now.locks_lost), 'right'], [text(now.postgres_up === now.loops ? 'up' : 'down')],
            [text(now.redis_up === now.loops ? 'up' : 'down')],
        ]);
    }
    keepRows(byId('instances'), new Set(rows.map((row) => row.name)));
}

/* -- vouchers -- */

const stateBadge = {open: 'good', upcoming: 'warn', ended: ''};
/* From a button of a row to what it does. */
const actions = {edit: openEdit, restock: openRestock, copy: openCopy, history: openHistory, stop: stopSale};

function drawVouchers() {
    const body = byId('vouchers');
    for (const voucher of vouchers) {
        const isOut = voucher.state === 'open' && voucher.stock_left === 0;
        const row = fillRow(body, voucher.id, [
            [voucher.title, 'title'], [undefined], [whole.format(voucher.stock_left), 'right'],
            [whole.format(voucher.stock_total), 'right'], [money(voucher.price_cents), 'right'],
            [time.format(Date.parse(voucher.begin_at))], [time.format(Date.parse(voucher.end_at))], [undefined, 'acts'],
        ]);
        if (!row.cells[1].firstChild) {
            row.cells[1].append(element('span', {}));
            if (voucher.admission === 'lottery')
                row.cells[1].append(' ', element('span', {class: 'badge'}, text('lottery')));
            row.cells[7].append(...Object.entries(actions).map(([verb, act]) => element('button', {
                type: 'button', class: 'small', 'data-verb': verb, onclick: () => act(row.voucher),
                'aria-label': text('verb_of', {verb: text(verb), title: voucher.title})}, text(verb))));
        }
        row.voucher = voucher;
        row.querySelector('[data-verb="stop"]').hidden = voucher.state !== 'open';
        row.cells[1].firstChild.className = `badge ${isOut ? 'bad' : stateBadge[voucher.state]}`;
        setText(row.cells[1].firstChild, text(isOut ? 'sold_out' : voucher.state));
    }
    keepRows(body, new Set(vouchers.map((each) => each.id)));
    vouchers.forEach((each, i) => {
        const row = body.querySelector(`[data-key="${each.id}"]`);
        if (body.rows[i] !== row && !body.contains(document.activeElement))
            body.insertBefore(row, body.rows[i]);
    });
}

/* Shows the outcome of a change, and then the change. */
function done(message, isBad = false) {
    byId('done').className = `message ${isBad ? 'bad' : 'good'}`;
    setText(byId('done'), message);
    refreshVouchers();
}

function updateVouchers(items) {
    const second = Math.floor(stats.nowMs() / 1000);
    vouchers = items;
    stock.set(second, new Map(items.map((each) => [each.id, each.stock_left])));
    for (const old of stock.keys()) {
        if (old < second - KEPT_S)
            stock.delete(old);
    }
}

/* -- every second -- */

/* While the service does not answer, all values are grey, and a notice shows the time of the
   values. */
function drawContact() {
    isLost = failure !== null || performance.now() - askedAt > LOST_MS;
    document.body.classList.toggle('lost', isLost);
    const of = stats.answeredMs ? text('as_of', {time: time.format(stats.answeredMs)}) : '';
    const reason = failure === null || failure.code === 'network' ? text('silent')
        : text('faulty', {detail: failure.message});
    setText(byId('contact'), isLost ? `${reason} ${of}`.trim() : '');
    drawHealth();
}

async function refreshStats() {
    askedAt = performance.now();
    try {
        const after = stats.lastId === null ? '' : `?after=${stats.lastId}`;
        const answer = await call('GET', `/v1/stats${after}`, {token});
        stats.update(answer);
        askedAt = Infinity;
        failure = null;
        setText(byId('notice'), answer.is_shared ? '' : text('one_only'));
        drawContact();
        drawNow();
        drawProblems();
        drawInstances();
        drawCharts();
        return 0;
    } catch (problem) {
        if (problem.status === 401 || problem.status === 403) {
            signOut(text('token_over'));
            return 0;
        }
        if (problem.status === undefined)
            throw problem;
        failure = problem;
        drawContact();
        return 2000;
    }
}

/* The vouchers are read from Postgres and the stats are not, so each has its own timer. */
async function refreshVouchers() {
    try {
        updateVouchers((await call('GET', '/v1/vouchers?limit=50', {})).items);
        areVouchersKnown = true;
        setText(byId('no-vouchers'), '');
        drawVouchers();
        return 0;
    } catch (problem) {
        if (problem.status === undefined)
            throw problem;
        areVouchersKnown = false;
        setText(byId('no-vouchers'), text('no_vouchers'));
        return 2000;
    }
}

/* -- sign-in -- */

function signOut(reason = '') {
    token = null;
    sessionStorage.removeItem(TOKEN);
    byId('board').hidden = byId('signout').hidden = true;
    byId('health').replaceChildren();
    setText(byId('contact'), '');
    byId('signin').hidden = false;
    setText(byId('signin').querySelector('.error'), reason);
}

function signIn(newToken) {
    if (claims(newToken)?.role !== 'admin') {
        signOut(text('token_bad'));
        return;
    }
    token = newToken;
    sessionStorage.setItem(TOKEN, token);
    byId('signin').hidden = true;
    byId('board').hidden = byId('signout').hidden = false;
    if (!isStarted) {
        every(() => 1000, async () => token === null ? 0 : refreshStats());
        every(() => 1000, async () => token === null ? 0 : refreshVouchers());
        setInterval(() => token === null || document.hidden || drawContact(), 1000);
    }
    isStarted = true;
}

async function start() {
    document.title = text('title');
    byId('charts').append(stockChart.element, ...charts.map((each) => each.chart.element));
    const page = {token: () => token, time: (iso) => time.format(Date.parse(iso)), money, done};
    initForms(page);
    initFind(page);
    byId('create').onclick = openNew;
    byId('signout').onclick = () => signOut();
    byId('demo').onclick = async () => signIn(await devToken('admin', 1));
    byId('signin').querySelector('form').onsubmit = (event) => {
        event.preventDefault();
        signIn(byId('token').value.trim());
    };
    matchMedia('(prefers-color-scheme: dark)').onchange = () => {
        for (const chart of [stockChart, ...charts.map((each) => each.chart)])
            chart.repaint();
    };
    if (token !== null)
        signIn(token);
    else
        signOut();
    byId('demo').hidden = await devToken('shopper', 1).catch(() => null) === null;
}

takeToken();
window.onhashchange = takeToken;
await start();
