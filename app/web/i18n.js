/* i18n.js - the texts of a page in the language of the browser; formats of numbers and times. */
import {moneyOf} from '/web/common.js';

const preferred = (navigator.languages ?? [navigator.language]).map((each) => each.toLowerCase().split('-')[0]);
export const language = preferred.find((each) => ['en', 'zh'].includes(each)) ?? 'en';
let texts; /* from a name to a text in this language */

/** Returns the text `name`, with each {...} replaced by the value of this name. */
export function text(name, values = {}) {
    return texts[name].replace(/\{(\w+)\}/g, (_, value) => values[value]);
}

export function hasText(name) {
    return name in texts;
}

/** Returns the text for a failed request. */
export function failure(problem) {
    return hasText(problem.code) ? text(problem.code) : text('failed', {detail: problem.message});
}

/** Use these texts for the page. Set the text of every element with the attribute data-t, and the
 *  label of every element with the attribute data-label. */
export function translatePage(languages) {
    texts = languages[language];
    document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
    for (const element of document.querySelectorAll('[data-t]'))
        element.textContent = text(element.dataset.t);
    for (const element of document.querySelectorAll('[data-label]'))
        element.ariaLabel = text(element.dataset.label);
}

const numberFormat = new Intl.NumberFormat(language);
const percentFormat = new Intl.NumberFormat(language, {style: 'percent'});
const timeFormat = new Intl.DateTimeFormat(language, {
    year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23',
});

export const money = moneyOf(language, {trailingZeroDisplay: 'stripIfInteger'}).print;
export const number = (value) => numberFormat.format(value);
export const percent = (part) => percentFormat.format(part);
export const moment = (ms) => timeFormat.format(ms);

/** Returns a duration, rounded up to the second, such as "04:05", "1:04:05" or "3 d 1:04:05". */
export function duration(ms) {
    const total = Math.max(0, Math.ceil(ms / 1000));
    const two = (value) => String(value).padStart(2, '0');
    const minutes = `${two(Math.floor(total / 60) % 60)}:${two(total % 60)}`;
    const hours = Math.floor(total / 3600) % 24;
    const days = Math.floor(total / 86400);
    if (days > 0)
        return text('days', {n: days, rest: `${hours}:${minutes}`});
    return hours > 0 ? `${hours}:${minutes}` : minutes;
}
