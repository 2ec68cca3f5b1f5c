/* i18n.js - the texts of the shop page in English and Chinese; formats of numbers and times. */
import {moneyOf} from '/web/common.js';

const languages = {
    en: {
        shop: 'Flash sale', skip: 'Skip to the vouchers', vouchers: 'Vouchers',
        orders: 'My orders', dashboard: 'Dashboard', contract: 'API',
        shopper: 'Shopper {id}', another: 'Switch', signout: 'Sign out',
        signin: 'Sign in', signin_why: 'To order, paste the token from your login.',
        token: 'Token', token_bad: 'This is not a valid token.',
        more: 'More', close: 'Close', no_vouchers: 'No vouchers are on sale.', no_orders: 'No orders yet.',
        upcoming: 'Upcoming', open: 'On sale', ended: 'Ended', sold_out: 'Sold out',
        worth: 'worth {money}', off: '{percent} off', limit: 'limit {n} per shopper',
        left: '{left} of {total} left', opens_in: 'opens in', ends_in: 'ends in',
        opens_at: 'Opens {time}', ended_at: 'ended {time}', days: '{n} d {rest}',
        buy: 'Buy for {money}', buying: 'Placing your order …',
        own: 'Ordered: see the order', own_unpaid: 'Ordered: pay now',
        now_open: 'The sale is open.',
        note: 'You have {time} to pay after the order.',
        placed: 'Order {id} is placed. Pay within {time}.',
        repeated: 'Order {id} is already placed.',
        sold_out_message: 'Sold out. If stock returns, you can order again.',
        already_ordered: 'You have already ordered this voucher: order {id}.',
        already_limit: 'You have reached the limit of this voucher: order {id}.',
        not_started: 'The sale opens in {time}.',
        sale_ended: 'The sale has ended.',
        order_in_progress: 'Another order of yours is in progress. Retrying in {s} s.',
        busy: 'The shop is busy. Retrying in {s} s ({n} of {of}).',
        look_up: 'The outcome of your order is unknown. Checking again in {s} s.',
        gave_up: 'The shop is still busy. Press again: you will not order twice.',
        unauthenticated: 'You are signed out. Sign in and press again.',
        forbidden: 'This token cannot place orders.', ticket_required: 'The ticket was not accepted. Press again.',
        solving: 'Your device is solving a puzzle. The order follows by itself.',
        stopped: 'Stopped. Press again: you will not order twice.', stop: 'Stop',
        work: 'Progress of the puzzle',
        work_idle: 'Your device solves a puzzle before the order.',
        work_solving: 'Solving the puzzle: {percent}',
        work_solved: 'Your device has solved the puzzle.',
        work_stopped: 'The puzzle is stopped. It starts again when you press Buy.',
        failed: 'The request failed: {detail}',
        offline: 'The shop cannot be reached. This page may be out of date.',
        unpaid: 'Unpaid', paid: 'Paid', redeemed: 'Redeemed', cancelled: 'Cancelled',
        expired: 'Expired', refunded: 'Refunded',
        order: 'Order {id}', placed_at: 'placed {time}', pay_within: '{time} left to pay', time_over: 'the time to pay is over',
        pay: 'Pay (demo)', cancel_short: 'Cancel', cancel: 'Cancel the order', keep: 'Keep it',
        confirm: 'Cancel this order?', confirm_text: '{title} goes back on sale.',
        order_paid: 'Order {id} is paid.', order_cancelled: 'Order {id} is cancelled.',
        wrong_state: 'The status of the order has changed.',
        voucher_n: 'Voucher {id}',
    },
    zh: {
        shop: '限时秒杀', skip: '跳到优惠券', vouchers: '优惠券', orders: '我的订单',
        dashboard: '控制台', contract: 'API', shopper: '用户 {id}', another: '换用户',
        signout: '退出', signin: '登录', signin_why: '购买前请粘贴登录系统发给你的令牌。',
        token: '令牌', token_bad: '令牌无效。', more: '更多', close: '关闭', no_vouchers: '目前没有在售的优惠券。',
        no_orders: '还没有订单。', upcoming: '即将开始', open: '抢购中', ended: '已结束',
        sold_out: '已抢光', worth: '面值 {money}', off: '立省 {percent}', limit: '每人限 {n} 张',
        left: '剩余 {left} / {total}', opens_in: '距开始', ends_in: '距结束',
        opens_at: '{time} 开始', ended_at: '{time} 结束', days: '{n} 天 {rest}',
        buy: '{money} 立即抢购', buying: '正在下单……',
        own: '已抢到，查看订单', own_unpaid: '已抢到，去付款',
        now_open: '现在开抢。',
        note: '下单后请在 {time} 内付款。',
        placed: '抢到了！订单 {id}，请在 {time} 内付款。', repeated: '已经抢到了。订单 {id}。',
        sold_out_message: '已抢光。如有库存返还，可再次抢购。',
        already_ordered: '你已购买过该优惠券：订单 {id}。', already_limit: '已达到限购数量：订单 {id}。',
        not_started: '还没开始，{time} 后开抢。', sale_ended: '活动已结束。',
        order_in_progress: '你的另一个请求正在处理，{s} 秒后重试。',
        busy: '现在人很多，{s} 秒后重试（第 {n} 次，共 {of} 次）。',
        look_up: '下单结果未知，{s} 秒后再次查询。',
        gave_up: '仍然繁忙。请再按一次，不会重复下单。',
        unauthenticated: '登录已失效，请登录后再按一次。', forbidden: '该令牌不能购买。',
        ticket_required: '购买凭证未被接受，请再按一次。',
        solving: '设备正在计算，完成后自动下单。', stopped: '已停止。请再按一次，不会重复下单。', stop: '停止',
        work: '计算进度', work_idle: '下单前，你的设备需要完成一道计算题。',
        work_solving: '正在计算：{percent}', work_solved: '计算已完成。',
        work_stopped: '计算已停止，再次点击抢购即可继续。',
        failed: '请求失败：{detail}', offline: '暂时连不上商店，页面内容可能不是最新的。',
        unpaid: '待付款', paid: '已付款', redeemed: '已使用', cancelled: '已取消',
        expired: '已过期', refunded: '已退款', order: '订单 {id}', placed_at: '{time} 下单',
        pay_within: '剩余付款时间 {time}', time_over: '已超时', pay: '付款（演示）',
        cancel_short: '取消', cancel: '取消订单',
        keep: '保留', confirm: '取消这个订单？', confirm_text: '{title}：取消后库存将返还。',
        order_paid: '订单 {id} 已付款。', order_cancelled: '订单 {id} 已取消。',
        wrong_state: '订单状态已变化。', voucher_n: '优惠券 {id}',
    },
};

const preferred = (navigator.languages ?? [navigator.language]).map((each) => each.toLowerCase().split('-')[0]);
export const language = preferred.find((each) => each in languages) ?? 'en';
const texts = languages[language];

/** Returns the text `name`, with each {...} replaced by the value of this name. */
export function text(name, values = {}) {
    return texts[name].replace(/\{(\w+)\}/g, (_, value) => values[value]);
}

export function hasText(name) {
    return name in texts;
}

/** Set the text of every element with the attribute data-t. */
export function translatePage() {
    document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
    for (const element of document.querySelectorAll('[data-t]'))
        element.textContent = text(element.dataset.t);
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
